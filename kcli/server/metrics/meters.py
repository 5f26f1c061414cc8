"""Meters, histograms and rates, as Kafka's two metric libraries define them. Every method that needs the time gets it
as an argument.

The code that serves requests only increases counts, and appends values to lists. Every second and at each read of the
metrics, the values are moved from the lists into the meters and histograms. Kafka uses the library Yammer for
kafka.server:type=BrokerTopicMetrics and other beans. Yammer's meters are averages over 1, 5 and 15 minutes with
exponential weights. In Yammer's quantiles, new values have more weight than old values: after a minute, the weight of a
value is less than half.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

TICK_SECONDS = 5.0
_MINUTES = (1, 5, 15)
# The share of an average that one tick keeps. Several ticks with the same rate keep this share to their power, so the
# rates of a meter without events can be updated as late as they are read.
_OLD_SHARES = tuple(math.exp(-TICK_SECONDS / 60 / minutes) for minutes in _MINUTES)

# The decay of Yammer: the weight of an observation falls by 1.5 % a second.
DECAY_PER_SECOND = 0.015
# The interval at which all weights are scaled down, because e^0.015t overflows a double after 13 hours.
_RESCALE_SECONDS = 3600.0
# The most observations that one summary uses. If there are more, it uses evenly spread ones of the sorted observations,
# each with a higher weight.
SAMPLES_PER_FOLD = 256
# The number of buckets from a value to twice this value. The error of a quantile is then at most 1.6 %.
_BUCKETS_PER_OCTAVE = 32

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

Attributes = dict[str, "str | int | float"]


class Meter:
    """A count that only grows, and its rate."""

    __slots__ = ("_began", "_rates", "_ticked", "_ticked_at", "count")

    def __init__(self, now: float, *, began: float | None = None) -> None:
        """Makes a meter. `began` is the time at which counting began, if it is earlier than `now`."""
        self.count: float = 0
        self._began = now if began is None else began
        self._ticked: float = 0
        self._ticked_at = now
        self._rates: list[float] | None = None  # per second; None before the first tick

    def tick(self, now: float) -> None:
        """Sets the time in seconds. Updates the rates every TICK_SECONDS."""
        ticks = int((now - self._ticked_at) / TICK_SECONDS)
        if ticks < 1:
            return
        self._ticked_at += ticks * TICK_SECONDS
        rate = (self.count - self._ticked) / TICK_SECONDS / ticks
        self._ticked = self.count
        if self._rates is None:
            self._rates = [rate] * len(_OLD_SHARES)
        else:
            self._rates = [
                rate + share**ticks * (old_rate - rate)
                for old_rate, share in zip(self._rates, _OLD_SHARES, strict=True)
            ]

    @property
    def is_up_to_date(self) -> bool:
        """Whether the rates include the whole count."""
        return self.count == self._ticked

    @property
    def one_minute_rate(self) -> float:
        """The rate per second, averaged over about a minute."""
        return self._rates[0] if self._rates else 0.0

    def attributes(self, event_type: str, now: float) -> Attributes:
        """The attributes of a Yammer meter bean. Rates are per second."""
        one, five, fifteen = self._rates or (0.0, 0.0, 0.0)
        elapsed = now - self._began
        return {
            "Count": self.count,
            "EventType": event_type,
            "FifteenMinuteRate": fifteen,
            "FiveMinuteRate": five,
            "MeanRate": self.count / elapsed if elapsed > 0 else 0.0,
            "OneMinuteRate": one,
            "RateUnit": "SECONDS",
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of many observations: number, sum, sum of squares, smallest and largest. `buckets` has the number of
    observations in each bucket of a histogram."""

    count: int
    total: float
    squares: float
    least: float
    most: float
    buckets: dict[int, float]


