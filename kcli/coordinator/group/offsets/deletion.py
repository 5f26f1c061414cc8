"""Deletes the offsets of large groups and of deleted topics in slices (parts of limited size), so that
other requests are served between two slices.

Kafka too may delete the offsets of a deleted topic in several batches, but Kafka deletes a group in one batch. In kcli,
the offsets of a large group are deleted first, and the group itself is deleted last. A slice deletes only offsets that
were committed before the first slice. So a slice never deletes an offset that was committed for a new topic with the
same name, or by a member that joined later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kcli.coordinator.group.offsets.table import OffsetTable
from kcli.coordinator.group.records import OffsetRecord
from kcli.coordinator.group.step import GroupStep
from kcli.errors import ErrorCode

OFFSETS_PER_SLICE = 250
"""The number of offsets that one slice deletes. Deleting an offset takes 6 to 13 µs, including the commit and the
replay."""


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    """The result of deleting one slice of a group's offsets. If `is_last` is False, the caller passes `before` to the
    next slice."""

    error_code: ErrorCode = ErrorCode.NONE
    before: int = 0
    is_last: bool = True


class OffsetDeletion:
    def __init__(self, table: OffsetTable) -> None:
        self._table = table
        self._waiting: deque[tuple[str, str, Sequence[int], int]] = deque()
        """The offsets of deleted topics that are not deleted yet: group, topic, partitions, and a log offset. Only
        committed offsets whose records are before this log offset are deleted."""

    def begin(self, topics: Collection[str], step: GroupStep) -> bool:
        """Deletes the first slice of the committed offsets for these topics, and their offsets in open transactions and
        in writes in progress. If the result is True, more slices are left, and the caller must call `delete_slice`."""
        before = self._table.end_offset
        self._waiting.extend((*entry, before) for entry in self._table.partitions_of(topics))
        has_more = self.delete_slice(step)
        for record in self._table.uncommitted_tombstones(topics):
            if record not in step.records:
                step.append(record)
        return has_more

    def delete_slice(self, step: GroupStep) -> bool:
        """Deletes the offsets of the next slice. Returns whether there are more slices."""
        left = OFFSETS_PER_SLICE
        while self._waiting and left:
            group_id, topic, partitions, before = self._waiting.popleft()
            if len(partitions) > left:
                self._waiting.appendleft((group_id, topic, partitions[left:], before))
            for partition in partitions[:left]:
                if self._table.has_before(group_id, topic, partition, before):
                    step.append(OffsetRecord(group_id, topic, partition, None))
            left -= min(left, len(partitions))
        return bool(self._waiting)

    def delete_of_group(self, group_id: str, before: int | None, step: GroupStep) -> OffsetsDeleted:
        """Deletes the next slice of a group's offsets. `before` is None in the first call."""
        limit = self._table.end_offset if before is None else before
        partitions = self._table.first_before(group_id, limit, OFFSETS_PER_SLICE)
        for topic, partition in partitions:
            step.append(OffsetRecord(group_id, topic, partition, None))
        return OffsetsDeleted(before=limit, is_last=len(partitions) < OFFSETS_PER_SLICE)
