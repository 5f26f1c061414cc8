"""Runs work that the code under test divides into steps: a generator that yields after each step, and returns its
result at the end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")


def last_of(steps: Generator[None, None, ResultT]) -> ResultT:
    """Runs all steps without a pause. Returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result
