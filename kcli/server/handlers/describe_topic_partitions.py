"""DescribeTopicPartitions (key 75, version 0): pages of topics, sorted by name, with their eligible leader replicas
(KIP-966)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.metadata.image import MetadataImage, TopicImage
from kcli.model import topic_names
from kcli.model.acl import ResourceType
from kcli.model.pace import mapped, sorted_in_slices
from kcli.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kcli.server.handlers.shared.cluster_view import view_partition
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import DESCRIBE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME, Rights

STEP_COST = 5
"""The cost to handle a name or a partition, in microseconds."""


@dataclass(frozen=True, slots=True)
class Ports:
    config: BrokerConfig
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(
    context: Context, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describes the topics from the cursor on, up to the limit of partitions."""
    image = context.ports.loader.image
    limit = context.ports.config.integer("max.request.partition.size.limit")
    room = max(1, min(request.response_partition_limit, limit))
    first = 0 if request.cursor is None else request.cursor.partition_index
    start = None if request.cursor is None else request.cursor.topic_name
    names, topics = await _visible(context, request, await _names(context, image, request))
    for at, name in enumerate(names):
        await context.pace(STEP_COST)
        topic = image.topics.topic(name)
        if topic is None:
            topics.append(_missing(context.rights, name))
            continue
        begin = first if name == start else 0
        numbers = [number for number in sorted(topic.partitions) if number >= begin]
        topics.append(await _topic(context, image, topic, numbers[:room]))
        if len(numbers) > room:
            cursor = ResponseCursor(topic_name=name, partition_index=numbers[room])
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)
        room -= len(numbers)
        if room == 0:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=_after(names, at))
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


async def error_response(
    context: Context, request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    topics = await mapped(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=error.code),
    )
    return DescribeTopicPartitionsResponse(topics=topics)


async def _visible(
    context: Context, request: DescribeTopicPartitionsRequest, names: Sequence[str]
) -> tuple[Sequence[str], list[DescribeTopicPartitionsResponseTopic]]:
    """Returns the names of the topics that the client may describe, and the refusals of the other topics of the
    request."""
    allowed = await context.allowed(DESCRIBE_TOPIC, names)
    if allowed is EVERY_NAME:
        return names, []
    # A cursor must not name a topic that the client may not see.
    visible = []
    refused = []
    for name in names:
        await context.pace(STEP_COST)
        if name in allowed:
            visible.append(name)
        elif request.topics:
            refused.append(_refused(name))
    return visible, refused


async def _names(
    context: Context, image: MetadataImage, request: DescribeTopicPartitionsRequest
) -> Sequence[str]:
    """The requested topic names from the cursor on, sorted. If the request contains no names, all topic names."""
    all_topics = not request.topics
    names: Sequence[str] = image.topics.names
    if not all_topics:
        names = await sorted_in_slices(tuple({topic.name for topic in request.topics}), str, context.pace)
    cursor = request.cursor
    if cursor is None:
        return names
    if cursor.partition_index < 0:
        raise InvalidRequestException("DescribeTopicPartitionsRequest cursor partition must be valid.")
    begin = bisect_left(names, cursor.topic_name)
    if not all_topics and cursor.topic_name not in names[begin : begin + 1]:
        raise InvalidRequestException(
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
        )
    return names[begin:]


def _after(names: Sequence[str], at: int) -> ResponseCursor | None:
    return ResponseCursor(topic_name=names[at + 1], partition_index=0) if at + 1 < len(names) else None


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The answer for a topic that the client may not describe. The answer is the same if the topic does not exist."""
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _missing(rights: Rights, name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = topic_names.is_valid(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=topic_names.is_internal(name),
        topic_authorized_operations=rights.operations(ResourceType.TOPIC, name),
    )


async def _topic(
    context: Context, image: MetadataImage, topic: TopicImage, numbers: Iterable[int]
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for number in numbers:
        await context.pace(STEP_COST)
        partition = topic.partitions[number]
        view = view_partition(image, partition, context.listener, no_listener=ErrorCode.LISTENER_NOT_FOUND)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=view.error_code,
                partition_index=number,
                leader_id=view.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.elr,
                last_known_elr=partition.last_known_elr,
                offline_replicas=view.offline_replicas,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic_names.is_internal(topic.name),
        partitions=tuple(partitions),
        topic_authorized_operations=context.rights.operations(ResourceType.TOPIC, topic.name),
    )
