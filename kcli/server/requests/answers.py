"""Answers that are there at once or come later: what can be answered now costs no task and no turn of the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any


def then(answer: object, go_on: Callable[[Any], object]) -> Any:
    """What `go_on` makes of the answer, or an awaitable of that. `go_on` may give an awaitable itself."""
    return _later(answer, go_on) if isawaitable(answer) else go_on(answer)


async def _later(answer: Awaitable[Any], go_on: Callable[[Any], object]) -> Any:
    result = go_on(await answer)
    return await result if isawaitable(result) else result
