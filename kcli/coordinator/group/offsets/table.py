"""The committed offsets in one partition of `__consumer_offsets`, and the offsets in open transactions.

Only `replay` and `end_transaction` change the committed offsets. The table also counts the offset records that are
written to the log, but not committed yet. So the deletion of a group or topic also deletes these offsets. An offset in
a transaction stays pending, under the producer id, until the transaction's marker is replayed. If the marker is a
commit, the offset is applied. But if the table already has an offset whose record is later in the log, the table keeps
that offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from kcli.coordinator.group.records import OffsetRecord
from kcli.model.ids import NO_PRODUCER_ID, NO_TIMESTAMP
from kcli.protocol.records.consumer_offsets import OffsetCommitValue

_Entry = tuple[OffsetCommitValue, int]
"""A committed offset, and the log offset of its record."""
_Topics = dict[str, dict[int, _Entry]]
_Key = tuple[str, str, int]
"""The group id, topic and partition of an offset."""


class OffsetTable:
    def __init__(self) -> None:
        self._groups: dict[str, _Topics] = {}
        self._pending: dict[int, dict[_Key, _Entry]] = {}
        self._expected: dict[_Key, int] = {}
        """For each key, the number of records that are written but not committed yet."""
        self._commits: Counter[str] = Counter()
        self.size = 0
        """The number of committed offsets."""
        self.end_offset = 0
        """The log offset after the last record that was replayed."""

    # Writes in progress

    def expect(self, records: Iterable[OffsetRecord]) -> None:
        expected = self._expected
        for record in records:
            key = (record.group_id, record.topic, record.partition)
            expected[key] = expected.get(key, 0) + 1

    def arrived(self, record: OffsetRecord) -> None:
        """Removes a record that `expect` has added. The record is committed now, or its write has failed."""
        key = (record.group_id, record.topic, record.partition)
        count = self._expected.get(key, 0)
        if count > 1:
            self._expected[key] = count - 1
        else:
            self._expected.pop(key, None)

    # Changes

    def replay(self, record: OffsetRecord, log_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        self.end_offset = log_offset + 1
        if self._expected:
            self.arrived(record)
        committed = record.committed
        if committed is None:
            self._remove(record.group_id, record.topic, record.partition)
        elif producer_id == NO_PRODUCER_ID:
            self._set(record.group_id, record.topic, record.partition, (committed, log_offset))
        else:
            pending = self._pending.setdefault(producer_id, {})
            pending[record.group_id, record.topic, record.partition] = (committed, log_offset)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        pending = self._pending.pop(producer_id, None)
        if pending is None or not committed:
            return
        for (group_id, topic, partition), entry in pending.items():
            known = self._groups.get(group_id, {}).get(topic, {}).get(partition)
            if known is None or known[1] < entry[1]:
                self._set(group_id, topic, partition, entry)

    def _set(self, group_id: str, topic: str, partition: int, entry: _Entry) -> None:
        partitions = self._groups.setdefault(group_id, {}).setdefault(topic, {})
        self.size += partition not in partitions
        partitions[partition] = entry
        self._commits[group_id] += 1

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id)
        if topics is not None and topic in topics:
            self.size -= topics[topic].pop(partition, None) is not None
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._groups[group_id]
                self._commits.pop(group_id, None)
        for pending in self._pending.values():
            pending.pop((group_id, topic, partition), None)

    def forget_commit_counts(self) -> None:
        """Sets the counts of commits to 0, so that they do not include the commits that were loaded from the log."""
        self._commits.clear()

    # Questions

    def commit_count(self, group_id: str) -> int:
        """The number of commits of a group. A commit of several partitions counts once for each partition. 0 for a
        group without offsets."""
        return self._commits[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        topics = self._groups.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        if partitions is None:
            return None
        entry = partitions.get(partition)
        return None if entry is None else entry[0]

    def topics_of(self, group_id: str) -> dict[str, tuple[int, ...]]:
        """The partitions for which a group has offsets, by topic, in the order of their first commits."""
        return {topic: tuple(partitions) for topic, partitions in self._groups.get(group_id, {}).items()}

    def topic_names_of(self, group_id: str) -> tuple[str, ...]:
        """The topics for which a group has offsets."""
        return tuple(self._groups.get(group_id, ()))

    def commits_of(self, group_id: str, topic: str) -> list[tuple[int, int, int]]:
        """The committed offsets of a group for one topic: partition, offset, and time of the commit."""
        partitions = self._groups.get(group_id, {}).get(topic, {})
        return [(number, entry[0].offset, entry[0].commit_timestamp) for number, entry in partitions.items()]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition."""
        return any((group_id, topic, partition) in pending for pending in self._pending.values())

    def groups_with_pending(self) -> frozenset[str]:
        """The groups that may get an offset from an open transaction or from a write in progress."""
        return frozenset(key[0] for key in self._uncommitted())

    def size_of(self, group_id: str) -> int:
        """The number of offsets of a group."""
        return sum(map(len, self._groups.get(group_id, {}).values()))

    # Deletion

    def partitions_of(self, topics: Collection[str]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """The group, the topic and the partitions of all offsets that are committed for these topics."""
        for group_id, committed in self._groups.items():
            for topic in topics:
                if topic in committed:
                    yield group_id, topic, tuple(committed[topic])

    def has_before(self, group_id: str, topic: str, partition: int, log_offset: int) -> bool:
        """Whether a group has an offset for this partition whose record is before a position in the log."""
        entry = self._groups.get(group_id, {}).get(topic, {}).get(partition)
        return entry is not None and entry[1] < log_offset

    def first_before(self, group_id: str, log_offset: int, count: int) -> list[tuple[str, int]]:
        """Up to `count` partitions for which a group has an offset whose record is before a position in the log."""
        older = (
            (topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition, entry in partitions.items()
            if entry[1] < log_offset
        )
        return list(islice(older, count))

    def tombstones_of_group(self, group_id: str) -> Iterator[OffsetRecord]:
        """The tombstones for all offsets of a group, including offsets in open transactions and in writes in
        progress."""
        keys = dict.fromkeys(
            (group_id, topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition in partitions
        )
        keys.update(dict.fromkeys(key for key in self._uncommitted() if key[0] == group_id))
        return (OffsetRecord(*key, None) for key in keys)

    def uncommitted_tombstones(self, topics: Collection[str]) -> Iterator[OffsetRecord]:
        """The tombstones for the offsets of these topics in open transactions and in writes in progress."""
        keys = dict.fromkeys(key for key in self._uncommitted() if key[1] in topics)
        return (OffsetRecord(*key, None) for key in keys)

    def _uncommitted(self) -> Iterator[_Key]:
        for pending in self._pending.values():
            yield from pending
        yield from self._expected


def is_expired(committed: OffsetCommitValue, now_ms: int, since_ms: int, retention_ms: int) -> bool:
    """Whether an offset is expired (KIP-211). If the commit contained an expiry time, the offset expires at that time.
    An offset without an expiry time expires `retention_ms` after `since_ms`."""
    if committed.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp
    return now_ms - since_ms >= retention_ms
