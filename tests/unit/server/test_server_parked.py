"""Parked requests are answered once, and leave no trace in the partitions they waited for."""

from __future__ import annotations

from typing import Any

from kcli.replica.waiting import FetchWait, ProduceWait
from kcli.server.partitions.parked import ParkedFetch, ParkedProduce


def parked(sizes: list[int], min_bytes: int = 100) -> tuple[ParkedFetch, list[Any]]:
    done = []
    fetch = ParkedFetch(FetchWait(min_bytes, 0), measure=lambda: sizes.pop(0), done=lambda: done.append(1))
    return fetch, done


def test_a_fetch_that_looks_and_finds_too_little_goes_on_waiting() -> None:
    fetch, done = parked([70, 100])
    lists = ({}, {})
    fetch.park(lists)
    fetch.look()
    assert not done and all(fetch in each for each in lists)
    fetch.look()
    assert done == [1]
    assert all(fetch not in each for each in lists)


def test_a_fetch_finishes_once() -> None:
    fetch, done = parked([100])
    fetch.park(({},))
    fetch.look()
    fetch.finish()
    fetch.look()
    assert done == [1]


def test_a_cancelled_fetch_never_finishes() -> None:
    fetch, done = parked([100])
    partition: dict = {}
    fetch.park((partition,))
    fetch.cancel()
    fetch.look()
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
