"""Waiting for what the code under test has no event for."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

PATIENCE_S = 60.0  # far more than anything takes on a machine that does other things, too


async def until(condition: Callable[[], object]) -> None:
    """Asks until the answer, or what it resolves to, is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.001)
