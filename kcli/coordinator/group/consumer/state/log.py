"""The records of consumer groups that are written but not committed, and the restoration after a failed write.

The next heartbeat of a group may come before the records of the last heartbeat are committed. The next heartbeat must
already see the new owners of partitions. So a group changes when its records are written, and not when the records are
committed. This module stores the records of every group: the committed records, and the records of each write in
progress. If a write fails, its records are dropped, and the group is built again from the other records. If a write
only times out, its records are kept, because they are in the log and may be committed later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.record import ConsumerKey, ConsumerRecord, ConsumerValue
from kcli.coordinator.group.group_type import Group, Groups
from kcli.coordinator.group.step import GroupContinuation, GroupStep
from kcli.errors import ErrorCode
from kcli.protocol.records import consumer_offsets as co

Restored = Callable[[str, Group | None, GroupStep], None]
"""A function that is called after a group was restored. Its arguments are the group id, the group before the
restoration, and a `Step`."""
Records = deque[ConsumerRecord]
"""The records of one write that are not committed yet."""

_STILL_IN_THE_LOG = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT})


class ConsumerLog:
    def __init__(self, groups: Groups, restored: Restored) -> None:
        self._groups = groups
        self._restored = restored
        self._committed: dict[str, dict[ConsumerKey, ConsumerValue]] = {}
        self._on_their_way: dict[str, list[Records]] = {}
        """The writes in progress of each group, in the order of the log."""

    # Writing

    def begin(self, group: ConsumerGroup, records: Records) -> GroupContinuation:
        """Begins a write of these records, and adds the group to the table of groups. The caller may add more records
        to the list. Returns a function that must be called once, when the write has succeeded or failed."""
        group_id = group.group_id
        before = self._groups.get(group_id)
        self._groups[group_id] = group
        self._on_their_way.setdefault(group_id, []).append(records)
        return lambda code, step: self._written(group_id, records, before, code, step)

    def _written(
        self, group_id: str, records: Records, before: Group | None, code: ErrorCode, step: GroupStep
    ) -> None:
        if code in _STILL_IN_THE_LOG:
            group = self._groups.get(group_id)
            if code is not ErrorCode.NONE and isinstance(group, ConsumerGroup):
                group.is_resolving = False  # the request to resolve was not sent, because the write timed out
            return
        writes = self._on_their_way[group_id]
        writes[:] = [write for write in writes if write is not records]
        if not writes:
            del self._on_their_way[group_id]
        present = self._groups.get(group_id)
        restored = self._from_log(group_id)
        if restored is not None:
            self._groups[group_id] = restored
        elif before is not None and not isinstance(before, ConsumerGroup):
            self._groups[group_id] = before
        elif isinstance(present, ConsumerGroup):
            del self._groups[group_id]
        self._restored(group_id, present, step)

    def _from_log(self, group_id: str) -> ConsumerGroup | None:
        """Builds the group from its committed records and its records in progress. None if there are no records."""
        held: dict[ConsumerKey, ConsumerValue | None] = {**self._committed.get(group_id, {})}
        for records in self._on_their_way.get(group_id, ()):
            held.update((record.key, record.value) for record in records)
        if all(value is None for value in held.values()):
            return None
        group = ConsumerGroup(group_id)
        for key, value in held.items():
            group.apply(ConsumerRecord(key, value))
        return group

    # Reading

    def replay(self, record: ConsumerRecord, *, live: bool) -> None:
        """Handles a record that is now committed. If `live` is True, the group already changed when the record was
        written."""
        group_id = record.group_id
        if record.value is not None:
            self._committed.setdefault(group_id, {})[record.key] = record.value
        elif group_id in self._committed:
            committed = self._committed[group_id]
            committed.pop(record.key, None)
            if not committed:
                del self._committed[group_id]
        if live:
            self._arrived(record)
        else:
            self._apply(record)

    def _arrived(self, record: ConsumerRecord) -> None:
        """Removes this record from the records in progress, because the record is committed now. The record must be the
        oldest of the records in progress."""
        writes = self._on_their_way[record.group_id]
        arrived = writes[0].popleft()
        assert arrived == record, f"{record} is committed before {arrived}"
        if not writes[0]:
            del writes[0]
        if not writes:
            del self._on_their_way[record.group_id]

    def _apply(self, record: ConsumerRecord) -> None:
        group = self._groups.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            # This record is newer than the records of the group in the table. So a new group replaces that group.
            group = self._groups[record.group_id] = ConsumerGroup(record.group_id)
        group.apply(record)
        if record.value is None and isinstance(record.key, co.ConsumerGroupMetadataKey):
            del self._groups[record.group_id]


class Writer:
    """Writes records of one group. Each record is appended to a `Step` (`coordinator.runtime`) and applied to the group
    at once."""

    def __init__(self, log: ConsumerLog, group: ConsumerGroup, step: GroupStep) -> None:
        self._log = log
        self._records: Records = deque()
        self.group = group
        self.step = step

    def put(self, *records: ConsumerRecord) -> None:
        for record in records:
            if not self._records:
                self.step.when_written(self._log.begin(self.group, self._records))
            self.step.append(record)
            self._records.append(record)
            self.group.apply(record)
