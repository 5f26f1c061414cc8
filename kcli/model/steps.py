"""Work in steps: a generator that yields where another thread or client may have a turn, and returns the result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")


def last_of(steps: Generator[None, None, ResultT]) -> ResultT:
    """Takes all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result
