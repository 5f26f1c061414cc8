"""Divides long work into slices. Work whose size a client chooses calls `await pace(cost)` again and again.

The work does not know who runs it. A broker gives it a pace that lets the event loop serve other clients after each
slice (kcli.runtime.turns). A tool runs the same function to its end at once, with `at_once` and `no_pause`. So each
piece of work is written once, and the pure rooms can do long work too.

A cost is an estimate of the time that the next piece of work takes, in microseconds. It is a constant and not a
measurement, because a simulation must make the same slices in every run.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")
GroupT = TypeVar("GroupT")
ItemT = TypeVar("ItemT")
ShapedT = TypeVar("ShapedT")

Pace = Callable[[int], Awaitable[None]]
"""Charges the cost of the next piece of work. If the slice has no room for this cost, waits for the next slice."""

_SORTED_AT_ONCE = 100


async def no_pause(_cost: int) -> None:
    """The pace of work without other clients: it never pauses."""


def at_once(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Runs work to its end without an event loop, and returns its result. The work must not wait for anything."""
    try:
        work.send(None)
    except StopIteration as end:
        result: ResultT = end.value
        return result
    work.close()
    raise AssertionError("this work must not pause")


async def mapped(
    pace: Pace, cost: int, items: Iterable[ItemT], work: Callable[[ItemT], ResultT]
) -> tuple[ResultT, ...]:
    """Handles each item, such as the topics of a request. An item costs `cost`."""
    results = []
    for item in items:
        await pace(cost)
        results.append(work(item))
    return tuple(results)


async def nested(
    pace: Pace,
    cost: int,
    groups: Iterable[GroupT],
    items_of: Callable[[GroupT], Iterable[ItemT]],
    work: Callable[[GroupT, ItemT], ResultT],
    shape: Callable[[GroupT, tuple[ResultT, ...]], ShapedT],
) -> tuple[ShapedT, ...]:
    """Handles each item of each group, such as the partitions of topics. `shape` makes the result of a group from the
    results of its items. An item costs `cost`, and so does a group."""
    shaped = []
    for group in groups:
        await pace(cost)
        results = []
        for item in items_of(group):
            await pace(cost)
            results.append(work(group, item))
        shaped.append(shape(group, tuple(results)))
    return tuple(shaped)


async def sorted_in_slices(
    items: Sequence[ItemT], key: Callable[[ItemT], str], pace: Pace, cost: int = 1
) -> list[ItemT]:
    """Sorts items, because a sort of 200,000 names without a pause takes 0.1 s. Items with equal keys keep their order.
    `cost` is the cost of an item."""
    runs = []
    for begin in range(0, len(items), _SORTED_AT_ONCE):
        run = items[begin : begin + _SORTED_AT_ONCE]
        await pace(cost * len(run))
        runs.append(sorted(run, key=key))
    if len(runs) <= 1:
        return runs[0] if runs else []
    merged = []
    for item in heapq.merge(*runs, key=key):
        await pace(cost)
        merged.append(item)
    return merged
