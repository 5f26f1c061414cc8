"""DeleteRecords (key 21, versions 0-2): moves the log start offset forward (KIP-107). The offset -1 means the high
watermark.

The leader deletes the records immediately. The response waits until all live replicas have deleted the records too, but
not longer than the timeout of the request. A follower learns the log start offset of its leader by its next fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader
    metrics: Metrics
    replicas: Replicas


Context = RequestContext[Ports]


class Deletion(NamedTuple):
    """A deletion that waits until the low watermark of the partition reaches `offset`."""

    topic: str
    leader: LeaderPartition
    offset: Offset


async def handle(context: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    allowed = await context.allowed(DELETE_TOPIC, (topic.name for topic in request.topics))
    deletions: list[Deletion] = []

    def delete(topic: DeleteRecordsTopic, part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        if topic.name not in allowed:
            return _failed(part.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _delete(context, topic.name, part, deletions)

    response = await _by_partition(context, PARTITION_COST, request, delete)
    if not deletions:
        return response
    return _after_wait(response, deletions, await _wait(context, request.timeout_ms, deletions))


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
    context: Context, topic: str, part: DeleteRecordsPartition, deletions: list[Deletion]
) -> DeleteRecordsPartitionResult:
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
        deletions.append(Deletion(topic, leader, offset))
    return DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=low_watermark)


async def _wait(
    context: Context, timeout_ms: int, deletions: list[Deletion]
) -> dict[tuple[str, int], DeleteRecordsPartitionResult]:
    """Waits until the low watermark of each partition has reached the offset of its deletion, or until the timeout of
    the request has passed. Returns the results of the partitions whose wait has ended."""
    results: dict[tuple[str, int], DeleteRecordsPartitionResult] = {}
    waits = context.ports.metrics.waits
    parked = ParkedRequest(ProduceWait(len(deletions)))

    def reached(deletion: Deletion) -> None:
        results[deletion.topic, deletion.leader.partition] = _outcome(context, deletion)
        parked.committed()

    waits.deletions.begin(len(deletions))
    context.wait_only()
    try:
        for deletion in deletions:
            deletion.leader.when_deleted(deletion.offset, partial(reached, deletion))
        await parked.wait(timeout_ms)
    finally:
        waits.deletions.end(len(deletions))
    waits.expired.deletions += len(deletions) - len(results)
    return dict(results)


def _outcome(context: Context, deletion: Deletion) -> DeleteRecordsPartitionResult:
    leader = deletion.leader
    if not leader.is_leader:
        return _failed(leader.partition, error_of_ended(context.ports.loader.image, leader))
    return DeleteRecordsPartitionResult(partition_index=leader.partition, low_watermark=leader.low_watermark)


def _after_wait(
    response: DeleteRecordsResponse,
    deletions: list[Deletion],
    results: dict[tuple[str, int], DeleteRecordsPartitionResult],
) -> DeleteRecordsResponse:
    """The response with the results of the partitions that waited. A partition without a result has timed out."""
    waited = {
        (topic, leader.partition): _failed(leader.partition, ErrorCode.REQUEST_TIMED_OUT)
        for topic, leader, _ in deletions
    } | results
    return DeleteRecordsResponse(
        topics=tuple(
            replace(
                topic,
                partitions=tuple(
                    waited.get((topic.name, part.partition_index), part) for part in topic.partitions
                ),
            )
            for topic in response.topics
        )
    )


def _failed(partition: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition, low_watermark=_NO_LOW_WATERMARK, error_code=code
    )
