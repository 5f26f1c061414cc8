"""Answers that are ready at once or come later. A ready answer costs no task and no turn of the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

AnswerT = TypeVar("AnswerT")
NextT = TypeVar("NextT")


def then(
    answer: AnswerT | Awaitable[AnswerT], go_on: Callable[[AnswerT], NextT | Awaitable[NextT]]
) -> NextT | Awaitable[NextT]:
    """Applies `go_on` to the answer: the result, or an awaitable of it. `go_on` may itself return an awaitable."""
    return _later(answer, go_on) if isinstance(answer, Awaitable) else go_on(answer)


async def finished(answer: AnswerT | Awaitable[AnswerT]) -> AnswerT:
    """The answer itself, in a function that may wait anyway."""
    return await answer if isinstance(answer, Awaitable) else answer


async def _later(answer: Awaitable[AnswerT], go_on: Callable[[AnswerT], NextT | Awaitable[NextT]]) -> NextT:
    result = go_on(await answer)
    return await result if isinstance(result, Awaitable) else result
