"""Runs work that is divided into steps. The work is a generator that yields after each step, so that the rest of it may
run in a thread. At the end the generator returns its result."""

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
