"""The delay of the event loop: the time for which new work waits until the loop begins it.

One loop serves all clients, so this delay is part of the time of every request.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from kcli.server.metrics.buckets import Buckets

SAMPLE_SECONDS = 0.05
"""The time between two samples. A sample takes 10 µs, so the samples use 0.02 % of a CPU."""
WINDOW_SECONDS = 60.0
"""The time for which the largest delay is kept. It is at least as long as the usual times between two scrapes."""

_now = time.monotonic


class LoopDelay:
    """Measures by how much a timer of the loop is late."""

    def __init__(self) -> None:
        self.delays = Buckets()
        # The largest delay of each second: the second and the delay.
        self._largest: deque[tuple[int, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        self._due = _now() + SAMPLE_SECONDS
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def largest(self) -> float:
        """The largest delay of the last WINDOW_SECONDS, in seconds."""
        self._forget(_now())
        return max((delay for _, delay in self._largest), default=0.0)

    def _sample(self) -> None:
        now = _now()
        self.note(max(now - self._due, 0.0), now)
        self.start()

    def note(self, delay: float, now: float) -> None:
        """Counts one delay in seconds."""
        self.delays.add(delay)
        second = int(now)
        if self._largest and self._largest[-1][0] == second:
            delay = max(delay, self._largest.pop()[1])
        self._largest.append((second, delay))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._largest and self._largest[0][0] < now - WINDOW_SECONDS:
            self._largest.popleft()
