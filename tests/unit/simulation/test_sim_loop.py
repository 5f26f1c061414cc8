"""The simulated loop: time without waiting, executors without threads, processes that can be killed."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from simulation.runtime.clock import BEGINNING_MS, SimClock
from simulation.runtime.loop import (
    Deadlock,
    Livelock,
    SimExecutor,
    SimLoop,
    SimProcess,
    simulate,
    simulate_noted,
)


def test_a_day_takes_no_time() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    began = time.monotonic()
    assert simulate(1, main) == pytest.approx(86_400)
    assert time.monotonic() - began < 60


def test_the_clock_moves_with_the_loop() -> None:
    async def main(loop: SimLoop) -> None:
        clock = SimClock(loop, skew_ms=7)
        assert clock.now_ms() == BEGINNING_MS + 7
        await asyncio.sleep(1.5)
        assert clock.now_ms() == BEGINNING_MS + 1507
        assert clock.monotonic() == pytest.approx(1.5)

    simulate(1, main)


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main(loop: SimLoop) -> None:
        waiting = loop.create_task(asyncio.Event().wait(), name="waits for ever")
        await waiting

    with pytest.raises(Deadlock, match="waits for ever"):
        simulate(1, main)


def test_turning_without_end_is_a_livelock() -> None:
    async def spins_for_ever() -> None:
        while True:  # noqa: ASYNC110 -- this is the mistake
            await asyncio.sleep(0)

    async def main(loop: SimLoop) -> None:
        await spins_for_ever()

    with pytest.raises(Livelock, match="no time passes"):
        simulate(1, main)


def test_timers_fire_in_order_and_timeouts_work() -> None:
    async def main(loop: SimLoop) -> list[str]:
        seen: list[str] = []
        loop.call_later(0.2, seen.append, "second")
        loop.call_later(0.1, seen.append, "first")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asyncio.sleep(10)
        return seen

    assert simulate(1, main) == ["first", "second"]


def test_executor_jobs_run_inline_and_take_time() -> None:
    async def main(loop: SimLoop) -> None:
        before = loop.time()
        assert await asyncio.to_thread(lambda: 42) == 42
        assert loop.time() > before
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)

    simulate(1, main)


def test_an_executor_in_the_background() -> None:
    async def main(loop: SimLoop) -> None:
        executor = SimExecutor(loop)
        later = executor.submit(lambda: "done")
        assert not later.done()
        await asyncio.sleep(2)
        assert later.result() == "done"
        last = executor.submit(lambda: "flushed")
        executor.shutdown(wait=True)
        assert last.result() == "flushed"

    simulate(1, main)


def test_an_error_of_a_callback_ends_the_run() -> None:
    async def main(loop: SimLoop) -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        simulate(1, main)


def test_every_turn_is_checked() -> None:
    async def main(loop: SimLoop) -> None:
        counted = [0]

        def check() -> None:
            counted[0] += 1
            assert loop.time() < 5, "too late"

        loop.on_turn.append(check)
        await asyncio.sleep(1)
        assert counted[0] > 0
        await asyncio.sleep(10)

    with pytest.raises(AssertionError, match="too late"):
        simulate(1, main)


def test_a_killed_process_does_nothing_more() -> None:
    seen: list[str] = []

    async def victim() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(3, seen.append, "timer")
        grandchild = asyncio.create_task(_says_every_second(seen))
        try:
            await grandchild
        finally:
            loop.call_soon(seen.append, "last words")

    async def main(loop: SimLoop) -> None:
        process = SimProcess("victim")
        process.spawn(victim())
        other = loop.create_task(asyncio.sleep(10, "alive"))
        await asyncio.sleep(2.5)
        loop.kill(process)
        assert await other == "alive"

    simulate(1, main)
    assert seen == ["tick", "tick"]


async def _says_every_second(seen: list[str]) -> None:
    while True:
        await asyncio.sleep(1)
        seen.append("tick")


def test_a_kill_falls_between_a_job_and_the_news_of_it() -> None:
    """A task that waits for a thread may die before the thread ran, or after, without its result."""
    outcomes = set()

    async def main(loop: SimLoop) -> tuple[bool, bool]:
        done: list[str] = []
        heard: list[str] = []

        async def work() -> None:
            await asyncio.to_thread(done.append, "x")
            heard.append("x")

        process = SimProcess("worker")
        process.spawn(work())
        await asyncio.sleep(0.001)
        loop.kill(process)
        await asyncio.sleep(5)
        return bool(done), bool(heard)

    for seed in range(60):
        outcomes.add(simulate(seed, main))
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_a_killed_process_need_not_look_at_the_errors_of_its_tasks() -> None:
    async def fails() -> None:
        raise ValueError("the caller of this task is killed in the same turn")

    async def waits_for_a_failure() -> None:
        await asyncio.create_task(fails())

    async def main(loop: SimLoop) -> None:
        process = SimProcess("process")
        process.spawn(waits_for_a_failure())
        await asyncio.sleep(0)  # the caller starts its task
        loop.call_soon(loop.kill, process)  # after the task has failed, before the caller continues
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(1)

    simulate(1, main)


def test_an_error_that_no_task_looks_at_ends_the_run() -> None:
    async def fails() -> None:
        raise ValueError("nothing waits for this task")

    async def main(loop: SimLoop) -> None:
        SimProcess("process").spawn(fails())
        await asyncio.sleep(1)
        gc.collect()
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="nothing waits for this task"):
        simulate(1, main)


def test_the_trace_is_of_the_seed() -> None:
    async def main(loop: SimLoop) -> str:
        for _ in range(5):
            await asyncio.to_thread(lambda: None)
            loop.note("again")
        return loop.trace

    assert simulate(1, main) == simulate(1, main)
    assert simulate(1, main) != simulate(2, main)


def test_an_error_names_the_last_notes_and_the_command_that_repeats_it() -> None:
    async def story(loop: SimLoop) -> None:
        loop.note("the last step")
        raise AssertionError("broken")

    with pytest.raises(AssertionError, match="broken") as failed:
        simulate_noted(7, story, "pytest --sim-seed 7")
    last, again = failed.value.__notes__
    assert "the last step" in last
    assert again == "To see it again: pytest --sim-seed 7"


def test_a_paused_process_does_nothing_until_it_continues() -> None:
    async def main(loop: SimLoop) -> list[float]:
        process, ticks = SimProcess("paused"), list[float]()

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(round(loop.time(), 3))

        process.spawn(tick())
        await asyncio.sleep(2.5)
        loop.pause(process)
        await asyncio.sleep(10)
        assert ticks == [1, 2], "nothing happens in a pause"
        loop.go_on(process)
        await asyncio.sleep(2)
        loop.kill(process)
        return ticks

    assert simulate(1, main) == [1, 2, 12.5, 13.5]


def test_a_paused_process_may_be_killed() -> None:
    async def main(loop: SimLoop) -> list[str]:
        process, done = SimProcess("paused"), list[str]()
        loop.pause(process)
        process.spawn(_append_later(done))
        await asyncio.sleep(5)
        loop.kill(process)
        loop.go_on(process)
        await asyncio.sleep(5)
        return done

    assert simulate(1, main) == []


async def _append_later(done: list[str]) -> None:
    await asyncio.sleep(1)
    done.append("done")


def test_the_loop_knows_which_processes_have_acted() -> None:
    async def main(loop: SimLoop) -> list[bool]:
        busy, idle = SimProcess("busy"), SimProcess("idle")
        seen: list[bool] = []

        async def spin() -> None:
            for _ in range(100):
                await asyncio.sleep(0.1)

        busy.spawn(spin())
        idle.spawn(asyncio.sleep(3600))
        await asyncio.sleep(1)
        loop.on_turn.append(lambda: seen.append(idle in loop.acting))
        turns: list[bool] = []
        loop.on_turn.append(lambda: turns.append(busy in loop.acting))
        await asyncio.sleep(1)
        assert any(turns)
        return seen

    assert not any(simulate(1, main))


def test_a_clock_that_drifts_does_not_jump() -> None:
    async def main(loop: SimLoop) -> None:
        clock = SimClock(loop)
        await asyncio.sleep(100)
        clock.drift(1.1)
        assert clock.now_ms() == BEGINNING_MS + 100_000
        await asyncio.sleep(100)
        assert clock.now_ms() == pytest.approx(BEGINNING_MS + 210_000, abs=2)
        clock.drift(1.0)
        assert clock.now_ms() == pytest.approx(BEGINNING_MS + 210_000, abs=2)
        await asyncio.sleep(10)
        assert clock.now_ms() == pytest.approx(BEGINNING_MS + 220_000, abs=2)

    simulate(1, main)
