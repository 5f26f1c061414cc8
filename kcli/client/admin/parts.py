"""Cuts a long list into requests of bounded size, and sends a few of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

PARTS_AT_ONCE = 2
"""The number of requests that are sent at a time. The server works on one request while the client reads the answer to
the other.

A server works on one request of a connection at a time, so further requests would only wait at the server.
"""


def in_parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Returns the items in their order, in parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def ask_in_parts(items: Sequence[T], size: int, ask: Callable[[Sequence[T]], Awaitable[R]]) -> list[R]:
    """Calls `ask` with each part of the items. Returns the answers in order, or raises the first error."""
    if len(items) <= size:
        return [await ask(items)] if items else []
    parts = list(in_parts(items, size))
    answers: dict[int, R] = {}
    numbered = iter(enumerate(parts))

    async def ask_one_by_one() -> None:
        for number, part in numbered:
            answers[number] = await ask(part)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PARTS_AT_ONCE):
                tasks.create_task(ask_one_by_one())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [answers[number] for number in range(len(parts))]
