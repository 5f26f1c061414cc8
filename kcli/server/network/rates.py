"""How much of a quota has been used: Kafka's two measures of it, without clocks. Times are seconds of any one clock.

`SampledRate` averages over a row of windows that moves on with time, as Kafka's Rate over a SampledStat: bytes, time
and connections. `TokenBucket` fills at the rate of its quota up to a burst, and may be overdrawn once: partitions that
are created and deleted (KIP-599).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# Client ids and addresses are others' to choose: above so many meters, those that remember nothing are dropped.
METERS_MAX = 10_000
# A rate over less than this would be one over nothing.
_ELAPSED_MIN_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Windows:
    """quota.window.num samples of quota.window.size.seconds."""

    count: int
    size_seconds: float

    @property
    def total_seconds(self) -> float:
        return self.count * self.size_seconds

    @property
    def full_seconds(self) -> float:
        """What of them has always passed: all but the newest one."""
        return (self.count - 1) * self.size_seconds


@dataclass(slots=True)
class _Sample:
    began: float
    last: float
    total: float = 0.0


class SampledRate:
    """The sum of what was recorded in the last windows, by their length."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now: float) -> None:
        """`value` may be negative, to take back what was recorded."""
        samples = self._samples
        if not samples or now - samples[-1].began >= self._windows.size_seconds:
            self._forget(now)
            samples.append(_Sample(now, now))
        samples[-1].total += value
        samples[-1].last = now

    def per_second(self, now: float) -> float:
        self._forget(now)
        return sum(sample.total for sample in self._samples) / self._elapsed(now)

    def seconds_over(self, limit: float, now: float) -> float:
        """For how long nothing may come until the rate is back at `limit`; 0 when it is not above."""
        rate = self.per_second(now)
        return 0.0 if rate <= limit else (rate - limit) / limit * self._elapsed(now)

    def is_idle(self, now: float) -> bool:
        """Whether nothing is remembered, so that a new one would do."""
        self._forget(now)
        return not self._samples

    def _elapsed(self, now: float) -> float:
        """The time since the oldest sample, and windows that had no time to pass yet are taken for passed.

        Otherwise the first bytes of a client would count as an enormous rate.
        """
        elapsed = now - self._samples[0].began if self._samples else 0.0
        windows = self._windows
        missing = windows.count - 1 - elapsed // windows.size_seconds
        if missing > 0:
            elapsed += missing * windows.size_seconds
        return max(elapsed, _ELAPSED_MIN_SECONDS)

    def _forget(self, now: float) -> None:
        samples, total_seconds = self._samples, self._windows.total_seconds
        while samples and now - samples[0].last >= total_seconds:
            samples.popleft()


class TokenBucket:
    """Starts full. The limit is given at each question, since a quota may change."""

    __slots__ = ("_tokens", "_updated", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full
        self._updated = 0.0

    def take(self, tokens: float, limit: float, now: float) -> None:
        """May leave less than none."""
        self._tokens = self.tokens(limit, now) - tokens
        self._updated = now

    def tokens(self, limit: float, now: float) -> float:
        burst = limit * self._windows.total_seconds
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + limit * (now - self._updated))

    def seconds_over(self, limit: float, now: float) -> float:
        """Until there are none missing; 0 when there are not."""
        return max(0.0, -self.tokens(limit, now) / limit)

    def is_idle(self, now: float) -> bool:
        """Whether a new one would do: whatever the limit, a bucket that was not overdrawn is full after its windows."""
        return self._tokens is None or (
            self._tokens >= 0 and now - self._updated >= self._windows.total_seconds
        )
