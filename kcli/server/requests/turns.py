"""Divides long work into parts, because a large request must not block the event loop for other clients.

A part is called a slice. It has a fixed number of items, so a simulation has the same slices in every run. Between two
slices, the loop serves other clients. All long work of a loop shares one queue: each iteration ("turn") of the loop
runs only one slice.

If all items fit into the first slice, the work runs immediately, without a task. So a usual request has no extra cost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import TypeVar

from kcli.runtime.turns import next_turn, turns_given

__all__ = ["next_turn", "turns_given"]

T = TypeVar("T")
Item = TypeVar("Item")
Group = TypeVar("Group")
Shaped = TypeVar("Shaped")

REFUSALS_PER_TURN = 500
"""The number of parts of a refused request that get their error in one iteration of the event loop. A part takes 1
µs."""

Steps = Generator[None, None, T]
"""Work that yields after each step and returns its result."""


def in_turns(items: Sequence[Item], work: Callable[[Item], T], per_turn: int) -> list[T] | Awaitable[list[T]]:
    """Applies `work` to each item, `per_turn` items in one iteration of the event loop. If one turn is enough, returns
    the result immediately.
    """
    if len(items) <= per_turn:
        return [work(item) for item in items]
    return run_in_turns(_each(items, work), per_turn)


def run_in_turns(steps: Steps[T], per_turn: int) -> T | Awaitable[T]:
    """Runs the steps, `per_turn` steps in one iteration of the event loop. If one turn is enough, returns the result
    immediately.
    """
    try:
        for _ in range(per_turn):
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    return _run_the_rest(steps, per_turn)


def nested_steps(
    groups: Iterable[Group],
    items_of: Callable[[Group], Iterable[Item]],
    work: Callable[[Group, Item], T],
    shape: Callable[[Group, tuple[T, ...]], Shaped],
) -> Steps[tuple[Shaped, ...]]:
    """Handles each item of each group, such as the partitions of topics. Yields after each item. `shape` makes the
    result of a group from the results of its items."""
    shaped = []
    for group in groups:
        results = []
        for item in items_of(group):
            results.append(work(group, item))
            yield
        shaped.append(shape(group, tuple(results)))
        yield
    return tuple(shaped)


def _each(items: Sequence[Item], work: Callable[[Item], T]) -> Steps[list[T]]:
    results = []
    for item in items:
        results.append(work(item))
        yield
    return results


async def _run_the_rest(steps: Steps[T], per_turn: int) -> T:
    try:
        while True:
            await next_turn()
            for _ in range(per_turn):
                next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
