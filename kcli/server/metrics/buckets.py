"""Histograms with fixed limits. The counts of all brokers can be added, and the sums give percentiles of the whole
cluster. The percentiles of Kafka's own histograms cannot be combined in this way.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kcli.server.metrics.meters import Attributes

TIME_LIMITS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""The limits of times in seconds. Each is 2 to 3 times the one before it.

A request takes at least 0.1 ms, and clients give up after 30 s (request.timeout.ms).
"""


class Buckets:
    """Counts of observations up to each limit."""

    __slots__ = ("_counts", "_limits", "count", "total")

    def __init__(self, limits: tuple[float, ...] = TIME_LIMITS_S) -> None:
        self._limits = limits
        self._counts = [0] * (len(limits) + 1)
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._limits, value)] += 1
        self.count += 1
        self.total += value

    def add_sorted(self, ordered: Sequence[float]) -> None:
        """Adds many values. The values must be sorted, so that one search for each limit is enough."""
        if len(ordered) < len(self._limits):
            for value in ordered:
                self.add(value)
            return
        below = 0
        for place, limit in enumerate(self._limits):
            up_to = bisect_right(ordered, limit, below)
            self._counts[place] += up_to - below
            below = up_to
        self._counts[-1] += len(ordered) - below
        self.count += len(ordered)
        self.total += sum(ordered)

    def above(self, limit: float) -> int:
        """Returns the number of observations above `limit`, which must be one of the limits."""
        return sum(self._counts[self._limits.index(limit) + 1 :])

    def ranges(self) -> Iterator[tuple[str, float, float]]:
        """Yields the range of each bucket: the upper limit as a text, the lower limit and the upper limit. The first
        range begins at -1, so that it includes 0."""
        below = -1.0
        for limit in (*self._limits, math.inf):
            yield _text(limit), below, limit
            below = limit

    def attributes(self) -> Attributes:
        """The attributes of a bean of the kind BUCKETS."""
        attributes: Attributes = {}
        below = 0
        for limit, count in zip((*self._limits, math.inf), self._counts, strict=True):
            below += count
            attributes[_text(limit)] = below
        return attributes | {"Count": self.count, "Sum": self.total}


class CountedLater:
    """Buckets for values that are observed very often. `add` only appends a value to an array, which takes a tenth of
    the time of `Buckets.add`. Call `fold` every second. Any thread may add values."""

    __slots__ = ("_values", "add", "buckets")

    def __init__(self) -> None:
        self.buckets = Buckets()
        self._values = array("d")
        self.add = self._values.append

    def fold(self) -> None:
        """Counts the values that were added since the last call."""
        count = len(self._values)  # another thread may append more meanwhile
        self.buckets.add_sorted(sorted(self._values[:count]))
        del self._values[:count]


def _text(limit: float) -> str:
    return "+Inf" if limit == math.inf else f"{limit:g}"
