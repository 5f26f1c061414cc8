"""Runs work that is divided into steps. The work is a generator that yields after each step, so that other work can run
between two steps. At the end the generator returns its result."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")

_SORTED_AT_ONCE = 100


def last_of(steps: Generator[None, None, ResultT]) -> ResultT:
    """Runs all steps without a pause. Returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result


def sorted_steps(items: Sequence[ItemT], key: Callable[[ItemT], str]) -> Generator[None, None, list[ItemT]]:
    """Sorts items in steps, because a sort of 200,000 names without a pause takes 0.1 s. Items with equal keys keep
    their order."""
    runs = []
    for begin in range(0, len(items), _SORTED_AT_ONCE):
        runs.append(sorted(items[begin : begin + _SORTED_AT_ONCE], key=key))
        yield
    if len(runs) <= 1:
        return runs[0] if runs else []
    merged = []
    for item in heapq.merge(*runs, key=key):
        merged.append(item)
        yield
    return merged
