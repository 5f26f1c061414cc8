"""DeleteRecords (key 21, versions 0-2): moves the log start offset forward (KIP-107). The offset -1 means the high
watermark.

The leader deletes the records immediately. The response waits until all live replicas have deleted the records too, but
not longer than the timeout of the request. A follower learns the log start offset of its leader by its next fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import replace
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
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.hosted_partitions import error_of_ended
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.parked import ParkedProduce, measure_again
from kcli.server.requests.access import DELETE_TOPIC
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns

_NO_LOW_WATERMARK = -1
HIGH_WATERMARK = -1
"""The offset in a request that means the high watermark."""


PARTITIONS_PER_TURN = 20
"""Partitions that are handled in one iteration of the event loop. A partition takes 5 µs, or 50 µs and more if segments
are deleted."""


class Deletion(NamedTuple):
    """A deletion that waits until the low watermark of the partition reaches `offset`."""

    topic: str
    leader: LeaderPartition
    offset: Offset


def handle(
    context: BrokerContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    allowed = context.rights.allowed_in_turns(DELETE_TOPIC, (topic.name for topic in request.topics))
    return then(allowed, lambda names: _delete_allowed(context, request, names))


def _delete_allowed(
    context: BrokerContext, request: DeleteRecordsRequest, allowed: Container[str]
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    waiting: list[Deletion] = []

    def delete(topic: DeleteRecordsTopic, part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        if topic.name not in allowed:
            return _failed(part.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _delete(context, topic.name, part, waiting)

    response = run_in_turns(_by_partition(request, delete), PARTITIONS_PER_TURN)
    return then(
        response,
        lambda deleted: _wait(context, request.timeout_ms, deleted, waiting) if waiting else deleted,
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


def _delete(
    context: BrokerContext, topic: str, part: DeleteRecordsPartition, waiting: list[Deletion]
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
        waiting.append(Deletion(topic, leader, offset))
    return DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=low_watermark)


def _wait(
    context: BrokerContext, timeout_ms: int, response: DeleteRecordsResponse, waiting: list[Deletion]
) -> asyncio.Future[DeleteRecordsResponse]:
    """Returns a future of the response. The future is done when the low watermark of each partition has reached the
    offset of its deletion. It is also done when the timeout of the request has passed.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[DeleteRecordsResponse] = loop.create_future()
    results: dict[tuple[str, int], DeleteRecordsPartitionResult] = {}
    waits = context.ports.metrics.waits
    waits.deletions.begin(len(waiting))

    def reached(deletion: Deletion) -> None:
        leader = deletion.leader
        results[deletion.topic, leader.partition] = _outcome(context, deletion)
        parked.committed()

    def done() -> None:
        timer.cancel()
        waits.deletions.end(len(waiting))
        waits.expired.deletions += len(waiting) - len(results)
        if not answer.done():
            answer.set_result(_after_wait(response, waiting, results))

    parked = ParkedProduce(ProduceWait(len(waiting)), done)
    timer = loop.call_later(max(timeout_ms, 0) / 1000, parked.finish)
    for deletion in waiting:
        deletion.leader.when_deleted(deletion.offset, partial(reached, deletion))
    return answer


def _outcome(context: BrokerContext, deletion: Deletion) -> DeleteRecordsPartitionResult:
    leader = deletion.leader
    if not leader.is_leader:
        return _failed(leader.partition, error_of_ended(context, leader))
    return DeleteRecordsPartitionResult(partition_index=leader.partition, low_watermark=leader.low_watermark)


def _after_wait(
    response: DeleteRecordsResponse,
    waiting: list[Deletion],
    results: Mapping[tuple[str, int], DeleteRecordsPartitionResult],
) -> DeleteRecordsResponse:
    """The response with the results of the partitions that waited. A partition without a result has timed out."""
    waited = {
        (topic, leader.partition): _failed(leader.partition, ErrorCode.REQUEST_TIMED_OUT)
        for topic, leader, _ in waiting
    } | dict(results)
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
