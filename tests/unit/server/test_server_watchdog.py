from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable

import pytest

from kcli.server.process.watchdog import CHECK_SECONDS, QUIET_SECONDS, LoopWatchdog


class Rig:
    """A watchdog with a clock, and a loop that answers when the test says so."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, "kcli.server.Watchdog")
        self.caplog = caplog
        self.now = 100.0
        self.questions: list[Callable[[], None]] = []
        self.watchdog = LoopWatchdog(
            self.questions.append, monotonic=lambda: self.now, frame_of=lambda _: sys._getframe()
        )

    def wait(self, seconds: float) -> None:
        """Lets time pass, while the loop does not answer."""
        for _ in range(int(seconds / CHECK_SECONDS)):
            self.now += CHECK_SECONDS
            self.watchdog.check()

    def answer(self) -> None:
        self.questions.pop()()
        self.wait(CHECK_SECONDS)

    def lines(self) -> list[str]:
        lines = [record.getMessage() for record in self.caplog.records]
        self.caplog.clear()
        return lines


@pytest.fixture
def rig(caplog: pytest.LogCaptureFixture) -> Rig:
    return Rig(caplog)


def test_short_turns_are_silent(rig: Rig) -> None:
    rig.watchdog.check()
    for _ in range(5):
        rig.wait(1.0)
        rig.answer()
    assert rig.lines() == []


def test_a_long_turn_is_reported_once_with_its_stack_and_its_length(rig: Rig) -> None:
    rig.watchdog.check()
    rig.wait(5.0)
    (line,) = rig.lines()
    assert line.startswith("All clients wait, because a turn of the event loop lasts longer than 1 s: ")
    assert "test_a_long_turn_is_reported_once" in line and line.endswith("<lambda>") and "\n" not in line
    rig.answer()
    assert rig.lines() == ["The event loop serves clients again after a turn of 5.0 s"]


def test_further_long_turns_are_counted_for_a_minute(rig: Rig) -> None:
    rig.watchdog.check()
    rig.wait(2.0)
    rig.answer()
    rig.lines()
    for _ in range(3):
        rig.wait(2.0)
        rig.answer()
    assert rig.lines() == []
    for _ in range(int(QUIET_SECONDS)):
        rig.answer()
        rig.wait(1.0)
    rig.wait(2.0)
    (line,) = rig.lines()
    assert line.endswith("; 3 such turns before are not logged")


def test_a_process_that_was_paused_has_no_stack(rig: Rig) -> None:
    rig.watchdog.check()
    rig.now += 3600
    rig.watchdog.check()
    rig.answer()
    (line,) = rig.lines()
    assert line.startswith("A turn of the event loop took 3600.0 s. No thread of the process ran meanwhile.")


def test_a_turn_between_two_looks_is_reported_without_a_stack(rig: Rig) -> None:
    rig.watchdog.check()
    rig.wait(1.0)
    rig.now += 0.4
    rig.questions.pop()()
    rig.now += 0.1
    rig.watchdog.check()
    assert rig.lines() == ["A turn of the event loop took 1.4 s. It ended before its stack was read"]


def test_a_real_loop_is_asked_and_the_thread_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def serve() -> None:
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def call_soon(answer: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(answer)
            loop.call_soon_threadsafe(asked.set)

        watchdog = LoopWatchdog(call_soon)
        watchdog.start()
        await asyncio.wait_for(asked.wait(), 30)
        watchdog.stop()
        assert "kcli-watchdog" not in {thread.name for thread in threading.enumerate()}

    asyncio.run(serve())
    assert caplog.text == ""


def test_the_watchdog_of_a_closed_loop_ends() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    watchdog = LoopWatchdog(loop.call_soon_threadsafe)
    watchdog.start()
    watchdog._thread.join(30)
    assert not watchdog._thread.is_alive()
