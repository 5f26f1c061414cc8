"""Kafka's two measures of the use of a quota, without clocks. Times are seconds of any one clock.

`SampledRate` is the average over a row of windows that moves with time, as Kafka's Rate over a SampledStat. It measures
bytes, time and connections. `TokenBucket` fills at the rate of its quota up to a burst, and may be overdrawn once. It
measures partitions created and deleted (KIP-599).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# Clients choose their ids and addresses. Above this number of meters, idle meters are dropped.
METERS_MAX = 10_000
# Shorter windows give meaningless rates.
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
        """The part of the windows that has always passed: all except the newest one."""
        return (self.count - 1) * self.size_seconds


@dataclass(slots=True)
class _Sample:
    began: float
    last: float
    total: float = 0.0


class SampledRate:
    """The sum of the values in the last windows, divided by their length."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now: float) -> None:
        """Adds `value`; a negative value takes an earlier one back."""
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
        """The time without new values until the rate is back at `limit`; 0 if it is not above the limit."""
        rate = self.per_second(now)
        return 0.0 if rate <= limit else (rate - limit) / limit * self._elapsed(now)

    def is_idle(self, now: float) -> bool:
        """Whether the windows are empty, so that a new meter would give the same rates."""
        self._forget(now)
        return not self._samples

    def _elapsed(self, now: float) -> float:
        """The time since the oldest sample; empty windows at the start count as passed.

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
    """A bucket that starts full. Each call names the limit, because a quota may change."""

    __slots__ = ("_tokens", "_updated", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full
        self._updated = 0.0

    def take(self, tokens: float, limit: float, now: float) -> None:
        """Takes tokens, even if fewer are there: the bucket is then overdrawn."""
        self._tokens = self.tokens(limit, now) - tokens
        self._updated = now

    def tokens(self, limit: float, now: float) -> float:
        burst = limit * self._windows.total_seconds
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + limit * (now - self._updated))

    def seconds_over(self, limit: float, now: float) -> float:
        """The time until the bucket is not overdrawn any more; 0 if it is not overdrawn."""
        return max(0.0, -self.tokens(limit, now) / limit)

    def is_idle(self, now: float) -> bool:
        """Whether a new bucket would be equal: a bucket that was not overdrawn is full after its windows."""
        return self._tokens is None or (
            self._tokens >= 0 and now - self._updated >= self._windows.total_seconds
        )
