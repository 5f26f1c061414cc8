"""Requests in parts: their order, how many are in flight, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kcli.client.admin.parts import PARTS_AT_ONCE, ask_in_parts
from kcli.errors import TimeoutException


def test_answers_are_in_order_and_few_parts_are_in_flight() -> None:
    in_flight = 0
    most = 0

    async def ask(part: Sequence[int]) -> list[int]:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        for _ in range(1 + part[0] % 3):  # a later part may be answered first
            await asyncio.sleep(0)
        in_flight -= 1
        return list(part)

    async def main() -> list[list[int]]:
        return await ask_in_parts(range(10), 3, ask)

    assert asyncio.run(main()) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert most == PARTS_AT_ONCE


@pytest.mark.parametrize(("count", "parts"), [(0, []), (1, [1]), (3, [3]), (4, [3, 1])])
def test_sizes_of_parts(count: int, parts: list[int]) -> None:
    async def ask(part: Sequence[int]) -> int:
        return len(part)

    async def main() -> list[int]:
        return await ask_in_parts(range(count), 3, ask)

    assert asyncio.run(main()) == parts


def test_an_error_ends_the_call_without_the_parts_that_are_left() -> None:
    asked = []

    async def ask(part: Sequence[int]) -> None:
        asked.append(part[0])
        if part[0] == 3:
            raise TimeoutException("no answer")
        await asyncio.sleep(60)

    async def main() -> None:
        await ask_in_parts(range(30), 3, ask)

    with pytest.raises(TimeoutException, match="no answer"):
        asyncio.run(main())
    assert asked == [0, 3]
