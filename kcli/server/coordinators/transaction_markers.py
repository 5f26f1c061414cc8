"""Writes transaction markers to partitions of this broker. A marker ends a producer's transaction in one partition.

A marker in `__consumer_offsets` goes through the shard of the group coordinator. When the marker is committed, the
shard stores or drops the offsets of the transaction. In all other topics the marker is only appended to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from kcli.errors import ErrorCode, KafkaError
from kcli.model.ids import Offset
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.internal_topics import GROUP_TOPIC
from kcli.server.coordinators.shard_log import ControlMarker
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.replicas import Replicas

COMMIT_TIMEOUT_SECONDS = 30
"""The time for which a marker may wait for the other replicas: the default of request.timeout.ms."""

# If the group coordinator of a partition returns one of these errors, the answer is NOT_LEADER_OR_FOLLOWER.
_NOT_READY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerWriter:
    def __init__(self, replicas: Replicas, groups: GroupCoordinator, now_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._groups = groups
        self._now_ms = now_ms

    def write(self, end: TransactionEnd, topic: str, partition: int) -> ErrorCode | asyncio.Task[ErrorCode]:
        """Writes a marker. Returns the error code. If other replicas must first replicate the marker, returns a task
        that waits for these replicas. The task continues even if the caller is cancelled.
        """
        try:
            if topic == GROUP_TOPIC.name:
                runner = self._groups.shards.runner_at(partition)
                return _task(_outcome(runner.end_transaction(self._marker(end))))
            leader = self._replicas.get(topic, partition)
            marker = self._marker(end)
            result = leader.append_marker(
                marker.batch, now_ms=self._now_ms(), transaction_version=marker.transaction_version
            )
        except KafkaError as error:
            return _code(error)
        if leader.log.high_watermark > result.last_offset:
            return ErrorCode.NONE
        return _task(_commit(leader, result.next_offset))

    def _marker(self, end: TransactionEnd) -> ControlMarker:
        batch = encode_marker_batch(
            EndTransactionMarker(committed=end.committed, coordinator_epoch=end.coordinator_epoch),
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp_ms=self._now_ms(),
        )
        return ControlMarker(batch, end.producer_id, end.committed, end.transaction_version)


def _task(work: Coroutine[None, None, ErrorCode]) -> asyncio.Task[ErrorCode]:
    return asyncio.get_running_loop().create_task(work, name="marker")


async def _outcome(written: Awaitable[object]) -> ErrorCode:
    try:
        await written
    except KafkaError as error:
        return _code(error)
    return ErrorCode.NONE


async def _commit(leader: LeaderPartition, end_offset: Offset) -> ErrorCode:
    try:
        await leader.wait_committed(end_offset, COMMIT_TIMEOUT_SECONDS)
    except KafkaError as error:
        return _code(error)
    return ErrorCode.NONE


def _code(error: KafkaError) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code
