"""OffsetForLeaderEpoch (key 23, versions 2-4): the end offset of a leader epoch, to find divergence (KIP-320)."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from kcli.errors import ErrorCode, KafkaError, KafkaStorageException, StorageError
from kcli.model.ids import LeaderEpoch
from kcli.model.pace import nested
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kcli.server.handlers.shared.hosted_partitions import leader_of
from kcli.server.partitions.replicas import Replicas
from kcli.server.requests.access import CLUSTER_ACTION, DESCRIBE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME

PARTITION_COST = 5


@dataclass(frozen=True, slots=True)
class Ports:
    replicas: Replicas


Context = RequestContext[Ports]


async def handle(context: Context, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    allowed: Container[str] = EVERY_NAME
    if not context.rights.allows(CLUSTER_ACTION, traced=True):
        allowed = await context.allowed(DESCRIBE_TOPIC, (topic.topic for topic in request.topics))

    def answer(topic: OffsetForLeaderTopic, part: OffsetForLeaderPartition) -> EpochEndOffset:
        if topic.topic not in allowed:
            return _failed(part.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _answer(context, topic.topic, part)

    return await _by_partition(context, PARTITION_COST, request, answer)


async def error_response(
    context: Context, request: OffsetForLeaderEpochRequest, error: KafkaError
) -> OffsetForLeaderEpochResponse:
    return await _by_partition(
        context, REFUSAL_COST, request, lambda _, part: _failed(part.partition, error.code)
    )


async def _by_partition(
    context: Context,
    cost: int,
    request: OffsetForLeaderEpochRequest,
    answer: Callable[[OffsetForLeaderTopic, OffsetForLeaderPartition], EpochEndOffset],
) -> OffsetForLeaderEpochResponse:
    topics = await nested(
        context.pace,
        cost,
        request.topics,
        lambda topic: topic.partitions,
        answer,
        lambda topic, parts: OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts),
    )
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(context: Context, topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        leader = leader_of(context.ports.replicas.hosted(topic, part.partition), part.current_leader_epoch)
        epoch, end_offset = leader.log.end_offset_for_epoch(LeaderEpoch(part.leader_epoch))
    except KafkaError as error:
        return _failed(part.partition, error.code)
    except StorageError:
        return _failed(part.partition, KafkaStorageException.code)
    return EpochEndOffset(partition=part.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(partition: int, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=partition, error_code=code)
