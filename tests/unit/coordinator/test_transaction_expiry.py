"""Transactional ids that did nothing for long are forgotten, however many they are, without holding up the others."""

from __future__ import annotations

from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.records import TransactionRecord
from kcli.coordinator.transaction.shard import EXPIRED_AT_ONCE, EXPIRED_PAUSE_MS, TransactionShard
from kcli.coordinator.transaction.state import new_transactional_id, with_partitions
from kcli.errors import ErrorCode

CONFIG = TransactionConfig(
    id_expiration_ms=1000, remove_expired_interval_ms=5000, abort_timed_out_interval_ms=1 << 40
)


def written(shard: TransactionShard, now_ms: int) -> list[str]:
    """What the shard forgets at a moment; all of it is committed."""
    names = []
    due = shard.tick(now_ms)
    assert len(due) <= 1, "a slice is one write"
    for ready in due:
        for record in ready.records:
            assert record.transaction is None
            shard.replay(record)
            names.append(record.transactional_id)
        if ready.on_written is not None:
            ready.on_written(ErrorCode.NONE, now_ms)
    return names


def test_many_expired_ids_go_in_slices() -> None:
    shard = TransactionShard(CONFIG, lambda: 2)
    count = 2 * EXPIRED_AT_ONCE + 7
    idle = new_transactional_id(1, 60_000, 0)
    for number in range(count):
        shard.replay(TransactionRecord(f"id-{number}", idle))
    shard.replay(TransactionRecord("open", with_partitions(idle, frozenset({("t", 0)}), 0, 0)))
    shard.replay(TransactionRecord("young", new_transactional_id(2, 60_000, 4500)))
    shard.start(0)
    sizes, seen, moments = [], set(), []
    for _ in range(3):
        now_ms = shard.next_deadline_ms
        assert now_ms is not None
        moments.append(now_ms)
        gone = written(shard, now_ms)
        sizes.append(len(gone))
        seen |= set(gone)
    assert sizes == [EXPIRED_AT_ONCE, EXPIRED_AT_ONCE, 7]
    assert moments == [5000, 5000 + EXPIRED_PAUSE_MS, 5000 + 2 * EXPIRED_PAUSE_MS]
    assert seen == {f"id-{number}" for number in range(count)}
    assert shard.next_deadline_ms == moments[-1] + 5000


def test_a_slice_that_could_not_be_written_is_tried_again() -> None:
    shard = TransactionShard(CONFIG, lambda: 2)
    shard.replay(TransactionRecord("x", new_transactional_id(1, 60_000, 0)))
    shard.start(0)
    (failed,) = shard.tick(5000)
    assert failed.on_written is not None
    failed.on_written(ErrorCode.NOT_ENOUGH_REPLICAS, 5000)
    assert written(shard, 9000) == []
    assert written(shard, 10_000) == ["x"]
