"""Watches the event loop: reports a turn that lasts longer than a second, with the place in the code.

One loop serves all clients, so such a turn makes all of them wait. A thread asks the loop for an answer twice a second.
If the answer is late, the thread logs the present stack of the loop's thread in one line. When the answer comes, a
second line has the length of the turn.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from types import FrameType

_log = logging.getLogger("kcli.server.Watchdog")

CHECK_SECONDS = 0.5
"""The time between two questions. Each question wakes the loop, which takes about 50 µs."""
STALL_SECONDS = 1.0
"""The length from which a turn is reported."""
QUIET_SECONDS = 60.0
"""The time after a reported turn in which later turns are only counted, because a client may cause them again and
again."""
FRAMES_MAX = 30
"""The most calls of the stack in a line, the innermost last."""


class _Turn(Enum):
    """The state of the present question."""

    WATCHED = 0
    REPORTED = 1
    COUNTED = 2
    """The answer is late, but another late answer was reported a short time ago."""
    PAUSED = 3
    """The thread of the watchdog did not run for a while, so a stack would show nothing."""


class LoopWatchdog:
    """Watches the loop that runs in the thread that makes this object. `monotonic` is its clock."""

    def __init__(
        self,
        call_soon_threadsafe: Callable[[Callable[[], None]], object],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        frame_of: Callable[[int], FrameType | None] = lambda thread: sys._current_frames().get(thread),
    ) -> None:
        self._call_soon = call_soon_threadsafe
        self._now = monotonic
        self._frame_of = frame_of
        self._watched = threading.get_ident()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kcli-watchdog", daemon=True)
        self._turn = _Turn.WATCHED
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._checked_at = monotonic()
        self._quiet_until = float("-inf")
        self._unreported = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_SECONDS):
            try:
                self.check()
            except RuntimeError:
                return  # the loop is closed

    def check(self) -> None:
        """Asks the loop, or looks for its answer to the last question. The thread calls this every CHECK_SECONDS."""
        now = self._now()
        was_paused = now - self._checked_at > CHECK_SECONDS + STALL_SECONDS / 2
        self._checked_at = now
        if self._asked_at is None:
            self._ask(now)
        elif self._answered_at is not None:
            self._turn_ended(self._answered_at - self._asked_at, now)
            self._ask(now)
        elif self._turn is _Turn.WATCHED:
            if was_paused:
                self._turn = _Turn.PAUSED
            elif now - self._asked_at > STALL_SECONDS:
                self._answer_is_late(now)

    def _ask(self, now: float) -> None:
        self._asked_at, self._answered_at, self._turn = now, None, _Turn.WATCHED
        self._call_soon(self._answer)

    def _answer(self) -> None:
        self._answered_at = self._now()

    def _answer_is_late(self, now: float) -> None:
        if self._is_quiet(now):
            self._turn = _Turn.COUNTED
            return
        self._turn = _Turn.REPORTED
        stack = _stack(self._frame_of(self._watched))
        _log.warning(
            "All clients wait, because a turn of the event loop lasts longer than %g s: %s%s",
            STALL_SECONDS,
            stack,
            self._unreported_text(),
        )

    def _turn_ended(self, seconds: float, now: float) -> None:
        if self._turn is _Turn.REPORTED:
            _log.warning("The event loop serves clients again after a turn of %.1f s", seconds)
        elif seconds > STALL_SECONDS and self._turn is not _Turn.COUNTED and not self._is_quiet(now):
            why = (
                "No thread of the process ran meanwhile. The machine may have been suspended or too busy"
                if self._turn is _Turn.PAUSED
                else "It ended before its stack was read"
            )
            _log.warning("A turn of the event loop took %.1f s. %s%s", seconds, why, self._unreported_text())

    def _is_quiet(self, now: float) -> bool:
        """Whether a turn is only counted. If it is not, the time for which later turns are only counted begins."""
        if now < self._quiet_until:
            self._unreported += 1
            return True
        self._quiet_until = now + QUIET_SECONDS
        return False

    def _unreported_text(self) -> str:
        count, self._unreported = self._unreported, 0
        return f"; {count} such turns before are not logged" if count else ""


def _stack(frame: FrameType | None) -> str:
    """The calls of a stack in one line, the innermost last."""
    calls = list(islice(_calls(frame), FRAMES_MAX))
    return " > ".join(reversed(calls)) or "nothing"


def _calls(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        code = frame.f_code
        yield f"{code.co_filename.rsplit('/kcli/', 1)[-1]}:{frame.f_lineno} {code.co_qualname}"
        frame = frame.f_back
