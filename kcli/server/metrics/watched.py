"""Computes rates from the counts of other packages, and statistics from the values that other packages observe.

The other packages only increase counts and collect observed values. `Watches` stores the counts and values that a bean
has requested, and updates their rates and statistics every second. An object that no longer exists is forgotten.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from kcli.model.observations import Values
from kcli.server.metrics.meters import Attributes, Histogram, Meter, WindowedRate


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of Kafka's own statistics: metrics.num.samples and metrics.sample.window.ms."""

    samples: int = 2
    seconds: float = 30.0


class WatchedCounts:
    """The rates of the counts in one dataclass, where each field is a count. All counts began at the time `began`. The
    rate of a field is computed only after a bean has read it."""

    __slots__ = ("_began", "_meters", "_rates", "_window")

    def __init__(self, window: Window, began: float) -> None:
        self._window = window
        self._began = began
        self._meters: dict[str, Meter] = {}
        self._rates: dict[str, WindowedRate] = {}

    def tick(self, counts: object, now: float) -> None:
        for name, rate in self._rates.items():
            rate.tick(getattr(counts, name), now)
        for name, meter in self._meters.items():
            meter.count = getattr(counts, name)
            meter.tick(now)

    def meter(self, counts: object, name: str, event_type: str, now: float) -> Attributes:
        """Returns the attributes of a Yammer meter for the field `name`."""
        meter = self._meter(name)
        meter.count = getattr(counts, name)
        return meter.attributes(event_type, now)

    def rate(self, counts: object, name: str, now: float) -> float:
        """Returns the growth of the field `name` per second, in the last windows."""
        return self._rate(name).a_second(getattr(counts, name), now)

    def growth(self, counts: object, name: str) -> float:
        """Returns the growth of the field `name` in the last windows."""
        return self._rate(name).growth(getattr(counts, name))

    def _meter(self, name: str) -> Meter:
        meter = self._meters.get(name)
        if meter is None:
            meter = self._meters[name] = Meter(self._began)
        return meter

    def _rate(self, name: str) -> WindowedRate:
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = WindowedRate(self._window.samples, self._window.seconds, self._began)
        return rate


class WatchedValues:
    """The statistics of observed values: a decaying histogram, a meter, and the values of the last windows."""

    __slots__ = ("_recent", "_window", "histogram", "meter")

    def __init__(self, window: Window, began: float) -> None:
        self.histogram = Histogram(began)
        self.meter = Meter(began)
        self._window = window
        # The start time of each window, and the count, the sum and the largest value in it.
        self._recent: deque[tuple[float, int, float, float]] = deque()

    def fold(self, observed: Values, now: float) -> None:
        """Adds the values that were observed since the last call."""
        if observed.count != self.meter.count:
            self.meter.count = observed.count
            values = observed.take()
            if values:
                self.histogram.fold(values, now)
                self._add(len(values), sum(values), max(values), now)
        self.meter.tick(now)
        span_seconds = self._window.samples * self._window.seconds
        while self._recent and self._recent[0][0] <= now - span_seconds:
            self._recent.popleft()

    def _add(self, count: int, total: float, most: float, now: float) -> None:
        recent = self._recent
        if recent and now - recent[-1][0] < self._window.seconds:
            began, old_count, old_total, old_most = recent[-1]
            recent[-1] = began, old_count + count, old_total + total, max(old_most, most)
        else:
            recent.append((now, count, total, most))

    @property
    def average(self) -> float:
        """The average in the last windows. NaN without a value, as in Kafka."""
        count = sum(window[1] for window in self._recent)
        return sum(window[2] for window in self._recent) / count if count else float("nan")

    @property
    def largest(self) -> float:
        """The largest value in the last windows. NaN without a value, as in Kafka."""
        return max((window[3] for window in self._recent), default=float("nan"))


class Watches:
    """The objects of a node whose rates and statistics are computed."""

    def __init__(self, window: Window, began: float) -> None:
        self._window = window
        self._began = began
        self._counts: WeakKeyDictionary[object, WatchedCounts] = WeakKeyDictionary()
        self._values: WeakKeyDictionary[Values, WatchedValues] = WeakKeyDictionary()

    def tick(self, now: float) -> None:
        for counts, watched in list(self._counts.items()):
            watched.tick(counts, now)
        for observed, values in list(self._values.items()):
            values.fold(observed, now)

    def counts(self, counts: object) -> WatchedCounts:
        """Returns the rates of the counts in the object `counts`. From the first call on, the rates are updated."""
        watched = self._counts.get(counts)
        if watched is None:
            watched = self._counts[counts] = WatchedCounts(self._window, self._began)
        return watched

    def values(self, observed: Values, now: float) -> WatchedValues:
        """The present statistics of observed values. From the first call on, the statistics are updated."""
        watched = self._values.get(observed)
        if watched is None:
            watched = self._values[observed] = WatchedValues(self._window, self._began)
        watched.fold(observed, now)
        return watched
