"""The wall clock of a simulated machine: a fixed date, plus the time of the event loop, plus a skew."""

from __future__ import annotations

import asyncio

# The start of every simulation: 2027-01-15T08:00:00Z.
BEGINNING_MS = 1_800_000_000_000


class SimClock:
    """A `Clock` of a simulated machine.

    `skew_ms` may be changed at any time, as an administrator or NTP changes a clock. After `drift`, the clock is too
    fast or too slow.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms
        self._rate = 1.0

    def now_ms(self) -> int:
        return BEGINNING_MS + self.skew_ms + int(self._loop.time() * 1000 * self._rate)

    def drift(self, rate: float) -> None:
        """Makes the clock run at `rate` milliseconds per simulated millisecond from now on."""
        before = self.now_ms()
        self._rate = rate
        self.skew_ms += before - self.now_ms()

    @property
    def is_disturbed(self) -> bool:
        """Whether the clock has jumped, or does not run at the right rate."""
        return self.skew_ms != 0 or self._rate != 1.0

    def monotonic(self) -> float:
        return self._loop.time()
