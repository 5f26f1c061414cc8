"""Parked requests are answered once, and leave no trace in the partitions they waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kcli.protocol.messages.fetch import FetchPartition
from kcli.replica.waiting import FetchWait, ProduceWait
from kcli.server.partitions.fetch_targets import FetchTarget
from kcli.server.partitions.parked import ParkedFetch, ParkedFetches, ParkedRequest
from rigs.loops import PATIENCE_S, on_a_loop, some_turns

TARGETS = [FetchTarget(None, "t", FetchPartition(partition=number)) for number in range(3)]


def parked(sizes: list[int], min_bytes: int = 100) -> ParkedFetch:
    return ParkedFetch(FetchWait(min_bytes, 0), measure=lambda _changed: sizes.pop(0))


@on_a_loop
async def test_a_fetch_that_looks_and_finds_too_little_continues_waiting() -> None:
    fetch = parked([70, 100])
    lists: tuple[ParkedFetches, ...] = ({}, {})
    for target, each in zip(TARGETS, lists, strict=False):
        fetch.park(each, target)
    fetch.changed(lists[0], 0, measure=True)
    assert not fetch.ended.done() and all(fetch in each for each in lists)
    fetch.changed(lists[1], 0, measure=True)
    assert fetch.ended.done()
    assert all(fetch not in each for each in lists)


@on_a_loop
async def test_a_fetch_measures_each_partition_that_changed_since_the_last_time() -> None:
    measured: list[list[int]] = []

    def measure(changed: Iterable[FetchTarget]) -> int:
        measured.append([target.wants.partition for target in changed])
        return 90

    fetch = ParkedFetch(FetchWait(100, 0), measure=measure)
    lists: tuple[ParkedFetches, ...] = ({}, {}, {})
    for target, each in zip(TARGETS, lists, strict=True):
        fetch.park(each, target)
    for number in (2, 0, 2):
        fetch.changed(lists[number], 34, measure=False)
    fetch.changed(lists[1], 34, measure=False)
    assert measured == [[2, 0], [1]]


@on_a_loop
async def test_a_commit_does_not_end_the_wait_of_a_follower() -> None:
    fetch = ParkedFetch(FetchWait(1, 0), measure=lambda _changed: 1, reads_uncommitted=True)
    partition: ParkedFetches = {}
    fetch.park(partition, TARGETS[0])
    fetch.changed(partition, 0, measure=True)
    assert not fetch.finished
    fetch.changed(partition, 70, measure=False)
    assert fetch.finished


@on_a_loop
async def test_a_fetch_finishes_once() -> None:
    fetch = parked([100])
    partition: ParkedFetches = {}
    fetch.park(partition, TARGETS[0])
    fetch.changed(partition, 0, measure=True)
    fetch.finish()
    fetch.changed(partition, 0, measure=True)
    assert fetch.ended.done()


@on_a_loop
async def test_a_fetch_whose_client_has_left_can_be_finished() -> None:
    fetch = parked([100])
    fetch.ended.cancel()
    fetch.finish()
    assert fetch.finished


@on_a_loop
async def test_a_cancelled_fetch_never_finishes() -> None:
    fetch = parked([100])
    partition: dict = {}
    fetch.park(partition, TARGETS[0])
    fetch.cancel()
    fetch.changed(partition, 0, measure=True)
    fetch.finish()
    assert not fetch.ended.done()
    assert partition == {}


@on_a_loop
async def test_a_request_waits_until_all_its_partitions_are_counted() -> None:
    request = ParkedRequest(ProduceWait(2))
    waiting = asyncio.ensure_future(request.wait(600_000))
    await some_turns()
    request.committed()
    await some_turns()
    assert not waiting.done()
    request.committed()
    await asyncio.wait_for(waiting, PATIENCE_S)


@on_a_loop
async def test_a_request_that_timed_out_can_still_be_counted() -> None:
    request = ParkedRequest(ProduceWait(1))
    await request.wait(-1)
    request.committed()
    await request.wait(600_000)
