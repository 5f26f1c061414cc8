"""The committed offsets of a shard, and those that wait for the end of a transaction.

Only `replay` and `end_transaction` change the table. Records that are written but not committed yet are noted, so that
the deletion of a group or a topic meanwhile covers their offsets, too. An offset committed in a transaction stays
pending under its producer id until the marker; a commit then applies it unless the table holds one written later in
the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kcli.coordinator.group.records import OffsetRecord
from kcli.model.ids import NO_PRODUCER_ID, NO_TIMESTAMP
from kcli.protocol.records.consumer_offsets import OffsetCommitValue

_Entry = tuple[OffsetCommitValue, int]
"""An offset and where in the log it was written."""
_Topics = dict[str, dict[int, _Entry]]
_Key = tuple[str, str, int]
"""Group, topic, partition."""


class OffsetTable:
    def __init__(self) -> None:
        self._groups: dict[str, _Topics] = {}
        self._pending: dict[int, dict[_Key, _Entry]] = {}
        self._expected: dict[_Key, int] = {}
        """Number of offsets for this partition that are on their way through the log."""

    # What is on its way

    def expect(self, records: Iterable[OffsetRecord]) -> None:
        expected = self._expected
        for record in records:
            key = (record.group_id, record.topic, record.partition)
            expected[key] = expected.get(key, 0) + 1

    def arrived(self, record: OffsetRecord) -> None:
        """One of `expect` has been committed, or could not be written."""
        key = (record.group_id, record.topic, record.partition)
        count = self._expected.get(key, 0)
        if count > 1:
            self._expected[key] = count - 1
        else:
            self._expected.pop(key, None)

    # Changes

    def replay(self, record: OffsetRecord, log_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
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
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = entry

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._groups[group_id]
        for pending in self._pending.values():
            pending.pop((group_id, topic, partition), None)

    # Questions

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
        """The partitions a group has offsets for, by topic, in the order they were first committed."""
        return {topic: tuple(partitions) for topic, partitions in self._groups.get(group_id, {}).items()}

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition."""
        return any((group_id, topic, partition) in pending for pending in self._pending.values())

    def groups_with_pending(self) -> frozenset[str]:
        """The groups that an open transaction, or a write on its way, will bring an offset."""
        return frozenset(key[0] for key in self._uncommitted())

    def size_of(self, group_id: str) -> int:
        """The number of offsets of a group."""
        return sum(map(len, self._groups.get(group_id, {}).values()))

    # Tombstones

    def tombstones_of_group(self, group_id: str) -> Iterator[OffsetRecord]:
        """One for every offset of a group, with those that are pending or on their way."""
        keys = dict.fromkeys(
            (group_id, topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition in partitions
        )
        keys.update(dict.fromkeys(key for key in self._uncommitted() if key[0] == group_id))
        return (OffsetRecord(*key, None) for key in keys)

    def tombstones_of_topics(self, topics: Collection[str]) -> Iterator[OffsetRecord]:
        """One for every offset of deleted topics, in any group, with those that are pending or on their way."""
        gone = frozenset(topics)
        keys = dict.fromkeys(
            (group_id, topic, partition)
            for group_id, committed in self._groups.items()
            for topic, partitions in committed.items()
            if topic in gone
            for partition in partitions
        )
        keys.update(dict.fromkeys(key for key in self._uncommitted() if key[1] in gone))
        return (OffsetRecord(*key, None) for key in keys)

    def _uncommitted(self) -> Iterator[_Key]:
        for pending in self._pending.values():
            yield from pending
        yield from self._expected


def is_expired(committed: OffsetCommitValue, now_ms: int, since_ms: int, retention_ms: int) -> bool:
    """KIP-211: an offset that named its own retention keeps to that; any other outlives its group by retention_ms."""
    if committed.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp
    return now_ms - since_ms >= retention_ms
