"""Lets long work of an event loop take turns, because a large request must not block the loop for other clients.

The long work is divided into slices (kcli.model.pace), and a slice costs at most TURN_COST_MAX. All long work of a loop
shares one queue: an iteration ("turn") of the loop runs only one slice. If all work of a request fits into its first
slice, it runs immediately, without a task. So a usual request has no extra cost.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
A = TypeVar("A")

TURN_COST_MAX = 1000
"""The cost of one slice: about a millisecond. Fifty other pieces of long work may have their slices in between, and a
client should wait at most 50 ms."""


class Turn:
    """The pace of one piece of long work. See `kcli.model.pace.Pace`."""

    __slots__ = ("has_paused", "left")

    def __init__(self) -> None:
        self.left = TURN_COST_MAX
        self.has_paused = False

    async def __call__(self, cost: int) -> None:
        left = self.left - cost
        if left < 0:
            self.has_paused = True
            await next_turn()
            left = TURN_COST_MAX - cost
        self.left = left


async def next_turn() -> None:
    """Waits until the loop has a turn in which no other long work runs."""
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _TurnQueue(loop)
    await queue.join()


async def in_turn(work: Callable[[A], Awaitable[T]], argument: A) -> T:
    """Begins a piece of work in a turn of its own. Many pieces that begin together would else share one turn."""
    await next_turn()
    return await work(argument)


def turns_given() -> int:
    """The number of turns that the long work of the running loop has had."""
    queue = _queues.get(asyncio.get_running_loop())
    return 0 if queue is None else queue.turns


class Timer(Protocol):
    """Measures the time that a piece of work uses the event loop."""

    def resume(self) -> None: ...

    def pause(self) -> None: ...


async def continued(work: Coroutine[Any, Any, T], first: object, timers: Sequence[Timer] = ()) -> T:
    """Continues a coroutine that its caller has driven by hand, with `work.send(None)`. `first` is the future that the
    coroutine then awaited. A task can run the result. The timers run while the coroutine uses the event loop."""
    return await _rest(work, first, timers)  # since Python 3.12, a task does not run a generator


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], first: object, timers: Sequence[Timer]) -> Generator[Any, Any, T]:
    awaited = first
    while True:
        thrown: BaseException | None = None
        try:
            sent = yield awaited
        except BaseException as error:
            thrown = error
        for timer in timers:
            timer.resume()
        try:
            awaited = work.send(sent) if thrown is None else work.throw(thrown)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            thrown = None  # its traceback refers to this frame, and the two would be a cycle
            for timer in timers:
                timer.pause()


def run_in_background(work: Coroutine[Any, Any, None]) -> None:
    """Runs work whose end its caller does not wait for. A task is made only if the work pauses."""
    try:
        first = work.send(None)
    except StopIteration:
        return
    task = asyncio.ensure_future(continued(work, first))
    _background.add(task)
    task.add_done_callback(_background.discard)


def started(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Runs work until it first suspends, and returns a future of its result or error. So several pieces of work can
    begin before the first of them ends. A task is made only if the work suspends."""
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    try:
        first = work.send(None)
    except StopIteration as end:
        ended.set_result(end.value)
    except Exception as error:
        ended.set_exception(error)
    else:
        return asyncio.ensure_future(continued(work, first))
    return ended


async def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Runs work in a task, for at most `seconds`. None means no limit. Raises TimeoutError after this time.

    `asyncio.timeout` needs a task. Code that a request reaches before it first suspends has no task, and must use this
    function instead."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,))
        raise
    if not done:
        task.cancel()
        await asyncio.wait((task,))
        if task.cancelled():
            raise TimeoutError
    return task.result()


class _TurnQueue:
    """The queue of the long work of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._new_future = loop.create_future
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next: asyncio.Handle | None = None
        self.turns = 0

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
            self.turns += 1
        self._next = self._call_soon(self._give_turn) if self._waiting else None


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _TurnQueue] = WeakKeyDictionary()
"""The queue of each event loop. A process has one event loop, but each test makes its own."""

_background: set[asyncio.Future[None]] = set()
