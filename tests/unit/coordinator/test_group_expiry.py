"""Old offsets of a shard with very many groups are sought in slices, so that heartbeats get their turn."""

from __future__ import annotations

from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.offsets.expiry import OFFSETS_PER_SLICE
from kcli.coordinator.group.records import OffsetRecord
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.step import GroupReady
from kcli.errors import ErrorCode
from kcli.protocol.records.consumer_offsets import OffsetCommitValue
from kcli.runtime.rng import SystemRng

CHECK_MS, RETENTION_MS = 1_000, 5_000
GROUPS, OFFSETS_EACH = 3_000, 4


def due(shard: GroupShard, now_ms: int) -> tuple[GroupReady, ...]:
    """What the shard does about every deadline that has passed."""
    done = []
    while (ready := shard.tick(now_ms)) is not None:
        if ready.records or ready.replies:
            done.append(ready)
    return tuple(done)


def test_expiry_comes_in_slices() -> None:
    config = GroupConfig(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
    shard = GroupShard(config, SystemRng(1))
    for number in range(GROUPS):
        for partition in range(OFFSETS_EACH):
            old = OffsetCommitValue(offset=1, commit_timestamp=0)
            shard.replay(OffsetRecord(f"g{number}", "t", partition, old), number)
    shard.start(0)
    now_ms, slices, tombstones = 10_000, 0, 0
    while shard.next_deadline_ms is not None and shard.next_deadline_ms <= now_ms and slices < 100:
        (ready,) = due(shard, now_ms)
        slices += 1
        tombstones += len(ready.records)
        groups = sum(isinstance(record, GroupRecord) for record in ready.records)
        assert len(ready.records) - groups <= OFFSETS_PER_SLICE + OFFSETS_EACH
        for offset, record in enumerate(ready.records):
            shard.replay(record, 100_000 + offset)
        assert ready.continuations
        ready.written(ErrorCode.NONE, now_ms)
        now_ms += 1
    assert slices >= GROUPS * OFFSETS_EACH // OFFSETS_PER_SLICE
    assert tombstones == GROUPS * (OFFSETS_EACH + 1)
    assert list(shard.list_groups()) == []
    assert shard.next_deadline_ms is not None and shard.next_deadline_ms > now_ms + CHECK_MS // 2


def test_a_group_that_comes_between_two_slices_waits_for_the_next_round() -> None:
    config = GroupConfig(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
    shard = GroupShard(config, SystemRng(1))
    shard.start(0)
    assert due(shard, CHECK_MS) == ()
    shard.replay(OffsetRecord("late", "t", 0, OffsetCommitValue(offset=1, commit_timestamp=0)), 1)
    assert due(shard, CHECK_MS + 1) == ()
    (ready,) = due(shard, RETENTION_MS + CHECK_MS)
    assert ready.records == (OffsetRecord("late", "t", 0, None), GroupRecord("late", None))
