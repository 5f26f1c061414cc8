"""The collector visits few objects at a time, and still finds every cycle. Objects are counted, not seconds."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Iterator, Mapping

import pytest

from kcli.runtime.garbage import (
    CHECK_SECONDS,
    GROWN_CHECKS_MAX,
    QUIET_SECONDS,
    START_THRESHOLDS,
    THRESHOLDS,
    GarbagePolicy,
    freeze_survivors,
)
from rigs.loops import on_a_loop
from simulation.runtime.loop import SimLoop, simulate

VISITED_MAX = 40_000
"""Objects that one collection may visit: the objects of all generations that are not frozen."""
BLOCKS = 1_000_000


class Node:
    """An object that can be in a cycle."""

    def __init__(self) -> None:
        self.next: Node | None = None


class Machine:
    """A process with a policy, and the number of its allocated blocks."""

    def __init__(self) -> None:
        self.blocks = BLOCKS
        self.given_back = 0
        self.policy = GarbagePolicy(allocated_blocks=lambda: self.blocks, give_back=self.give_back)

    def give_back(self) -> None:
        self.given_back += 1


@pytest.fixture(autouse=True)
def _own_collector() -> Iterator[None]:
    """Undoes the policy, which is made for a process that ends."""
    thresholds = gc.get_threshold()
    yield
    if freeze_survivors in gc.callbacks:
        gc.callbacks.remove(freeze_survivors)
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.freeze()  # the collected tests, as at the start


def unused_cycle() -> weakref.ref[Node]:
    """Makes two objects that refer to each other, freezes them, and drops them."""
    first, second = Node(), Node()
    first.next, second.next = second, first
    gc.collect()  # a collection of the oldest generation freezes the objects that are in use
    return weakref.ref(first)


@on_a_loop
async def test_no_collection_visits_all_objects_of_a_large_heap() -> None:
    visited: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def count(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            generation = info["generation"]
            visited[generation].append(sum(len(gc.get_objects(young)) for young in range(generation + 1)))

    GarbagePolicy().start()
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(10 * VISITED_MAX)]
    finally:
        gc.callbacks.remove(count)
    assert len(kept) == 10 * VISITED_MAX
    assert max(max(each, default=0) for each in visited.values()) <= VISITED_MAX
    assert sum(visited[2]) >= 9 * VISITED_MAX, "each object is visited in the oldest generation once"


def test_before_the_start_the_collector_visits_each_object_once() -> None:
    visits: list[int] = []

    def count(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            visits.append(sum(len(gc.get_objects(young)) for young in range(info["generation"] + 1)))

    policy = GarbagePolicy()
    policy.prepare()
    gc.collect()
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(20 * START_THRESHOLDS[0])]
    finally:
        gc.callbacks.remove(count)
    assert 19 * START_THRESHOLDS[0] <= sum(visits) <= 1.1 * len(kept)
    policy.start()
    assert gc.get_threshold() == THRESHOLDS


@on_a_loop
async def test_a_frozen_object_is_freed_by_its_last_reference() -> None:
    GarbagePolicy().start()
    node = Node()
    gc.collect()
    reference = weakref.ref(node)
    del node
    assert reference() is None


@on_a_loop
async def test_a_young_cycle_is_found_by_python() -> None:
    GarbagePolicy().start()
    node = Node()
    node.next = node
    reference = weakref.ref(node)
    del node
    gc.collect(0)
    assert reference() is None


@on_a_loop
async def test_an_old_cycle_is_found_in_a_quiet_second_after_growth() -> None:
    machine = Machine()
    machine.policy.start()
    cycle = unused_cycle()
    gc.collect()
    assert cycle() is not None, "a frozen cycle is not visited"
    machine.policy.check(QUIET_SECONDS)
    assert cycle() is not None, "nothing has grown"
    machine.blocks = BLOCKS * 13 // 10
    machine.policy.check(0.0)
    assert cycle() is not None, "the second was not quiet"
    machine.policy.check(QUIET_SECONDS)
    assert cycle() is None
    later = unused_cycle()
    machine.policy.check(QUIET_SECONDS)
    assert later() is not None, "growth is measured from the last thorough collection"


@on_a_loop
async def test_a_busy_process_looks_for_old_cycles_when_its_memory_stays_doubled() -> None:
    machine = Machine()
    machine.policy.start()
    cycle = unused_cycle()
    machine.blocks = 2 * BLOCKS
    for _ in range(GROWN_CHECKS_MAX - 1):
        machine.policy.check(0.0)
    machine.blocks = BLOCKS  # a large request ends, and the count begins again
    machine.policy.check(0.0)
    machine.blocks = 2 * BLOCKS
    for _ in range(GROWN_CHECKS_MAX - 1):
        machine.policy.check(0.0)
    assert cycle() is not None
    machine.policy.check(0.0)
    assert cycle() is None


@on_a_loop
async def test_free_memory_is_given_back_in_quiet_seconds_only() -> None:
    machine = Machine()
    machine.policy.start()
    machine.policy.check(0.0)
    assert machine.given_back == 0
    machine.policy.check(QUIET_SECONDS)
    assert machine.given_back == 1


def test_a_watched_process_is_checked_every_second() -> None:
    async def story(_loop: SimLoop) -> None:
        machine = Machine()
        machine.policy.start()
        last_active = 5.0
        machine.policy.watch(lambda: last_active)
        cycle = unused_cycle()
        machine.blocks = 2 * BLOCKS
        await asyncio.sleep(last_active)
        assert cycle() is not None
        await asyncio.sleep(QUIET_SECONDS + 2 * CHECK_SECONDS)
        assert cycle() is None

    simulate(1, story)


@on_a_loop
async def test_a_collection_that_skips_frozen_objects_follows_large_messages() -> None:
    machine = Machine()
    machine.policy.start()
    cycle = unused_cycle()
    collected: list[int] = []

    def note(phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            collected.append(machine.blocks)

    gc.callbacks.append(note)
    try:
        machine.blocks = BLOCKS * 2
        machine.policy.check(0.0)
        machine.blocks = BLOCKS
        machine.policy.check(0.0)
        assert not collected, "the second was not quiet"
        machine.policy.check(QUIET_SECONDS)
        machine.policy.check(QUIET_SECONDS)
    finally:
        gc.callbacks.remove(note)
    assert collected == [BLOCKS], "the second quiet second has nothing to collect"
    assert cycle() is not None


@on_a_loop
async def test_the_collection_waits_until_the_whole_message_is_freed() -> None:
    machine = Machine()
    machine.policy.start()
    machine.blocks = BLOCKS * 2
    machine.policy.check(0.0)
    visits = gc.get_stats()[2]["collections"]
    for machine.blocks in (BLOCKS * 12 // 10, BLOCKS * 11 // 10, BLOCKS):
        machine.policy.check(QUIET_SECONDS)
        assert gc.get_stats()[2]["collections"] == visits
    machine.policy.check(QUIET_SECONDS)
    assert gc.get_stats()[2]["collections"] == visits + 1


@on_a_loop
async def test_growth_is_measured_from_the_smaller_number_of_blocks_after_messages_are_freed() -> None:
    machine = Machine()
    machine.policy.start()
    machine.blocks = BLOCKS * 2
    machine.policy.check(QUIET_SECONDS)
    machine.blocks = BLOCKS
    machine.policy.check(QUIET_SECONDS)
    machine.policy.check(QUIET_SECONDS)
    cycle = unused_cycle()
    machine.blocks = BLOCKS * 13 // 10
    machine.policy.check(QUIET_SECONDS)
    assert cycle() is None


@on_a_loop
async def test_growth_is_that_of_the_process() -> None:
    GarbagePolicy().start()
    before = sys.getallocatedblocks()
    kept = [[number] for number in range(1000)]
    assert sys.getallocatedblocks() - before >= len(kept)
