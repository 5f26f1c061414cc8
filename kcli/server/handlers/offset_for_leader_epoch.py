"""OffsetForLeaderEpoch (key 23, versions 2-4): the end offset of a leader epoch, to find divergence (KIP-320)."""

from __future__ import annotations

from kcli.errors import ErrorCode, KafkaError, KafkaStorageException, StorageError
from kcli.model.ids import LeaderEpoch
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import CLUSTER_ACTION, DESCRIBE_TOPIC, per_resource

ACCESS = per_resource(CLUSTER_ACTION, DESCRIBE_TOPIC)


def handle(context: BrokerContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_answer(context, topic.topic, part) for part in topic.partitions),
            )
            for topic in request.topics
        )
    )


def error_response(
    _context: BrokerContext, request: OffsetForLeaderEpochRequest, error: KafkaError
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_failed(part.partition, error.code) for part in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _answer(context: BrokerContext, topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        leader = context.ports.replicas.get(topic, part.partition)
        leader.check_epoch(part.current_leader_epoch)
        epoch, end_offset = leader.log.end_offset_for_epoch(LeaderEpoch(part.leader_epoch))
    except KafkaError as error:
        return _failed(part.partition, error.code)
    except StorageError:
        return _failed(part.partition, KafkaStorageException.code)
    return EpochEndOffset(partition=part.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(partition: int, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=partition, error_code=code)
