"""The answers of a coordinator's shard, in the form that its tests compare."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


def answers(ready: Any) -> tuple[tuple[Any, Any], ...]:
    """The token and the response of each reply of a `Ready`."""
    return tuple((reply.token, reply.response) for reply in ready.replies)


def result_of(steps: Generator[None, None, T]) -> T:
    """The result of work in turns, here without turns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
