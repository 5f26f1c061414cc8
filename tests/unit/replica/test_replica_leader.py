"""High watermark, low watermark, commit order and parked requests, without a log."""

from __future__ import annotations

import pytest

from kcli.replica.leader import CommitQueue, LeaderState
from kcli.replica.parked import ParkedFetch, ParkedProduce


def leader(replicas=(1,), isr=(1,), min_isr=1):
    return LeaderState(node_id=1, replicas=replicas, isr=isr, leader_epoch=5, min_insync_replicas=min_isr)


def test_alone_every_append_is_committed():
    assert leader().high_watermark(0, 10) == 10


def test_the_high_watermark_never_goes_back():
    assert leader().high_watermark(10, 7) == 10


def test_it_follows_the_slowest_in_sync_replica():
    state = leader(replicas=(1, 2, 3), isr=(1, 2))
    state.follower_fetched(2, log_start_offset=0, log_end_offset=6)
    state.follower_fetched(3, log_start_offset=0, log_end_offset=2)
    assert state.high_watermark(0, 10) == 6
    assert state.high_watermark(8, 10) == 8


def test_it_stands_still_below_min_insync_replicas():
    state = leader(replicas=(1, 2), isr=(1,), min_isr=2)
    assert not state.has_enough_replicas
    assert state.high_watermark(3, 10) == 3


def test_min_insync_replicas_is_capped_by_the_replica_count():
    assert leader(min_isr=3).has_enough_replicas


def test_a_follower_ahead_of_the_leader_does_not_count_beyond_its_end():
    state = leader(replicas=(1, 2), isr=(1, 2))
    state.follower_fetched(2, log_start_offset=0, log_end_offset=99)
    assert state.high_watermark(0, 10) == 10


def test_only_a_replica_can_lead():
    with pytest.raises(AssertionError):
        LeaderState(node_id=4, replicas=(1,), isr=(1,), leader_epoch=0, min_insync_replicas=1)


def test_commits_release_in_offset_order_and_then_in_order_of_arrival():
    queue, released = CommitQueue(), []
    for offset, name in ((5, "b"), (3, "a"), (5, "c"), (9, "d")):
        queue.wait_for(offset, lambda name=name: released.append(name))
    queue.advance(2)
    assert released == []
    queue.advance(5)
    assert released == ["a", "b", "c"]
    assert len(queue) == 1
    queue.release_all()
    assert released == ["a", "b", "c", "d"]
    assert len(queue) == 0


def parked(min_bytes, sizes, size=0):
    done = []
    fetch = ParkedFetch(
        min_bytes=min_bytes, size_bytes=size, measure=lambda: sizes.pop(0), done=lambda: done.append(1)
    )
    return fetch, done


def test_a_parked_fetch_asks_the_log_only_when_its_bound_is_reached():
    sizes = [70, 100]
    fetch, done = parked(100, sizes, size=40)
    lists = ({}, {})
    fetch.park(lists)
    assert all(fetch in each for each in lists)
    fetch.appended(30)
    assert sizes == [70, 100], "40 + 30 cannot be 100: not measured"
    fetch.appended(50)
    assert sizes == [100], "measured: only 70 of it may be read"
    assert not done
    fetch.appended(30)
    assert done == [1]
    assert all(fetch not in each for each in lists)


def test_a_parked_fetch_finishes_once():
    fetch, done = parked(10, [10, 10])
    fetch.park(({},))
    fetch.appended(10)
    fetch.finish()
    fetch.appended(10)
    assert done == [1]


def test_a_cancelled_fetch_never_finishes():
    fetch, done = parked(10, [10])
    partition: dict = {}
    fetch.park((partition,))
    fetch.cancel()
    fetch.appended(10)
    fetch.finish()
    assert done == []
    assert partition == {}


def test_a_parked_produce_waits_for_all_its_partitions():
    done = []
    produce = ParkedProduce(2, lambda: done.append(1))
    produce.committed()
    assert not done
    produce.committed()
    produce.finish()
    assert done == [1]
