"""DeleteRecords (key 21, versions 0-2): moves the log start offset forward (KIP-107). -1 means the high watermark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kcli.errors import (
    ErrorCode,
    InvalidTopicException,
    KafkaError,
    KafkaStorageException,
    PolicyViolationException,
    StorageError,
)
from kcli.model.ids import Offset
from kcli.model.topic_names import is_internal
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DELETE_TOPIC, per_resource
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns

ACCESS = per_resource(DELETE_TOPIC)

_NO_LOW_WATERMARK = -1


PARTITIONS_PER_TURN = 20
"""Partitions that are handled in one turn of the loop. A partition takes 5 µs, or 50 µs and more if segments are
deleted."""


def handle(
    context: BrokerContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    return run_in_turns(
        _by_partition(request, lambda topic, part: _delete(context, topic.name, part)), PARTITIONS_PER_TURN
    )


def error_response(
    _context: BrokerContext, request: DeleteRecordsRequest, error: KafkaError
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    return run_in_turns(
        _by_partition(request, lambda _, part: _failed(part.partition_index, error.code)), REFUSALS_PER_TURN
    )


def _by_partition(
    request: DeleteRecordsRequest,
    answer: Callable[[DeleteRecordsTopic, DeleteRecordsPartition], DeleteRecordsPartitionResult],
) -> Steps[DeleteRecordsResponse]:
    topics = yield from nested_steps(
        request.topics,
        lambda topic: topic.partitions,
        answer,
        lambda topic, parts: DeleteRecordsTopicResult(name=topic.name, partitions=parts),
    )
    return DeleteRecordsResponse(topics=topics)


def _delete(context: BrokerContext, topic: str, part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        if is_internal(topic):
            raise InvalidTopicException(f"Cannot delete records of internal topic {topic}")
        leader = context.ports.replicas.get(topic, part.partition_index)
        if leader.log.config.compact and not leader.log.config.delete:
            raise PolicyViolationException(f"Records of {topic} are compacted and never deleted")
        low_watermark = leader.log.delete_records_before(Offset(part.offset))
    except KafkaError as error:
        return _failed(part.partition_index, error.code)
    except StorageError:
        return _failed(part.partition_index, KafkaStorageException.code)
    return DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=low_watermark)


def _failed(partition: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition, low_watermark=_NO_LOW_WATERMARK, error_code=code
    )
