"""Idle transactional ids expire and long transactions are aborted; many of them delay no other client."""

from __future__ import annotations

from collections.abc import ItemsView

import pytest

from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.records import TransactionRecord
from kcli.coordinator.transaction.shard import (
    EXPIRED_AT_ONCE,
    PAUSE_MS,
    TIMED_OUT_AT_ONCE,
    SendMarkers,
    TransactionReady,
    TransactionShard,
)
from kcli.coordinator.transaction.state import Transaction, new_transactional_id, with_partitions
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition

CONFIG = TransactionConfig(
    id_expiration_ms=1000, remove_expired_interval_ms=5000, abort_timed_out_interval_ms=1 << 40
)


def due(shard: TransactionShard, now_ms: int) -> tuple[TransactionReady, ...]:
    """What the shard does about every deadline that has passed."""
    done = []
    while (ready := shard.tick(now_ms)) is not None:
        if ready.records or ready.replies:
            done.append(ready)
    return tuple(done)


def written(shard: TransactionShard, now_ms: int) -> list[str]:
    """What the shard forgets at a moment; all of it is committed."""
    names = []
    slices = due(shard, now_ms)
    assert len(slices) <= 1, "a slice is one write"
    for ready in slices:
        for record in ready.records:
            assert record.transaction is None
            shard.replay(record)
            names.append(record.transactional_id)
        if ready.continuations:
            ready.written(ErrorCode.NONE, now_ms)
    return names


def test_many_expired_ids_go_in_slices() -> None:
    shard = TransactionShard(CONFIG, lambda: 2)
    count = 2 * EXPIRED_AT_ONCE + 7
    idle = new_transactional_id(1, 60_000, 0)
    for number in range(count):
        shard.replay(TransactionRecord(f"id-{number}", idle))
    shard.replay(TransactionRecord("open", with_partitions(idle, frozenset({TopicPartition("t", 0)}), 0, 0)))
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
    assert moments == [5000, 5000 + PAUSE_MS, 5000 + 2 * PAUSE_MS]
    assert seen == {f"id-{number}" for number in range(count)}
    assert shard.next_deadline_ms == moments[-1] + 5000


def test_a_slice_that_could_not_be_written_is_tried_again() -> None:
    shard = TransactionShard(CONFIG, lambda: 2)
    for number in range(EXPIRED_AT_ONCE + 1):
        shard.replay(TransactionRecord(f"id-{number}", new_transactional_id(1, 60_000, 0)))
    shard.start(0)
    (failed,) = due(shard, 5000)
    assert failed.continuations
    failed.written(ErrorCode.NOT_ENOUGH_REPLICAS, 5000)
    assert written(shard, 9000) == [], "not at once, again and again"
    assert len(written(shard, 10_000)) == EXPIRED_AT_ONCE
    assert len(written(shard, 10_000 + PAUSE_MS)) == 1


def test_many_that_time_out_together_are_aborted_in_slices() -> None:
    shard = TransactionShard(TransactionConfig(abort_timed_out_interval_ms=1000), lambda: 2)
    names = [f"id-{number}" for number in range(2 * TIMED_OUT_AT_ONCE + 1)]
    ongoing = with_partitions(new_transactional_id(1, 100, 0), frozenset({TopicPartition("t", 0)}), 0, 0)
    for name in names:
        shard.replay(TransactionRecord(name, ongoing))
    shard.start(0)
    (failed,) = due(shard, 1000)
    assert failed.continuations
    failed.written(ErrorCode.NOT_ENOUGH_REPLICAS, 1000)
    assert due(shard, 1999) == ()
    sent: list[str] = []
    for slice_ms in (2000, 2000 + PAUSE_MS, 2000 + 2 * PAUSE_MS):
        (slice_,) = due(shard, slice_ms)
        assert len(slice_.records) <= TIMED_OUT_AT_ONCE
        for record in slice_.records:
            shard.replay(record)
        assert slice_.continuations
        sends = slice_.written(ErrorCode.NONE, slice_ms).sends
        sent += [send.transactional_id for send in sends if isinstance(send, SendMarkers)]
    assert sent == names
    assert shard.next_deadline_ms == 2000 + 2 * PAUSE_MS + 1000


class Visited(dict[str, Transaction]):
    """Transactions that count how often all of them are visited."""

    visits = 0

    def items(self) -> ItemsView[str, Transaction]:  # type: ignore[override]
        self.visits += 1
        return super().items()


def test_a_round_visits_all_transactions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shard, every = TransactionShard(CONFIG, lambda: 2), Visited()
    monkeypatch.setattr(shard, "_transactions", every)
    for number in range(3 * EXPIRED_AT_ONCE):
        shard.replay(TransactionRecord(f"id-{number}", new_transactional_id(1, 60_000, 0)))
    shard.start(0)
    every.visits = 0
    for slice_ms in (5000, 5000 + PAUSE_MS, 5000 + 2 * PAUSE_MS):
        assert len(written(shard, slice_ms)) == EXPIRED_AT_ONCE
    assert every.visits == 1
    assert not every


def test_an_id_that_is_used_during_a_round_is_not_removed() -> None:
    shard = TransactionShard(CONFIG, lambda: 2)
    for number in range(EXPIRED_AT_ONCE + 2):
        shard.replay(TransactionRecord(f"id-{number}", new_transactional_id(1, 60_000, 0)))
    shard.start(0)
    assert len(written(shard, 5000)) == EXPIRED_AT_ONCE
    used = f"id-{EXPIRED_AT_ONCE}"
    shard.replay(TransactionRecord(used, new_transactional_id(1, 60_000, 5000)))
    assert written(shard, 5000 + PAUSE_MS) == [f"id-{EXPIRED_AT_ONCE + 1}"]
