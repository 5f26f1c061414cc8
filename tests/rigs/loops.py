"""Event loops of tests: coroutine tests, and waiting for what the code under test has no event for."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import ParamSpec

PATIENCE_S = 60.0  # far more than anything takes on a machine that does other things, too

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Runs a coroutine test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], object]) -> None:
    """Asks until the answer, or what it resolves to, is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.001)
