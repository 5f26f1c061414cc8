"""OffsetForLeaderEpoch (key 23, versions 2-4): the end offset of a leader epoch, to find divergence (KIP-320)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container

from kcli.errors import ErrorCode, KafkaError, KafkaStorageException, StorageError
from kcli.model.ids import LeaderEpoch
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.hosted_partitions import leader_of
from kcli.server.requests.access import CLUSTER_ACTION, DESCRIBE_TOPIC
from kcli.server.requests.answers import then
from kcli.server.requests.rights import EVERY_NAME
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns

PARTITIONS_PER_TURN = 200
"""Partitions that are answered in one iteration of the event loop. A partition takes 4 µs."""


def handle(
    context: BrokerContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    rights = context.rights
    if rights.allows(CLUSTER_ACTION, traced=True):
        return _answer_allowed(context, request, EVERY_NAME)
    allowed = rights.allowed_in_turns(DESCRIBE_TOPIC, (topic.topic for topic in request.topics))
    return then(allowed, lambda names: _answer_allowed(context, request, names))


def _answer_allowed(
    context: BrokerContext, request: OffsetForLeaderEpochRequest, allowed: Container[str]
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    def answer(topic: OffsetForLeaderTopic, part: OffsetForLeaderPartition) -> EpochEndOffset:
        if topic.topic not in allowed:
            return _failed(part.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _answer(context, topic.topic, part)

    return run_in_turns(_by_partition(request, answer), PARTITIONS_PER_TURN)


def error_response(
    _context: BrokerContext, request: OffsetForLeaderEpochRequest, error: KafkaError
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    return run_in_turns(
        _by_partition(request, lambda _, part: _failed(part.partition, error.code)), REFUSALS_PER_TURN
    )


def _by_partition(
    request: OffsetForLeaderEpochRequest,
    answer: Callable[[OffsetForLeaderTopic, OffsetForLeaderPartition], EpochEndOffset],
) -> Steps[OffsetForLeaderEpochResponse]:
    topics = yield from nested_steps(
        request.topics,
        lambda topic: topic.partitions,
        answer,
        lambda topic, parts: OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts),
    )
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(context: BrokerContext, topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
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
