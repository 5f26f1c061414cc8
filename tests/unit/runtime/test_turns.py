"""Long work in turns: at once if it is small, else one slice in an iteration of the event loop, in order, for all works
together. Work that its caller has begun by hand continues in a task."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from kcli.model.pace import mapped
from kcli.runtime.turns import (
    TURN_COST_MAX,
    Turn,
    continued,
    in_turn,
    next_turn,
    run_in_background,
    started,
    turns_given,
    within,
)
from rigs.loops import on_a_loop

STEP_COST = TURN_COST_MAX // 10


async def count_to(count: int, done: list[int]) -> int:
    pace = Turn()
    for number in range(count):
        await pace(STEP_COST)
        done.append(number)
    return count


# The pace.


@on_a_loop
async def test_work_that_fits_into_a_turn_never_suspends() -> None:
    pace = Turn()
    with pytest.raises(StopIteration) as end:
        mapped(pace, STEP_COST, range(10), str).send(None)
    assert end.value.value == tuple("0123456789")
    assert (pace.has_paused, turns_given()) == (False, 0)


@on_a_loop
async def test_the_loop_turns_after_each_slice() -> None:
    done: list[int] = []
    seen: list[int] = []
    work = asyncio.ensure_future(count_to(50, done))
    while not work.done():
        seen.append(len(done))
        await asyncio.sleep(0)
    assert work.result() == 50
    assert {after - before for before, after in itertools.pairwise(seen)} <= {0, 10}


@on_a_loop
async def test_the_turns_of_long_work_are_counted() -> None:
    assert turns_given() == 0
    await count_to(50, [])
    assert turns_given() == 4, "the first slice needs no turn"
    await count_to(2, [])
    assert turns_given() == 4


@on_a_loop
async def test_a_cost_above_the_maximum_has_its_own_slice() -> None:
    pace = Turn()
    await pace(3 * TURN_COST_MAX)
    assert (pace.has_paused, turns_given()) == (True, 1)
    await pace(1)
    assert turns_given() == 2, "nothing else fits into that slice"
    await pace(TURN_COST_MAX - 1)
    assert turns_given() == 2


@on_a_loop
async def test_all_works_together_do_one_slice_per_turn() -> None:
    done: list[int] = []
    works = [asyncio.ensure_future(count_to(50, done)) for _ in range(5)]
    await asyncio.sleep(0)  # each work does its first slice when it begins
    assert len(done) == 5 * 10
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


# Work that was begun by hand.


class Stopwatch:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def resume(self) -> None:
        self.calls.append("resume")

    def pause(self) -> None:
        self.calls.append("pause")


def begun(work: Coroutine[Any, Any, Any], *timers: Stopwatch) -> asyncio.Task[Any]:
    """A task that continues work after its first suspension."""
    return asyncio.ensure_future(continued(work, work.send(None), timers))


@on_a_loop
async def test_begun_work_continues_with_the_results_of_what_it_awaits() -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work() -> str:
        return await first + await second

    timer = Stopwatch()
    task = begun(work(), timer)
    await asyncio.sleep(0)  # the task has begun
    first.set_result("a")
    await asyncio.sleep(0)
    assert timer.calls == ["resume", "pause"]
    second.set_result("b")
    assert await task == "ab"
    assert timer.calls == ["resume", "pause"] * 2


@on_a_loop
async def test_an_error_of_what_it_awaits_is_raised_in_begun_work() -> None:
    gate = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await gate
        except ValueError as error:
            return f"caught {error}"
        return "no error"

    task = begun(work())
    gate.set_exception(ValueError("it"))
    assert await task == "caught it"


@on_a_loop
async def test_an_error_of_begun_work_ends_its_task_and_stops_the_timers() -> None:
    gate = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await gate
        raise ValueError("it")

    timer = Stopwatch()
    task = begun(work(), timer)
    gate.set_result(None)
    with pytest.raises(ValueError, match="it"):
        await task
    assert timer.calls == ["resume", "pause"]


@on_a_loop
async def test_a_cancelled_task_cancels_what_begun_work_awaits() -> None:
    gate = asyncio.get_running_loop().create_future()
    cleaned = []

    async def work() -> None:
        try:
            await gate
        finally:
            cleaned.append(True)

    task = begun(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.cancelled()
    assert cleaned == [True]


@on_a_loop
async def test_begun_work_may_survive_a_cancellation() -> None:
    gate = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await gate
        except asyncio.CancelledError:
            return "survived"
        return "not cancelled"

    task = begun(work())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "survived"


@on_a_loop
async def test_newer_versions_of_python_can_run_the_rest_of_work() -> None:
    """Since Python 3.12, a task runs only what the keyword async defines."""
    work = asyncio.sleep(0)
    rest = continued(work, work.send(None))
    assert inspect.iscoroutine(rest)
    await rest


@on_a_loop
async def test_started_work_gives_its_error_to_the_caller_that_waits_for_it() -> None:
    async def failing(*, at_once: bool) -> None:
        if not at_once:
            await asyncio.sleep(0)
        raise ValueError("told")

    async def result() -> int:
        return 7

    begun: list[asyncio.Future[Any]] = [
        started(failing(at_once=True)),
        started(failing(at_once=False)),
        started(result()),
    ]
    assert [future.done() for future in begun] == [True, False, True]
    for future in begun[:2]:
        with pytest.raises(ValueError, match="told"):
            await future
    assert await begun[2] == 7


@on_a_loop
async def test_background_work_needs_a_task_only_if_it_pauses() -> None:
    before = asyncio.all_tasks()
    done: list[int] = []

    async def work(count: int) -> None:
        await count_to(count, done)

    run_in_background(work(5))
    assert (len(done), asyncio.all_tasks()) == (5, before)
    run_in_background(work(15))
    assert len(done) == 15
    (task,) = asyncio.all_tasks() - before
    await asyncio.wait([task])
    assert len(done) == 20


# Time limits.


@on_a_loop
async def test_work_within_its_time_gives_its_result_or_its_error() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("it")

    assert await within(600, work()) == "done"
    assert await within(None, work()) == "done"
    with pytest.raises(ValueError, match="it"):
        await within(600, fails())


@on_a_loop
async def test_work_that_takes_too_long_is_cancelled() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        await within(0, work())
    assert ended == [True]


@on_a_loop
async def test_a_result_that_comes_with_the_cancellation_counts() -> None:
    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "just in time"
        return "never"

    assert await within(0, work()) == "just in time"


@on_a_loop
async def test_cancelling_the_waiter_cancels_the_limited_work() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    waiting = asyncio.ensure_future(within(600, work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == [True]


@on_a_loop
async def test_a_time_limit_needs_no_task() -> None:
    """A handler runs without a task until it suspends. `asyncio.timeout` would raise."""
    results = []

    async def work() -> str:
        return "done"

    async def handler() -> None:
        results.append(await within(600, work()))

    coroutine = handler()
    called = asyncio.get_running_loop().create_future()

    def begin() -> None:
        assert asyncio.current_task() is None
        called.set_result(asyncio.ensure_future(continued(coroutine, coroutine.send(None))))

    asyncio.get_running_loop().call_soon(begin)
    await (await called)
    assert results == ["done"]


def test_pieces_of_work_that_begin_together_have_turns_of_their_own() -> None:
    async def main() -> tuple[list[int], list[int]]:
        begun: list[int] = []

        async def work(number: int) -> int:
            begun.append(turns_given())
            return number

        return list(await asyncio.gather(*(in_turn(work, number) for number in range(5)))), begun

    results, begun = asyncio.run(main())
    assert results == [0, 1, 2, 3, 4]
    assert len(set(begun)) == 5
