"""What a shard of a coordinator answers, as its tests look at it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


def answers(ready: Any) -> tuple[tuple[Any, Any], ...]:
    """(token, response) of each reply of a `Ready`."""
    return tuple((reply.token, reply.response) for reply in ready.replies)


def result_of(steps: Generator[None, None, T]) -> T:
    """The result of work in turns, here without turns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
