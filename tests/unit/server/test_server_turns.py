"""Long work in turns: at once if it is small, else one slice per iteration of the event loop, in order, for all works
together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable

import pytest

from kcli.model.steps import sorted_steps
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import (
    Steps,
    in_turns,
    nested_steps,
    next_turn,
    run_in_turns,
    turns_given,
)
from rigs.loops import on_a_loop


def test_small_work_is_done_at_once_and_without_a_loop() -> None:
    assert in_turns(range(5), str, per_turn=5) == ["0", "1", "2", "3", "4"]
    assert in_turns((), str, per_turn=5) == []


def test_steps_that_fit_into_a_turn_are_done_at_once() -> None:
    assert run_in_turns(_counting(2, []), per_turn=3) == 2


@on_a_loop
async def test_large_work_keeps_its_order() -> None:
    answer = in_turns(range(1000), lambda number: number * 2, per_turn=7)
    assert isinstance(answer, Awaitable)
    assert await answer == list(range(0, 2000, 2))


@on_a_loop
async def test_the_loop_turns_after_each_slice() -> None:
    done: list[int] = []
    seen: list[int] = []
    work = asyncio.ensure_future(finished(run_in_turns(_counting(50, done), per_turn=10)))
    while not work.done():
        seen.append(len(done))
        await asyncio.sleep(0)
    assert work.result() == 50
    assert {after - before for before, after in itertools.pairwise(seen)} <= {0, 10}


@on_a_loop
async def test_the_turns_of_long_work_are_counted() -> None:
    assert turns_given() == 0
    await finished(run_in_turns(_counting(50, []), per_turn=10))
    # The first ten steps need no turn, and the last turn finds that the work is done.
    assert turns_given() == 5
    assert run_in_turns(_counting(2, []), per_turn=3) == 2
    assert turns_given() == 5


@on_a_loop
async def test_all_works_together_do_one_slice_per_turn() -> None:
    done: list[int] = []
    works = [
        asyncio.ensure_future(finished(run_in_turns(_counting(50, done), per_turn=10))) for _ in range(5)
    ]
    await asyncio.sleep(0)  # each work does its first slice when it begins
    begun = len(done)
    assert begun == 5 * 10
    most = 0
    while not all(work.done() for work in works):
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert most <= 10
    assert [work.result() for work in works] == [50] * 5


@on_a_loop
async def test_a_cancelled_work_gives_its_turn_to_the_next() -> None:
    first, second = asyncio.ensure_future(next_turn()), asyncio.ensure_future(next_turn())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 10)
    await asyncio.wait_for(next_turn(), 10)
    assert first.cancelled()


@on_a_loop
async def test_an_error_in_a_later_slice_ends_the_work() -> None:
    def refuse(number: int) -> int:
        if number == 25:
            raise ValueError("number 25")
        return number

    with pytest.raises(ValueError, match="number 25"):
        await finished(in_turns(range(50), refuse, per_turn=10))


@on_a_loop
async def test_nested_parts_are_counted_together() -> None:
    """Many groups of one part, and one group of many parts, take turns alike."""
    for groups in ([[number] for number in range(100)], [list(range(100))]):
        steps = nested_steps(
            groups,
            lambda group: group,
            lambda group, item: item + len(group),
            lambda group, results: (len(group), results),
        )
        answer = run_in_turns(steps, per_turn=30)
        assert isinstance(answer, Awaitable)
        assert await answer == tuple(
            (len(group), tuple(item + len(group) for item in group)) for group in groups
        )


@on_a_loop
async def test_names_are_sorted_as_at_once() -> None:
    names = [f"{number * 7919 % 1000}" for number in range(1000)]
    assert await finished(run_in_turns(sorted_steps(names, str), per_turn=10)) == sorted(names)
    assert run_in_turns(sorted_steps([], str), per_turn=10) == []


@on_a_loop
async def test_then_continues_with_either_kind_of_answer() -> None:
    def length(found: list[str]) -> int:
        return len(found)

    assert then(in_turns(range(3), str, 10), length) == 3
    later = then(in_turns(range(30), str, 10), length)
    assert isinstance(later, Awaitable)
    assert await later == 30


def _counting(count: int, done: list[int]) -> Steps[int]:
    for number in range(count):
        done.append(number)
        yield
    return count
