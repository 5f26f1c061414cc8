"""Kafka's two ways to measure the use of a quota. The caller passes the time, in seconds of any clock.

`SampledRate` is the average over the last windows, like Kafka's class Rate of a SampledStat. `SampledRate` measures
bytes, time and connections. `TokenBucket` fills at the rate of its quota, up to a limit. A request may take more tokens
than the bucket has, and the next requests must then wait. The bucket measures the partitions that requests create and
delete (KIP-599).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# If there are more meters than this, idle meters are dropped, because a client can use any number of client ids.
METERS_MAX = 10_000
# The shortest time over which a rate is computed, because a shorter time gives meaningless rates.
_ELAPSED_MIN_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a rate: their number (quota.window.num) and their length (quota.window.size.seconds)."""

    count: int
    size_seconds: float

    @property
    def total_seconds(self) -> float:
        return self.count * self.size_seconds

    @property
    def full_seconds(self) -> float:
        """The length of all windows except the newest, which has not passed completely."""
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
        """Adds `value`. A negative value cancels an earlier value."""
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
        """The time after which the rate has fallen to `limit` if no value is added. 0 if the rate is not above the
        limit."""
        rate = self.per_second(now)
        return 0.0 if rate <= limit else (rate - limit) / limit * self._elapsed(now)

    def is_idle(self, now: float) -> bool:
        """Whether the windows are empty, so that a new meter would return the same rates."""
        self._forget(now)
        return not self._samples

    def _elapsed(self, now: float) -> float:
        """The time since the oldest sample. Windows before the first sample count as passed.

        Without these windows, the first bytes of a client would give a very high rate.
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
    """A bucket that starts full. The limit is an argument of each call, because a quota may change."""

    __slots__ = ("_rate", "_tokens", "_updated", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._rate = SampledRate(windows)
        self._tokens: float | None = None  # None: full
        self._updated = 0.0

    def spend(self, tokens: float, limit: float, now: float) -> None:
        """Removes tokens. If the bucket has fewer tokens, it becomes overdrawn."""
        self._tokens = self.tokens(limit, now) - tokens
        self._updated = now
        self._rate.record(tokens, now)

    def per_second(self, now: float) -> float:
        """Returns the number of spent tokens per second."""
        return self._rate.per_second(now)

    def tokens(self, limit: float, now: float) -> float:
        burst = limit * self._windows.total_seconds
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + limit * (now - self._updated))

    def seconds_over(self, limit: float, now: float) -> float:
        """The time until the bucket is no longer overdrawn. 0 if it is not overdrawn."""
        return max(0.0, -self.tokens(limit, now) / limit)

    def is_idle(self, now: float) -> bool:
        """Whether the bucket is certainly full again, so that a new bucket can replace it. A bucket is full if it was
        not overdrawn at its last use, and the total time of its windows has passed since then.
        """
        return self._tokens is None or (
            self._tokens >= 0 and now - self._updated >= self._windows.total_seconds
        )
