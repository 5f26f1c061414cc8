"""Histograms with fixed limits. Their counts can be added over brokers, and so can their percentiles be computed for a
whole cluster. The percentiles of Kafka's own histograms cannot be added."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.server.metrics.meters import Attributes

TIME_LIMITS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""The limits of times in seconds. Each is 2 to 3 times the one before it.

A request takes at least 0.1 ms, and clients give up after 30 s (request.timeout.ms).
"""


@dataclass(frozen=True, slots=True)
class TracedValue:
    """A value whose trace was recorded, and the wall-clock time of the observation in seconds."""

    trace_id: str
    value: float
    time_s: float


class Buckets:
    """Counts of observations up to each limit."""

    __slots__ = ("_counts", "_limits", "count", "total", "traced")

    def __init__(self, limits: tuple[float, ...] = TIME_LIMITS_S) -> None:
        self._limits = limits
        self._counts = [0] * (len(limits) + 1)
        self.count = 0
        self.total = 0.0
        self.traced: dict[str, TracedValue] = {}
        """The newest traced value of each bucket, by the text of its limit."""

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._limits, value)] += 1
        self.count += 1
        self.total += value

    def add_all(self, values: Sequence[float]) -> None:
        """Adds many values. They are sorted, so that each limit is searched once."""
        if len(values) < len(self._limits):
            for value in values:
                self.add(value)
            return
        ordered = sorted(values)
        below = 0
        for place, limit in enumerate(self._limits):
            up_to = bisect_right(ordered, limit, below)
            self._counts[place] += up_to - below
            below = up_to
        self._counts[-1] += len(ordered) - below
        self.count += len(ordered)
        self.total += sum(ordered)

    def note_trace(self, value: float, trace_id: str, time_s: float) -> None:
        """Remembers a traced value as the example of its bucket. It must be counted too."""
        place = bisect_left(self._limits, value)
        self.traced[self._texts()[place]] = TracedValue(trace_id, value, time_s)

    def above(self, limit: float) -> int:
        """The number of observations above one of the limits."""
        return sum(self._counts[self._limits.index(limit) + 1 :])

    def attributes(self) -> Attributes:
        """The attributes of a bean of the kind BUCKETS."""
        found: Attributes = {}
        below = 0
        for text, count in zip(self._texts(), self._counts, strict=True):
            below += count
            found[text] = below
        return found | {"Count": self.count, "Sum": self.total}

    def _texts(self) -> list[str]:
        return [*(f"{limit:g}" for limit in self._limits), "+Inf"]
