"""The alarm of a coordinator's shard, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kcli.server.coordinators.alarm import HELD_MS, LONGEST_GRACE_MS, Alarm
from simulation.runtime.loop import SimLoop, simulate

Heard = list[tuple[str, int]]


def heard(main: Callable[[SimLoop, Alarm, Heard], Coroutine[Any, Any, None]]) -> Heard:
    """Runs `main` on a virtual loop. Returns what happened, with its time in milliseconds."""
    found: Heard = []

    async def run(loop: SimLoop) -> None:
        def now_ms() -> int:
            return round(loop.time() * 1000)

        alarm = Alarm(now_ms, lambda: found.append(("alarm", now_ms())))
        await main(loop, alarm, found)

    simulate(0, run)
    return found


def at(loop: SimLoop, when_ms: int, work: Callable[[], object]) -> None:
    loop.call_at(when_ms / 1000, work)


def test_the_earliest_deadline_rings_once() -> None:
    async def main(loop: SimLoop, alarm: Alarm, _: Heard) -> None:
        for deadline_ms in (300, 100, 200):
            alarm.set(deadline_ms)
        await asyncio.sleep(1)

    assert heard(main) == [("alarm", 100)]


def test_a_deadline_that_has_passed_rings_at_once() -> None:
    async def main(loop: SimLoop, alarm: Alarm, _: Heard) -> None:
        await asyncio.sleep(5)
        alarm.set(100)
        await asyncio.sleep(1)

    assert heard(main) == [("alarm", 5000)]


def test_a_cancelled_alarm_does_not_ring() -> None:
    async def main(loop: SimLoop, alarm: Alarm, _: Heard) -> None:
        alarm.set(100)
        alarm.cancel()
        await asyncio.sleep(1)

    assert heard(main) == []


def test_requests_of_a_time_in_which_the_loop_was_held_up_go_first() -> None:
    async def main(loop: SimLoop, alarm: Alarm, found: Heard) -> None:
        alarm.set(100)
        at(loop, 50, lambda: loop.stall(0.3))
        at(loop, 120, lambda: found.append(("request", round(loop.time() * 1000))))
        at(loop, 500, lambda: found.append(("its answer led to another", 500)))
        await asyncio.sleep(2)

    # The alarm is 250 ms late, so it waits for 250 ms more.
    assert heard(main) == [("request", 350), ("its answer led to another", 500), ("alarm", 600)]


def test_an_alarm_is_postponed_once_and_not_for_long() -> None:
    async def main(loop: SimLoop, alarm: Alarm, _: Heard) -> None:
        alarm.set(100)
        at(loop, 50, lambda: loop.stall(9.95))
        at(loop, 10_100, lambda: loop.stall(0.9))
        alarm.set(100)
        await asyncio.sleep(20)

    assert LONGEST_GRACE_MS == 500
    assert heard(main) == [("alarm", 11_000)]


def test_a_small_delay_postpones_nothing() -> None:
    async def main(loop: SimLoop, alarm: Alarm, _: Heard) -> None:
        alarm.set(100)
        at(loop, 99, lambda: loop.stall(HELD_MS / 1000))
        await asyncio.sleep(1)

    assert heard(main) == [("alarm", 99 + HELD_MS)]


def test_a_request_during_the_postponement_does_not_end_it() -> None:
    async def main(loop: SimLoop, alarm: Alarm, found: Heard) -> None:
        alarm.set(100)
        at(loop, 50, lambda: loop.stall(0.3))
        # Each request sets the alarm again, because it may have changed the deadlines.
        at(loop, 120, lambda: alarm.set(100))
        at(loop, 400, lambda: alarm.set(100))
        await asyncio.sleep(2)

    assert heard(main) == [("alarm", 600)]
