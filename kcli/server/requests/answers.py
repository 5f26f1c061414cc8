"""Handles ready answers in the same way as answers that must be awaited. A ready answer needs no task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

AnswerT = TypeVar("AnswerT")
NextT = TypeVar("NextT")

_UNFINISHED = (asyncio.Future, CoroutineType, GeneratorType)


def is_unfinished(answer: AnswerT | Awaitable[AnswerT]) -> TypeIs[Awaitable[AnswerT]]:
    """Whether the answer must be awaited: a future, a task or a coroutine of either kind.

    `isinstance(answer, Awaitable)` takes five times as long.
    """
    return isinstance(answer, _UNFINISHED)


def then(
    answer: AnswerT | Awaitable[AnswerT], go_on: Callable[[AnswerT], NextT | Awaitable[NextT]]
) -> NextT | Awaitable[NextT]:
    """Calls `go_on` with the answer, now or when the answer is ready. Returns the result of `go_on` or an awaitable of
    that result. `go_on` may return an awaitable too."""
    return _later(answer, go_on) if is_unfinished(answer) else go_on(answer)


async def finished(answer: AnswerT | Awaitable[AnswerT]) -> AnswerT:
    """Returns the answer. If the answer is not ready, awaits it."""
    return await answer if is_unfinished(answer) else answer


async def _later(answer: Awaitable[AnswerT], go_on: Callable[[AnswerT], NextT | Awaitable[NextT]]) -> NextT:
    result = go_on(await answer)
    return await result if is_unfinished(result) else result
