"""Finds the transactional batches of a Produce request by their headers, and verifies them with the coordinator.

The transactional id of a request may be missing, or may contradict its batches. So the header of every partition's
batch is read, and not only the first one (CVE-2018-17196).
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterator
from dataclasses import replace
from typing import NamedTuple

from kcli.errors import InvalidPidMappingException
from kcli.protocol.batches.batch import (
    CURRENT_MAGIC,
    FLAGS_POSITION,
    HEADER_SIZE,
    MAGIC_POSITION,
    TRANSACTIONAL,
    ProducerFields,
    read_producer,
)
from kcli.protocol.messages.produce import ProduceRequest, TopicProduceData
from kcli.protocol.wire.produce_codec import TOPIC_ID_FROM
from kcli.server.coordinators.transaction_verification import TransactionalClient, VerificationResults
from kcli.server.handlers.ports import BrokerContext
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.requests.turns import Steps

_ABORTABLE_FROM = 11
_TV2_FROM = 12
PARTITIONS_PER_STEP = 10


class TransactionalBatch(NamedTuple):
    """A transactional batch of the request. `leader` is None if this broker does not lead its partition."""

    leader: LeaderPartition | None
    producer: ProducerFields


def transactional_steps(context: BrokerContext, request: ProduceRequest) -> Steps[list[TransactionalBatch]]:
    """Finds the transactional batches of a large request. Yields after each topic, and after a few partitions."""
    found: list[TransactionalBatch] = []
    for topic in request.topic_data:
        for begin in range(0, len(topic.partition_data), PARTITIONS_PER_STEP):
            some = topic.partition_data[begin : begin + PARTITIONS_PER_STEP]
            found += transactional_batches(context, (replace(topic, partition_data=some),))
            yield
        yield
    return found


def transactional_batches(
    context: BrokerContext, topics: tuple[TopicProduceData, ...]
) -> Iterator[TransactionalBatch]:
    for topic in topics:
        for part in topic.partition_data:
            records = part.records
            if (
                records
                and len(records) >= HEADER_SIZE
                and records[MAGIC_POSITION] == CURRENT_MAGIC
                and records[FLAGS_POSITION] & TRANSACTIONAL
            ):
                yield TransactionalBatch(_leader_of(context, topic, part.index), read_producer(records))


def _leader_of(context: BrokerContext, topic: TopicProduceData, index: int) -> LeaderPartition | None:
    name = topic.name
    if context.api_version >= TOPIC_ID_FROM:
        found = context.ports.metadata.topics.topic_by_id(topic.topic_id)
        if found is None:
            return None
        name = found.name
    return context.ports.replicas.find(name, index)


def verified(
    context: BrokerContext,
    request: ProduceRequest,
    allowed: Container[str],
    batches: list[TransactionalBatch],
) -> VerificationResults | Awaitable[VerificationResults]:
    """Verifies that each partition belongs to the transaction. Raises KafkaError if the request has batches of several
    producers."""
    assert request.transactional_id is not None
    first = batches[0].producer
    if any(batch.producer.producer_id != first.producer_id for batch in batches):
        raise InvalidPidMappingException("A transactional request holds batches of more than one producer id")
    version = context.api_version
    client = TransactionalClient(
        transactional_id=request.transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        adds=version >= _TV2_FROM,
        knows_abortable=version >= _ABORTABLE_FROM,
    )
    # The coordinator may add the partitions to the transaction, so the client must be allowed to write to them.
    led = [
        (batch.leader, batch.producer.base_sequence)
        for batch in batches
        if batch.leader is not None and batch.leader.topic in allowed
    ]
    return context.ports.verifier.verify(client, led)
