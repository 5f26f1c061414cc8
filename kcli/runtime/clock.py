"""The interface to time. All code that reads the time takes a `Clock`, so that tests can simulate it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """The wall-clock time in milliseconds since the Unix epoch. This time jumps forward or back when an operator
        sets the machine's clock."""
        ...

    def monotonic(self) -> float:
        """The seconds since an arbitrary start, for time-outs and durations. This time never goes back."""
        ...


class SystemClock:
    """The real clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # This is the function of the library itself, because each request reads the time, and a further call would take
    # time.
    monotonic = staticmethod(time.monotonic)