def summary(ordered: Sequence[float], scale: float = 1.0) -> Summary:
    """Summarizes sorted observations, each multiplied by `scale`. The sum of squares and the buckets are computed from
    at most SAMPLES_PER_FOLD samples."""
    step = -(-len(ordered) // SAMPLES_PER_FOLD)
    samples = [value * scale for value in ordered[step // 2 :: step]]
    stands_for = len(ordered) / len(samples)
    return Summary(
        len(ordered),
        sum(ordered) * scale,
        sum([value * value for value in samples]) * stands_for,
        ordered[0] * scale,
        ordered[-1] * scale,
        {bucket: count * stands_for for bucket, count in Counter(map(_bucket, samples)).items()},
    )


class Histogram:
    """A histogram. Count, minimum, maximum and mean cover all observations. In the quantiles, recent observations have
    more weight than old observations."""

    __slots__ = ("_landmark", "_max", "_min", "_squares", "_sum", "_weights", "count")

    def __init__(self, now: float) -> None:
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0
        self._min = math.inf
        self._max = -math.inf
        self._landmark = now
        self._weights: dict[int, float] = {}  # bucket -> weight, relative to the time of the last scaling

    def fold(self, values: Sequence[float], now: float, *, scale: float = 1.0) -> None:
        """Adds the observations `values`, each multiplied by `scale`. No observation may be negative."""
        if values:
            self.add(summary(sorted(values), scale), now)

    def fold_zeros(self, count: int, now: float) -> None:
        """Adds `count` observations of zero."""
        if count:
            self.add(Summary(count, 0.0, 0.0, 0.0, 0.0, {_ZERO_BUCKET: count}), now)

    def add(self, observed: Summary, now: float) -> None:
        """Adds the observations of a summary. Several histograms may add the same summary."""
        self.count += observed.count
        self._sum += observed.total
        self._squares += observed.squares
        self._min = min(self._min, observed.least)
        self._max = max(self._max, observed.most)
        weight = self._weight(now)
        weights = self._weights
        for bucket, count in observed.buckets.items():
            weights[bucket] = weights.get(bucket, 0.0) + weight * count

    def _weight(self, now: float) -> float:
        if now - self._landmark > _RESCALE_SECONDS:
            scale = math.exp(-DECAY_PER_SECOND * (now - self._landmark))
            # Buckets whose weight is too small to affect a quantile are also dropped.
            self._weights = {
                bucket: scaled
                for bucket, weight in self._weights.items()
                if (scaled := weight * scale) > 1e-9
            }
            self._landmark = now
        return math.exp(DECAY_PER_SECOND * (now - self._landmark))

    def quantiles(self) -> list[float]:
        """Returns the value of each quantile in QUANTILES, or zeros if there are no observations."""
        if not self._weights:
            return [0.0] * len(QUANTILES)
        buckets = sorted(self._weights)
        summed = list(accumulate(self._weights[bucket] for bucket in buckets))
        values = []
        for quantile in QUANTILES:
            at = min(bisect_left(summed, quantile * summed[-1]), len(buckets) - 1)
            values.append(min(max(_middle(buckets[at]), self._min), self._max))
        return values

    def attributes(self) -> Attributes:
        """The attributes of a Yammer histogram bean."""
        mean = self._sum / self.count if self.count else 0.0
        variance = self._squares / self.count - mean * mean if self.count > 1 else 0.0
        half, three_quarters, p95, p98, p99, p999 = self.quantiles()
        return {
            "50thPercentile": half,
            "75thPercentile": three_quarters,
            "95thPercentile": p95,
            "98thPercentile": p98,
            "99thPercentile": p99,
            "999thPercentile": p999,
            "Count": self.count,
            "Max": self._max if self.count else 0.0,
            "Mean": mean,
            "Min": self._min if self.count else 0.0,
            "StdDev": math.sqrt(max(variance, 0.0)),
        }


# The bucket of zero. Its number is below that of every positive double.
_ZERO_BUCKET = -(2**20)


def _bucket(value: float) -> int:
    if value <= 0:
        return _ZERO_BUCKET
    mantissa, exponent = math.frexp(value)  # 0.5 <= mantissa < 1
    return exponent * _BUCKETS_PER_OCTAVE + int((mantissa - 0.5) * 2 * _BUCKETS_PER_OCTAVE)


def _middle(bucket: int) -> float:
    if bucket == _ZERO_BUCKET:
        return 0.0
    exponent, step = divmod(bucket, _BUCKETS_PER_OCTAVE)
    return math.ldexp(0.5 + (step + 0.5) / (2 * _BUCKETS_PER_OCTAVE), exponent)


class WindowedRate:
    """A rate as in Kafka's own metric library: the growth of a count per second in the last windows. `samples` is the
    number of windows (metrics.num.samples). `window_seconds` is the length of a window (metrics.sample.window.ms).
    """

    __slots__ = ("_samples", "_window", "_windows")

    def __init__(self, samples: int, window_seconds: float, now: float) -> None:
        self._samples = samples
        self._window = window_seconds
        # The start time of each window, and the count at that time.
        self._windows: deque[tuple[float, float]] = deque([(now, 0.0)])

    def tick(self, count: float, now: float) -> None:
        """Updates the rate. `count` is the total since the start."""
        if now - self._windows[-1][0] >= self._window:
            self._windows.append((now, count))
        while len(self._windows) > 1 and self._windows[0][0] <= now - self._samples * self._window:
            self._windows.popleft()

    def a_second(self, count: float, now: float) -> float:
        began, before = self._windows[0]
        # As in Kafka, all windows except one count as complete. Otherwise the first rates would be far too high.
        elapsed = max(now - began, (self._samples - 1) * self._window)
        return (count - before) / elapsed if elapsed > 0 else 0.0

    def growth(self, count: float) -> float:
        """Returns the growth of the count in the last windows."""
        return count - self._windows[0][1]
