"""Pauses Python's cyclic garbage collector while very long work runs.

While the number of container objects grows, the collector visits all of them again and again. A request of 500,000
partitions makes a million container objects, and one visit of all these objects blocks the event loop for 0.3 s.
Messages have no cycles, so they are freed without the collector.
"""

from __future__ import annotations

import asyncio
import gc

PAUSE_SECONDS_MAX = 10.0
"""The longest pause, and the shortest time between two pauses. Between pauses the collector must run, because other
objects may have cycles."""
RESUME_TURNS = 20
"""The turns of the loop from the end of the last piece of work to the end of the pause. One request is several pieces
of work: the request is decoded, the handler runs, and the response is encoded."""


class CollectorPause:
    """Starts and ends the pauses of the collector in one process."""

    def __init__(self) -> None:
        self._works = 0
        self._began: float | None = None
        self._next_at = float("-inf")

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Counts a very long piece of work that begins. Pauses the collector, unless the last long pause ended less
        than PAUSE_SECONDS_MAX ago."""
        self._works += 1
        now = loop.time()
        if self._began is None:
            if now >= self._next_at and gc.isenabled():
                self._began = now
                gc.disable()
        elif now - self._began > PAUSE_SECONDS_MAX:
            self._resume(now)

    def end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Counts the end of a piece of work. The pause ends RESUME_TURNS turns after the end of the last piece."""
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
