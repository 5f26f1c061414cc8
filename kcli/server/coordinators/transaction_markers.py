"""Writes transaction markers to partitions of this broker. A marker ends a producer's transaction in one partition.

A marker in `__consumer_offsets` goes through the shard of the group coordinator. When the marker is committed, the
shard stores or drops the offsets of the transaction. In all other topics the marker is only appended to the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.internal_topics import GROUP_TOPIC
from kcli.server.coordinators.shard_log import ControlMarker
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

    async def write(self, end: TransactionEnd, topic: str, partition: int) -> ErrorCode:
        """Appends a marker, and waits until it is committed. Returns the error code."""
        try:
            if topic == GROUP_TOPIC.name:
                await self._groups.shards.runner_at(partition).end_transaction(self._marker(end))
                return ErrorCode.NONE
            leader = self._replicas.get(topic, partition)
            marker = self._marker(end)
            result = leader.append_marker(
                marker.batch, now_ms=self._now_ms(), transaction_version=marker.transaction_version
            )
            if leader.log.high_watermark <= result.last_offset:
                await leader.wait_committed(result.next_offset, COMMIT_TIMEOUT_SECONDS)
        except KafkaError as error:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code
        return ErrorCode.NONE

    def _marker(self, end: TransactionEnd) -> ControlMarker:
        batch = encode_marker_batch(
            EndTransactionMarker(committed=end.committed, coordinator_epoch=end.coordinator_epoch),
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp_ms=self._now_ms(),
        )
        return ControlMarker(batch, end.producer_id, end.committed, end.transaction_version)
