"""DescribeTopicPartitions (key 75, version 0): topics with their ELRs, sorted by name and in pages (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.metadata.image import TopicImage
from kcli.model import topic_names
from kcli.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.cluster_view import view_partition
from kcli.server.requests.access import DESCRIBE_TOPIC, per_resource
from kcli.server.requests.operations import TOPIC_OPERATIONS

ACCESS = per_resource(DESCRIBE_TOPIC)


def handle(
    context: BrokerContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    names = _names(context, request)
    limit = context.ports.config.integer("max.request.partition.size.limit")
    room = max(1, min(request.response_partition_limit, limit))
    first = 0 if request.cursor is None else request.cursor.partition_index
    start = None if request.cursor is None else request.cursor.topic_name
    topics = []
    for name in names:
        topic = context.ports.metadata.topics.topic(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        begin = first if name == start else 0
        numbers = [number for number in sorted(topic.partitions) if number >= begin]
        topics.append(_topic(context, topic, numbers[:room]))
        if len(numbers) > room:
            cursor = ResponseCursor(topic_name=name, partition_index=numbers[room])
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)
        room -= len(numbers)
        if room == 0:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=_after(names, name))
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def error_response(
    _context: BrokerContext, request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(
            DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=error.code)
            for topic in request.topics
        )
    )


def _names(context: BrokerContext, request: DescribeTopicPartitionsRequest) -> list[str]:
    """The requested topic names from the cursor on, sorted. If the request names none, all topics."""
    all_topics = not request.topics
    wanted: Iterable[str] = (
        context.ports.metadata.topics.names if all_topics else {topic.name for topic in request.topics}
    )
    names = sorted(wanted)
    cursor = request.cursor
    if cursor is None:
        return names
    if cursor.partition_index < 0:
        raise InvalidRequestException("DescribeTopicPartitionsRequest cursor partition must be valid.")
    if not all_topics and cursor.topic_name not in names:
        raise InvalidRequestException(
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
        )
    return [name for name in names if name >= cursor.topic_name]


def _after(names: list[str], name: str) -> ResponseCursor | None:
    following = names.index(name) + 1
    return ResponseCursor(topic_name=names[following], partition_index=0) if following < len(names) else None


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = topic_names.is_valid(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=topic_names.is_internal(name),
    )


def _topic(
    context: BrokerContext, topic: TopicImage, numbers: Iterable[int]
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for number in numbers:
        partition = topic.partitions[number]
        view = view_partition(
            context.ports.metadata, partition, context.listener, no_listener=ErrorCode.LISTENER_NOT_FOUND
        )
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
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
