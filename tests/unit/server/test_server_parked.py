"""Parked requests are answered once, and leave no trace in the partitions they waited for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcli.protocol.messages.fetch import FetchPartition
from kcli.replica.waiting import FetchWait, ProduceWait
from kcli.server.partitions.fetch_targets import FetchTarget
from kcli.server.partitions.parked import ParkedFetch, ParkedFetches, ParkedProduce

TARGETS = [FetchTarget(None, "t", FetchPartition(partition=number)) for number in range(3)]


def parked(sizes: list[int], min_bytes: int = 100) -> tuple[ParkedFetch, list[Any]]:
    done = []
    fetch = ParkedFetch(
        FetchWait(min_bytes, 0), measure=lambda _changed: sizes.pop(0), done=lambda: done.append(1)
    )
    return fetch, done


def test_a_fetch_that_looks_and_finds_too_little_continues_waiting() -> None:
    fetch, done = parked([70, 100])
    lists: tuple[ParkedFetches, ...] = ({}, {})
    for target, each in zip(TARGETS, lists, strict=False):
        fetch.park(each, target)
    fetch.changed(lists[0], 0, measure=True)
    assert not done and all(fetch in each for each in lists)
    fetch.changed(lists[1], 0, measure=True)
    assert done == [1]
    assert all(fetch not in each for each in lists)


def test_a_fetch_measures_each_partition_that_changed_since_the_last_time() -> None:
    measured: list[list[int]] = []

    def measure(changed: Iterable[FetchTarget]) -> int:
        measured.append([target.wants.partition for target in changed])
        return 90

    fetch = ParkedFetch(FetchWait(100, 0), measure=measure, done=lambda: None)
    lists: tuple[ParkedFetches, ...] = ({}, {}, {})
    for target, each in zip(TARGETS, lists, strict=True):
        fetch.park(each, target)
    for number in (2, 0, 2):
        fetch.changed(lists[number], 34, measure=False)
    fetch.changed(lists[1], 34, measure=False)
    assert measured == [[2, 0], [1]]


def test_a_commit_does_not_end_the_wait_of_a_follower() -> None:
    fetch = ParkedFetch(
        FetchWait(1, 0), measure=lambda _changed: 1, done=lambda: None, reads_uncommitted=True
    )
    partition: ParkedFetches = {}
    fetch.park(partition, TARGETS[0])
    fetch.changed(partition, 0, measure=True)
    assert not fetch.finished
    fetch.changed(partition, 70, measure=False)
    assert fetch.finished


def test_a_fetch_finishes_once() -> None:
    fetch, done = parked([100])
    partition: ParkedFetches = {}
    fetch.park(partition, TARGETS[0])
    fetch.changed(partition, 0, measure=True)
    fetch.finish()
    fetch.changed(partition, 0, measure=True)
    assert done == [1]


def test_a_cancelled_fetch_never_finishes() -> None:
    fetch, done = parked([100])
    partition: dict = {}
    fetch.park(partition, TARGETS[0])
    fetch.cancel()
    fetch.changed(partition, 0, measure=True)
    fetch.finish()
    assert done == []
    assert partition == {}


def test_a_produce_finishes_once_when_all_its_partitions_have_committed() -> None:
    done = []
    produce = ParkedProduce(ProduceWait(2), lambda: done.append(1))
    produce.committed()
    assert not done
    produce.committed()
    produce.finish()
    assert done == [1]


def test_a_produce_that_timed_out_is_not_answered_again() -> None:
    done = []
    produce = ParkedProduce(ProduceWait(1), lambda: done.append(1))
    produce.finish()
    produce.committed()
    assert done == [1]
