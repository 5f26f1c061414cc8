"""Finds the transactional batches of a Produce request by their headers, and verifies them with the coordinator.

The transactional id of a request may be missing, or may contradict its batches. So the header of every partition's
batch is read, and not only the first one (CVE-2018-17196).
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterator
from dataclasses import replace
from functools import partial
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
from kcli.server.requests.answers import then
from kcli.server.requests.turns import Steps, run_in_turns

_ABORTABLE_FROM = 11
_TV2_FROM = 12
PARTITIONS_PER_STEP = 10
BATCHES_PER_TURN = 1000
"""Batches that are examined in one iteration of the event loop. A batch takes 0.5 µs."""


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
    version = context.api_version
    client = TransactionalClient(
        transactional_id=request.transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        adds=version >= _TV2_FROM,
        knows_abortable=version >= _ABORTABLE_FROM,
    )
    led = run_in_turns(_led(batches, first.producer_id, allowed), BATCHES_PER_TURN)
    return then(led, partial(context.ports.verifier.verify, client))


def _led(
    batches: list[TransactionalBatch], producer_id: int, allowed: Container[str]
) -> Steps[list[tuple[LeaderPartition, int]]]:
    """The lowest first sequence of the batches of each partition to which the client may write. The coordinator may add
    these partitions to the transaction. Raises KafkaError for a batch of another producer."""
    lowest: dict[LeaderPartition, int] = {}
    for leader, producer in batches:
        if producer.producer_id != producer_id:
            raise InvalidPidMappingException(
                "A transactional request holds batches of more than one producer id"
            )
        if leader is not None and leader.topic in allowed:
            lowest[leader] = min(producer.base_sequence, lowest.get(leader, producer.base_sequence))
        yield
    return list(lowest.items())
