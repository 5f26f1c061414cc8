"""Finds the transactional batches of a Produce request by their headers, and verifies them with the coordinator.

The transactional id of a request may be missing, or may contradict its batches. So the header of every partition's
batch is read, and not only the first one (CVE-2018-17196).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple, Protocol

from kcli.errors import InvalidPidMappingException
from kcli.model.pace import Pace
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
from kcli.server.coordinators.transaction_verification import (
    TransactionalClient,
    TransactionVerifier,
    VerificationResults,
)
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.replicas import Replicas
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.context import RequestContext

_ABORTABLE_FROM = 11
_TV2_FROM = 12
EXAMINE_COST = 1
"""The cost to examine a batch, or to find the lowest sequence of its partition."""
EXAMINED_AT_ONCE = 50


class ProducePorts(Protocol):
    @property
    def loader(self) -> MetadataLoader: ...
    @property
    def replicas(self) -> Replicas: ...
    @property
    def verifier(self) -> TransactionVerifier: ...


Context = RequestContext[ProducePorts]


class TransactionalBatch(NamedTuple):
    """A transactional batch of the request. `leader` is None if this broker does not lead its partition."""

    leader: LeaderPartition | None
    producer: ProducerFields


def topic_name(context: Context, topic: TopicProduceData) -> str | None:
    """The name of a topic of the request, or None if its id is unknown (KIP-516)."""
    if context.api_version < TOPIC_ID_FROM:
        return topic.name
    image = context.ports.loader.image.topics.topic_by_id(topic.topic_id)
    return None if image is None else image.name


async def transactional_batches(
    context: Context, topics: Sequence[TopicProduceData]
) -> list[TransactionalBatch]:
    """Finds the transactional batches."""
    batches: list[TransactionalBatch] = []
    for topic in topics:
        for begin in range(0, len(topic.partition_data) or 1, EXAMINED_AT_ONCE):
            some = topic.partition_data[begin : begin + EXAMINED_AT_ONCE]
            await context.pace(EXAMINE_COST + len(some) * EXAMINE_COST)
            for part in some:
                records = part.records
                if (
                    records
                    and len(records) >= HEADER_SIZE
                    and records[MAGIC_POSITION] == CURRENT_MAGIC
                    and records[FLAGS_POSITION] & TRANSACTIONAL
                ):
                    name = topic_name(context, topic)
                    leader = None if name is None else context.ports.replicas.find(name, part.index)
                    batches.append(TransactionalBatch(leader, read_producer(records)))
    return batches


async def verified(
    context: Context, request: ProduceRequest, allowed: Container[str], batches: list[TransactionalBatch]
) -> VerificationResults:
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
    sequences = await _first_sequences(batches, allowed, context.pace)
    return await context.ports.verifier.verify(client, sequences, context.pace)


async def _first_sequences(
    batches: list[TransactionalBatch], allowed: Container[str], pace: Pace
) -> list[tuple[LeaderPartition, int]]:
    """The lowest first sequence of the batches of each partition to which the client may write. The coordinator may add
    these partitions to the transaction. Raises KafkaError for a batch of another producer."""
    producer_id = batches[0].producer.producer_id
    lowest: dict[LeaderPartition, int] = {}
    for begin in range(0, len(batches), EXAMINED_AT_ONCE):
        some = batches[begin : begin + EXAMINED_AT_ONCE]
        await pace(len(some) * EXAMINE_COST)
        for leader, producer in some:
            if producer.producer_id != producer_id:
                raise InvalidPidMappingException(
                    "A transactional request holds batches of more than one producer id"
                )
            if leader is not None and leader.topic in allowed:
                lowest[leader] = min(producer.base_sequence, lowest.get(leader, producer.base_sequence))
    return list(lowest.items())
