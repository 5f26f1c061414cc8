"""DescribeProducers (key 61, version 0): the producer state of a partition (KIP-664). The leader and the followers of
the partition answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import KafkaError, TopicAuthorizationException, UnknownTopicOrPartitionException
from kcli.model.pace import nested
from kcli.model.topic_names import is_valid, validate
from kcli.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kcli.server.partitions.replicas import Replicas
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import READ_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.storage.log.producer_entries import ProducerEntry

_NONE = -1


PARTITION_COST = 5
"""The cost of a partition or of a producer."""


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader
    replicas: Replicas


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeProducersRequest) -> DescribeProducersResponse:
    topics = []
    for topic in request.topics:
        await context.pace(PARTITION_COST)
        # A name that no topic can have is invalid for every client, so this answer needs no permission.
        is_refused = is_valid(topic.name) and not context.rights.allows(READ_TOPIC, topic.name)
        partitions = []
        for index in topic.partition_indexes:
            await context.pace(PARTITION_COST)
            if is_refused:
                partitions.append(_failed(index, TopicAuthorizationException()))
            else:
                partitions.append(await _described(context, topic.name, index))
        topics.append(TopicResponse(name=topic.name, partitions=tuple(partitions)))
    return DescribeProducersResponse(topics=tuple(topics))


async def error_response(
    context: Context, request: DescribeProducersRequest, error: KafkaError
) -> DescribeProducersResponse:
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partition_indexes,
        lambda _, index: _failed(index, error),
        lambda topic, parts: TopicResponse(name=topic.name, partitions=parts),
    )
    return DescribeProducersResponse(topics=topics)


async def _described(context: Context, topic: str, index: int) -> PartitionResponse:
    try:
        validate(topic)
    except KafkaError as error:
        return _failed(index, error)
    if topic not in context.ports.loader.image.topics:
        return _failed(index, UnknownTopicOrPartitionException())
    try:
        log = context.ports.replicas.hosted(topic, index).log
    except KafkaError as error:
        # Kafka gives a text only for a topic that is unknown, invalid or refused.
        return PartitionResponse(partition_index=index, error_code=error.code)
    producers = []
    for entry in log.producers.active():
        await context.pace(PARTITION_COST)
        producers.append(_state(entry))
    return PartitionResponse(partition_index=index, active_producers=tuple(producers))


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def _state(entry: ProducerEntry) -> ProducerState:
    start = entry.current_txn_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=_NONE if start is None else start,
    )
