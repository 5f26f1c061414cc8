"""The wall clock of a simulated machine: loop time on top of a date, plus a skew."""

from __future__ import annotations

import asyncio

# 2027-01-15T08:00:00Z: every simulation begins then.
BEGINNING_MS = 1_800_000_000_000


class SimClock:
    """A `Clock`. `skew_ms` may be moved at any time, as an administrator or NTP does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return BEGINNING_MS + self.skew_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()
