"""Pauses Python's cyclic garbage collector while very long work runs.

The collector visits all container objects again and again while their number grows. A request of 500,000 partitions
makes a million of them, and a visit of all holds the event loop for 0.3 s. Messages have no cycles, so they are freed
without the collector.
"""

from __future__ import annotations

import asyncio
import gc

PAUSE_SECONDS_MAX = 10.0
"""The longest pause. Afterwards the collector runs for as long, because other objects may have cycles."""
RESUME_TURNS = 20
"""Turns of the loop from the end of the last work to the collector's next run. A request is several works, one after
the other: it is decoded, handled, and its answer encoded."""


class CollectorPause:
    """The pauses of one process."""

    def __init__(self) -> None:
        self._works = 0
        self._began: float | None = None
        self._next_at = float("-inf")

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """A very long work runs. Pauses the collector if it may be paused."""
        self._works += 1
        now = loop.time()
        if self._began is None:
            if now >= self._next_at and gc.isenabled():
                self._began = now
                gc.disable()
        elif now - self._began > PAUSE_SECONDS_MAX:
            self._resume(now)

    def end(self, loop: asyncio.AbstractEventLoop) -> None:
        """The work is over."""
        self._works -= 1
        if self._works == 0 and self._began is not None:
            loop.call_soon(self._resume_if_idle, loop, RESUME_TURNS)

    def _resume_if_idle(self, loop: asyncio.AbstractEventLoop, turns_left: int) -> None:
        if self._works or self._began is None:
            return
        if turns_left:
            loop.call_soon(self._resume_if_idle, loop, turns_left - 1)
            return
        self._resume(loop.time())
        self._next_at = float("-inf")

    def _resume(self, now: float) -> None:
        self._began = None
        self._next_at = now + PAUSE_SECONDS_MAX
        gc.enable()
