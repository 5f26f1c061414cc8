"""DeleteRecords (key 21, versions 0-2): moves the log start offset forward (KIP-107). The offset -1 means the high
watermark.

The leader deletes the records immediately. The response waits until all live replicas have deleted the records too, but
not longer than the timeout of the request. A follower learns the log start offset of its leader by its next fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kcli.errors import (
    ErrorCode,
    InvalidTopicException,
    KafkaError,
    KafkaStorageException,
    PolicyViolationException,
    StorageError,
)
from kcli.model.ids import Offset
from kcli.model.pace import nested
from kcli.model.topic_names import is_internal
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kcli.replica.waiting import ProduceWait
from kcli.server.handlers.shared.hosted_partitions import error_of_ended
from kcli.server.metrics.metrics import Metrics
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.parked import ParkedRequest, measure_again
from kcli.server.partitions.replicas import Replicas
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import DELETE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext

_NO_LOW_WATERMARK = -1
HIGH_WATERMARK = -1
"""The offset in a request that means the high watermark."""


PARTITION_COST = 50
"""A partition takes 5 µs, or 50 µs and more if segments are deleted."""
WAIT_COST = 3
"""The cost to begin the wait for a partition, or to put its result into the response."""


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader
    metrics: Metrics
    replicas: Replicas


Context = RequestContext[Ports]


async def handle(context: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    allowed = await context.allowed(DELETE_TOPIC, (topic.name for topic in request.topics))
    offsets: dict[LeaderPartition, Offset] = {}

    def delete(topic: DeleteRecordsTopic, part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        if topic.name not in allowed:
            return _failed(part.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _delete(context, topic.name, part, offsets)

    response = await _by_partition(context, PARTITION_COST, request, delete)
    if not offsets:
        return response
    return await _after_wait(context, response, offsets, await _wait(context, request.timeout_ms, offsets))


async def error_response(
    context: Context, request: DeleteRecordsRequest, error: KafkaError
) -> DeleteRecordsResponse:
    return await _by_partition(
        context, REFUSAL_COST, request, lambda _, part: _failed(part.partition_index, error.code)
    )


async def _by_partition(
    context: Context,
    cost: int,
    request: DeleteRecordsRequest,
    answer: Callable[[DeleteRecordsTopic, DeleteRecordsPartition], DeleteRecordsPartitionResult],
) -> DeleteRecordsResponse:
    topics = await nested(
        context.pace,
        cost,
        request.topics,
        lambda topic: topic.partitions,
        answer,
        lambda topic, parts: DeleteRecordsTopicResult(name=topic.name, partitions=parts),
    )
    return DeleteRecordsResponse(topics=topics)


def _delete(
    context: Context, topic: str, part: DeleteRecordsPartition, offsets: dict[LeaderPartition, Offset]
) -> DeleteRecordsPartitionResult:
    """Deletes records of the leader. Adds the offset to `offsets` if the low watermark must still reach it."""
    try:
        if is_internal(topic):
            raise InvalidTopicException(f"Cannot delete records of internal topic {topic}")
        leader = context.ports.replicas.get(topic, part.partition_index)
        log = leader.log
        if log.config.compact and not log.config.delete:
            raise PolicyViolationException(f"Records of {topic} are compacted and never deleted")
        offset = log.high_watermark if part.offset == HIGH_WATERMARK else Offset(part.offset)
        log.delete_records_before(offset)
        measure_again(leader.parked_fetches)  # a session tells its follower of the new log start offset
    except KafkaError as error:
        return _failed(part.partition_index, error.code)
    except StorageError:
        return _failed(part.partition_index, KafkaStorageException.code)
    low_watermark = leader.low_watermark
    if low_watermark < offset:
        offsets[leader] = max(offset, offsets.get(leader, offset))
    return DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=low_watermark)


async def _wait(
    context: Context, timeout_ms: int, offsets: Mapping[LeaderPartition, Offset]
) -> dict[LeaderPartition, DeleteRecordsPartitionResult]:
    """Waits until the low watermark of each partition has reached its offset, or until the timeout of the request has
    passed. Returns the results of the partitions whose wait has ended."""
    results: dict[LeaderPartition, DeleteRecordsPartitionResult] = {}
    waits = context.ports.metrics.waits
    parked = ParkedRequest(ProduceWait(len(offsets)))

    def reached(leader: LeaderPartition) -> None:
        results[leader] = _outcome(context, leader)
        parked.committed()

    begun = []
    waits.deletions.begin(len(offsets))
    try:
        for leader, offset in offsets.items():
            await context.pace(WAIT_COST)
            begun.append(leader.when_deleted(offset, partial(reached, leader)))
        context.wait_only()
        await parked.wait(timeout_ms)
    finally:
        waits.deletions.end(len(offsets))
        for wait in begun:
            if wait is not None:
                wait.drop()
    waits.expired.deletions += len(offsets) - len(results)
    return results


def _outcome(context: Context, leader: LeaderPartition) -> DeleteRecordsPartitionResult:
    if not leader.is_leader:
        return _failed(leader.partition, error_of_ended(context.ports.loader.image, leader))
    return DeleteRecordsPartitionResult(partition_index=leader.partition, low_watermark=leader.low_watermark)


async def _after_wait(
    context: Context,
    response: DeleteRecordsResponse,
    offsets: Mapping[LeaderPartition, Offset],
    results: Mapping[LeaderPartition, DeleteRecordsPartitionResult],
) -> DeleteRecordsResponse:
    """The response with the results of the partitions that waited. A partition without a result has timed out."""
    waited = {
        (leader.topic, leader.partition): results.get(leader)
        or _failed(leader.partition, ErrorCode.REQUEST_TIMED_OUT)
        for leader in offsets
    }
    topics = await nested(
        context.pace,
        WAIT_COST,
        response.topics,
        lambda topic: topic.partitions,
        lambda topic, part: waited.get((topic.name, part.partition_index), part),
        lambda topic, parts: replace(topic, partitions=parts),
    )
    return DeleteRecordsResponse(topics=topics)


def _failed(partition: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition, low_watermark=_NO_LOW_WATERMARK, error_code=code
    )
