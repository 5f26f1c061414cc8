"""Deletions of many offsets, slice by slice: what is committed between two slices stays."""

from __future__ import annotations

from typing import Any

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.offsets.deletion import OFFSETS_PER_SLICE, OffsetsDeleted
from kcli.coordinator.group.records import OffsetRecord
from kcli.coordinator.group.shard import NEXT_SLICE_MS, GroupShard
from kcli.errors import ErrorCode
from kcli.protocol.records.consumer_offsets import OffsetCommitValue
from kcli.runtime.rng import SystemRng
from rigs.answers import answers

OFFSETS = 2 * OFFSETS_PER_SLICE + 1
LAST = OFFSETS - 1


class Log:
    """A shard whose groups `g` and `h` have offsets of topic `t`, and the offset of its log's next record."""

    def __init__(self) -> None:
        self.shard = GroupShard(GroupConfig(), SystemRng(1))
        self.end = 0
        for partition in range(OFFSETS):
            self.commit(partition)
        self.commit(0, group="h")
        self.shard.start(0)

    def commit(self, partition: int, group: str = "g", topic: str = "t", producer_id: int = -1) -> None:
        record = OffsetRecord(group, topic, partition, OffsetCommitValue(offset=1, commit_timestamp=0))
        self.shard.replay(record, self.end, producer_id)
        self.end += 1

    def write(self, ready: Any) -> int:
        """Commits the records of a `Ready`. Returns their number."""
        for record in ready.records:
            self.shard.replay(record, self.end)
            self.end += 1
        return len(ready.records)

    def ticks(self) -> list[int]:
        """The numbers of records of the slices that a timer begins."""
        counts, now_ms = [], NEXT_SLICE_MS
        while (ready := self.shard.tick(now_ms)) is not None:
            counts.append(self.write(ready))
            now_ms += NEXT_SLICE_MS
        return counts

    def delete_slice(self, before: int | None) -> OffsetsDeleted:
        ready = self.shard.delete_offsets_of_group("g", before, "token", 0)
        assert self.write(ready) <= OFFSETS_PER_SLICE
        ((_token, deleted),) = answers(ready)
        return deleted


def test_the_offsets_of_a_topic_are_deleted_in_slices() -> None:
    log = Log()
    log.commit(0, topic="u")
    assert log.write(log.shard.delete_topics(("t",), 0)) == OFFSETS_PER_SLICE
    assert log.ticks() == [OFFSETS_PER_SLICE, 2]
    assert log.shard.partitions_with_offsets("g") == (("u", (0,)),)
    assert log.shard.partitions_with_offsets("h") == ()


def test_an_offset_of_a_new_topic_with_the_same_name_stays() -> None:
    log = Log()
    log.write(log.shard.delete_topics(("t",), 0))
    log.commit(LAST)
    log.ticks()
    assert log.shard.partitions_with_offsets("g") == (("t", (LAST,)),)


def test_an_offset_in_an_open_transaction_is_deleted_with_the_first_slice() -> None:
    log = Log()
    log.commit(7, topic="t", group="i", producer_id=5)
    assert log.write(log.shard.delete_topics(("t",), 0)) == OFFSETS_PER_SLICE + 1
    log.shard.end_transaction(5, committed=True)
    log.ticks()
    assert log.shard.offset_count == 0


def test_the_offsets_of_a_group_are_deleted_in_slices() -> None:
    log = Log()
    deleted = log.delete_slice(None)
    slices = 1
    while not deleted.is_last:
        deleted = log.delete_slice(deleted.before)
        slices += 1
    assert slices == 3
    assert log.shard.partitions_with_offsets("g") == ()
    assert log.shard.partitions_with_offsets("h") == (("t", (0,)),)


def test_an_offset_that_a_new_member_commits_meanwhile_stays() -> None:
    log = Log()
    deleted = log.delete_slice(None)
    log.commit(LAST)
    while not deleted.is_last:
        deleted = log.delete_slice(deleted.before)
    assert log.shard.partitions_with_offsets("g") == (("t", (LAST,)),)


def test_the_offsets_of_an_unknown_group_are_not_deleted() -> None:
    ready = Log().shard.delete_offsets_of_group("nope", None, "token", 0)
    assert answers(ready) == (("token", OffsetsDeleted(ErrorCode.GROUP_ID_NOT_FOUND)),)
