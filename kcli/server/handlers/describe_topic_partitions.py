"""DescribeTopicPartitions (key 75, version 0): pages of topics, sorted by name, with their eligible leader replicas
(KIP-966)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Iterable, Sequence

from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.metadata.image import MetadataImage, TopicImage
from kcli.model import topic_names
from kcli.model.acl import ResourceType
from kcli.model.steps import sorted_steps
from kcli.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.cluster_view import view_partition
from kcli.server.requests.access import DESCRIBE_TOPIC
from kcli.server.requests.answers import then
from kcli.server.requests.rights import EVERY_NAME, Rights
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns

PER_TURN = 200
"""Names or partitions that are handled in one iteration of the event loop. Each takes 1 to 5 µs."""


def handle(
    context: BrokerContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    return run_in_turns(_page(context, context.ports.metadata, request), PER_TURN)


def error_response(
    _context: BrokerContext, request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    topics = in_turns(
        request.topics,
        lambda topic: DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=error.code),
        REFUSALS_PER_TURN,
    )
    return then(topics, lambda failed: DescribeTopicPartitionsResponse(topics=tuple(failed)))


def _page(
    context: BrokerContext, image: MetadataImage, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    """The topics from the cursor on, up to the limit of partitions. Yields after each name and partition."""
    limit = context.ports.config.integer("max.request.partition.size.limit")
    room = max(1, min(request.response_partition_limit, limit))
    first = 0 if request.cursor is None else request.cursor.partition_index
    start = None if request.cursor is None else request.cursor.topic_name
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    rights = context.rights
    asked = yield from _names(image, request)
    seen = yield from rights.allowed_steps(DESCRIBE_TOPIC, asked)
    names = asked
    if seen is not EVERY_NAME:
        # A cursor must not name a topic that the client may not see.
        names = []
        for name in asked:
            if name in seen:
                names.append(name)
            elif request.topics:
                topics.append(_refused(name))
            yield
    for at, name in enumerate(names):
        yield
        topic = image.topics.topic(name)
        if topic is None:
            topics.append(_missing(rights, name))
            continue
        begin = first if name == start else 0
        numbers = [number for number in sorted(topic.partitions) if number >= begin]
        topics.append((yield from _topic(context, image, topic, numbers[:room])))
        if len(numbers) > room:
            cursor = ResponseCursor(topic_name=name, partition_index=numbers[room])
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)
        room -= len(numbers)
        if room == 0:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=_after(names, at))
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _names(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> Steps[Sequence[str]]:
    """The requested topic names from the cursor on, sorted. If the request contains no names, all topic names."""
    all_topics = not request.topics
    names: Sequence[str] = image.topics.names
    if not all_topics:
        names = yield from sorted_steps(tuple({topic.name for topic in request.topics}), str)
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


def _topic(
    context: BrokerContext, image: MetadataImage, topic: TopicImage, numbers: Iterable[int]
) -> Steps[DescribeTopicPartitionsResponseTopic]:
    partitions = []
    for number in numbers:
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
        yield
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic_names.is_internal(topic.name),
        partitions=tuple(partitions),
        topic_authorized_operations=context.rights.operations(ResourceType.TOPIC, topic.name),
    )
