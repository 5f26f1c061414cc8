"""Deletes expired offsets (KIP-211), and empty groups whose last offset has expired. Checks some groups at a time (a
slice), so that other requests are served between two slices."""

from __future__ import annotations

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.group_type import Groups, GroupType, Retention
from kcli.coordinator.group.offsets.table import OffsetTable, is_expired
from kcli.coordinator.group.records import OffsetRecord
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.type_table import TypeTable

OFFSETS_PER_SLICE = 5_000
"""The number of offsets that one slice checks. Checking them takes about 5 ms. A slice must be short, because other
shards share the event loop."""


class OffsetExpiry:
    def __init__(self, config: GroupConfig, groups: Groups, types: TypeTable, table: OffsetTable) -> None:
        self._config = config
        self._groups = groups
        self._types = types
        self._table = table
        self._unseen: list[str] = []
        """The groups that are not yet checked in this round. The last group of the list is checked next."""

    def expire_slice(self, step: GroupStep) -> bool:
        """Checks the next groups. Appends tombstones for expired offsets, and for empty groups that have no other
        offsets. Returns whether more groups must be checked."""
        if not self._unseen:
            self._unseen = list(reversed(self._groups))
        pending = self._table.groups_with_pending()
        looked_at = 0
        while self._unseen and looked_at < OFFSETS_PER_SLICE:
            group_id = self._unseen.pop()
            group_type = self._types.of(group_id)
            if group_type is None:
                continue
            looked_at += 1 + self._table.size_of(group_id)
            retention = group_type.retention(group_id)
            if retention is None:
                continue
            all_gone = self._expire(group_id, group_type, retention, step) and group_id not in pending
            if all_gone and retention.is_deserted:
                group_type.delete(group_id, step)
        return bool(self._unseen)

    def _expire(self, group_id: str, group_type: GroupType, retention: Retention, step: GroupStep) -> bool:
        """Appends tombstones for the expired offsets of one group. Returns whether the group will have no offsets."""
        all_gone = True
        for topic, partitions in self._table.topics_of(group_id).items():
            if group_type.is_subscribed_to(group_id, topic):
                all_gone = False
                continue
            for partition in partitions:
                if self._is_expired(group_id, topic, partition, retention, step.now_ms):
                    step.append(OffsetRecord(group_id, topic, partition, None))
                else:
                    all_gone = False
        return all_gone

    def _is_expired(
        self, group_id: str, topic: str, partition: int, retention: Retention, now_ms: int
    ) -> bool:
        committed = self._table.get(group_id, topic, partition)
        assert committed is not None, f"offset of {group_id} {topic}-{partition} vanished"
        since_ms = retention.empty_since_ms
        if since_ms is None:
            since_ms = committed.commit_timestamp
        return is_expired(
            committed, now_ms, since_ms, self._config.offsets_retention_ms
        ) and not self._table.is_pending(group_id, topic, partition)
