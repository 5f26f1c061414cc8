"""Divides long work into parts, because a large request must not block the event loop for other clients.

A part is called a slice. It has a fixed number of items, so a simulation has the same slices in every run. Between two
slices, the loop serves other clients. All long work of a loop shares one queue: each iteration ("turn") of the loop
runs only one slice.

If all items fit into the first slice, the work runs immediately, without a task. So a usual request has no extra cost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

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


async def next_turn() -> None:
    """Waits until the loop has a turn in which no other long work runs."""
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _TurnQueue(loop)
    await queue.join()


def turns_given() -> int:
    """The number of turns that the long work of the running loop has had."""
    queue = _queues.get(asyncio.get_running_loop())
    return 0 if queue is None else queue.given


class _TurnQueue:
    """The queue of the long work of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._new_future = loop.create_future
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next: asyncio.Handle | None = None
        self.given = 0

    def join(self) -> asyncio.Future[None]:
        turn = self._new_future()
        self._waiting.append(turn)
        # The handle is cancelled if a simulated process ends. The work of other processes continues.
        if self._next is None or self._next.cancelled():
            self._next = self._call_soon(self._give_turn)
        return turn

    def _give_turn(self) -> None:
        while self._waiting and self._waiting[0].done():  # cancelled
            self._waiting.popleft()
        if self._waiting:
            self._waiting.popleft().set_result(None)
            self.given += 1
        self._next = self._call_soon(self._give_turn) if self._waiting else None


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _TurnQueue] = WeakKeyDictionary()
"""The queue of each event loop. A process has one event loop, but each test makes its own."""


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
