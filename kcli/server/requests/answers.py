"""Combines answers that are ready with answers that must be awaited. An answer that is ready needs no task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

AnswerT = TypeVar("AnswerT")
NextT = TypeVar("NextT")


def then(
    answer: AnswerT | Awaitable[AnswerT], go_on: Callable[[AnswerT], NextT | Awaitable[NextT]]
) -> NextT | Awaitable[NextT]:
    """Calls `go_on` with the answer, now or when the answer is ready. Returns the result of `go_on` or an awaitable of
    that result. `go_on` may return an awaitable too."""
    return _later(answer, go_on) if isinstance(answer, Awaitable) else go_on(answer)


async def finished(answer: AnswerT | Awaitable[AnswerT]) -> AnswerT:
    """Returns the answer. If the answer is not ready, awaits it."""
    return await answer if isinstance(answer, Awaitable) else answer


async def _later(answer: Awaitable[AnswerT], go_on: Callable[[AnswerT], NextT | Awaitable[NextT]]) -> NextT:
    result = go_on(await answer)
    return await result if isinstance(result, Awaitable) else result
