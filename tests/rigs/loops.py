"""Runs coroutine tests, and waits for conditions that the tested code does not report by an event."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import ParamSpec

PATIENCE_S = 60.0  # far longer than any wait, even if other programs use the machine

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Runs a coroutine test on its own event loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], object]) -> None:
    """Calls `condition` until it returns True, or an awaitable of True."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.001)


async def some_turns(count: int = 20) -> None:
    """Lets the running loop take turns, so that all work that is ready has run. Nothing depends on the real time."""
    for _ in range(count):
        await asyncio.sleep(0)


def move_clock(seconds: float) -> None:
    """Moves the clock of the running loop forward. Timers that are due then run in the next iteration of the event
    loop."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds
