"""The delay of the event loop: the time for which new work waits until the loop begins it.

One loop serves all clients, so this delay is part of the time of every request.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from kcli.runtime.process import thread_cpu_seconds
from kcli.server.metrics.buckets import Buckets

BUSY_SAMPLE_SECONDS, IDLE_SAMPLE_SECONDS = 0.05, 0.25
"""The time between two samples. A sample wakes the loop up if the loop has no other work, and this takes 50 to 100 µs
of CPU time. So there are fewer samples if the loop is idle. The longest time, 0.25 seconds, is also the limit of the
alert about the delay."""
BUSY_SHARE = 0.5
"""The loop counts as busy if its thread uses at least this share of the CPU time."""
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
        self._due = self._cpu_seconds = 0.0

    def start(self) -> None:
        self._cpu_seconds = thread_cpu_seconds()
        self._wait(BUSY_SAMPLE_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._due = _now() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._sample, seconds)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def largest(self) -> float:
        """The largest delay of the last WINDOW_SECONDS, in seconds."""
        self._forget(_now())
        return max((delay for _, delay in self._largest), default=0.0)

    def _sample(self, waited: float) -> None:
        now, cpu_seconds = _now(), thread_cpu_seconds()
        delay = max(now - self._due, 0.0)
        self.note(delay, now)
        worked, self._cpu_seconds = cpu_seconds - self._cpu_seconds, cpu_seconds
        self._wait(next_wait(worked / (waited + delay), delay))

    def note(self, delay: float, now: float) -> None:
        """Stores one delay, in seconds."""
        self.delays.add(delay)
        second = int(now)
        if self._largest and self._largest[-1][0] == second:
            delay = max(delay, self._largest.pop()[1])
        self._largest.append((second, delay))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._largest and self._largest[0][0] < now - WINDOW_SECONDS:
            self._largest.popleft()


def next_wait(busy_share: float, delay: float) -> float:
    """The seconds until the next sample. A busy loop is sampled more often. A long delay also counts as busy, because a
    loop that waits for a disk uses no CPU time but delays other work."""
    is_busy = busy_share >= BUSY_SHARE or delay >= BUSY_SAMPLE_SECONDS
    return BUSY_SAMPLE_SECONDS if is_busy else IDLE_SAMPLE_SECONDS
