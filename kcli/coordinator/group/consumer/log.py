"""What consumer groups write, and how a group goes back when a write fails.

A group changes when its records are written, not when they are committed: the next heartbeat may come before, and must
see who owns what. So the committed records of every group are kept beside it. Should a write fail, the group is made
anew out of them. A write that took too long is no failure: it is in the log, and may yet be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.coordinator.group.consumer.group import ConsumerGroup
from kcli.coordinator.group.groups import Group, Groups
from kcli.coordinator.group.rebalance import GroupStep
from kcli.coordinator.group.records import ConsumerKey, ConsumerRecord, ConsumerValue, LogRecord
from kcli.coordinator.runtime import Ready
from kcli.errors import ErrorCode
from kcli.protocol.records import consumer_offsets as co

Restored = Callable[[str, Group | None, int], Ready[LogRecord]]
"""Told (group id, what stood there until now, time) when a group is back at what is committed."""

_STILL_IN_THE_LOG = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT})


class ConsumerLog:
    def __init__(self, groups: Groups, restored: Restored) -> None:
        self._groups = groups
        self._restored = restored
        self._committed: dict[str, dict[ConsumerKey, ConsumerValue]] = {}
        self._in_flight: dict[str, int] = {}
        self._behind: dict[str, None] = {}
        """Groups made anew while older writes of theirs are on their way: these have to be taken in as they commit."""

    # Writing

    def writer(self, group: ConsumerGroup, step: GroupStep) -> Writer:
        """To write what a step changes about a group. From the first record on the group is in the table."""
        return Writer(self, group, step)

    def begin(self, group: ConsumerGroup) -> Callable[[ErrorCode, int], Ready[LogRecord]]:
        """Puts the group in its place; what is returned is to be called once, when the fate of the write is known."""
        group_id = group.group_id
        before = self._groups.get(group_id)
        self._groups[group_id] = group
        self._in_flight[group_id] = self._in_flight.get(group_id, 0) + 1
        return lambda code, now_ms: self._written(group_id, before, code, now_ms)

    def _written(self, group_id: str, before: Group | None, code: ErrorCode, now_ms: int) -> Ready[LogRecord]:
        self._in_flight[group_id] -= 1
        ready: Ready[LogRecord] = Ready()
        if code not in _STILL_IN_THE_LOG:
            ready = self._revert(group_id, before, now_ms)
        if not self._in_flight[group_id]:
            del self._in_flight[group_id]
            self._behind.pop(group_id, None)
        return ready

    def _revert(self, group_id: str, before: Group | None, now_ms: int) -> Ready[LogRecord]:
        present = self._groups.get(group_id)
        committed = self._committed.get(group_id)
        if committed:
            self._groups[group_id] = restored = ConsumerGroup(group_id)
            for key, value in committed.items():
                restored.apply(ConsumerRecord(key, value))
            self._behind[group_id] = None
        elif before is not None and not isinstance(before, ConsumerGroup):
            self._groups[group_id] = before
        elif isinstance(present, ConsumerGroup):
            del self._groups[group_id]
        return self._restored(group_id, present, now_ms)

    # Reading

    def replay(self, record: ConsumerRecord, *, live: bool) -> None:
        """Takes in a committed record; the group has it already if it is live."""
        group_id = record.group_id
        if record.value is not None:
            self._committed.setdefault(group_id, {})[record.key] = record.value
        elif group_id in self._committed:
            committed = self._committed[group_id]
            committed.pop(record.key, None)
            if not committed:
                del self._committed[group_id]
        if not live or group_id in self._behind:
            self._apply(record)

    def _apply(self, record: ConsumerRecord) -> None:
        group = self._groups.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            # Written later than whatever made the group that stands here.
            group = self._groups[record.group_id] = ConsumerGroup(record.group_id)
        group.apply(record)
        if record.value is None and isinstance(record.key, co.ConsumerGroupMetadataKey):
            del self._groups[record.group_id]


class Writer:
    """Writes records of one group in one step: each is appended and taken in at once."""

    def __init__(self, log: ConsumerLog, group: ConsumerGroup, step: GroupStep) -> None:
        self._log = log
        self._has_begun = False
        self.group = group
        self.step = step

    def put(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        record = ConsumerRecord(key, value)
        if self._has_begun:
            self.step.append(record)
        else:
            self._has_begun = True
            self.step.append(record, self._log.begin(self.group))
        self.group.apply(record)

    def put_all(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            self.put(record.key, record.value)
