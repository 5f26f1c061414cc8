"""The history of a partition's end offset. The history gives the time at which a record arrived, without reading the
record.

A point of the history is a time and the end offset at this time. The module assumes that records arrive evenly between
two points. Old points are farther apart than new points, so that a few points cover a day.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

POINTS_MAX = 32
"""The most points of one history. Each point takes 16 bytes, so the histories of 10,000 partitions take about 6 MB."""
_DENSE_POINTS = 12
"""The newest points, which are never thinned out. They cover the time for which Burrow compares end offsets."""
_LONGEST_MS = 24 * 3600 * 1000
"""The age at which a point is dropped. The distance of the oldest points grows with their age, so older points would
give only rough times."""


class Arrival(NamedTuple):
    """The time at which a record arrived. If `at_most` is true, the record arrived at this time or earlier, because it
    is older than the history."""

    time_ms: int
    at_most: bool


class EndHistory:
    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._times = array("q")
        self._ends = array("q")

    def add(self, time_ms: int, end: int) -> None:
        """Adds a point. Times must not go back. If the end offset went back, drops the points with larger offsets. This
        happens after an unclean election, or if a topic was created again."""
        times, ends = self._times, self._ends
        while ends and ends[-1] > end:
            times.pop()
            ends.pop()
        if len(ends) >= 2 and ends[-1] == ends[-2] == end:
            times[-1] = time_ms  # a time without records needs only its first and its last point
            return
        times.append(time_ms)
        ends.append(end)
        if len(times) > POINTS_MAX:
            self._thin_out(time_ms)

    def begin_with(self, offset: int, time_ms: int) -> None:
        """Adds the record at `offset`, which arrived at `time_ms`, as the first point of the history. Does nothing if
        the history already begins at or before this time."""
        times, ends = self._times, self._ends
        if times and 0 <= time_ms <= times[0] and offset < ends[0]:
            times[:0] = array("q", (time_ms, time_ms))
            ends[:0] = array("q", (offset, offset + 1))

    def _thin_out(self, now_ms: int) -> None:
        """Drops every second point of the older part of the history."""
        times, ends = self._times, self._ends
        del times[1:-_DENSE_POINTS:2], ends[1:-_DENSE_POINTS:2]
        while times[0] < now_ms - _LONGEST_MS:
            del times[0], ends[0]

    def __len__(self) -> int:
        return len(self._times)

    @property
    def end(self) -> int | None:
        """The newest end offset."""
        return self._ends[-1] if self._ends else None

    def recent(self, since_ms: int) -> list[int]:
        """Returns the end offsets of the points since a time. The result has at least the newest end offset."""
        first = min(bisect_left(self._times, since_ms), len(self._times) - 1)
        return list(self._ends[first:]) if self._ends else []

    def end_at(self, time_ms: int) -> int | None:
        """Returns the end offset at a time, or None for a time before the first point."""
        times, ends = self._times, self._ends
        after = bisect_right(times, time_ms)
        if after == 0:
            return None
        if after == len(times):
            return ends[-1]
        share = (time_ms - times[after - 1]) / (times[after] - times[after - 1])
        return ends[after - 1] + int(share * (ends[after] - ends[after - 1]))

    def arrival(self, offset: int) -> Arrival | None:
        """Returns the time at which the record at `offset` arrived, or None if there is no such record yet."""
        times, ends = self._times, self._ends
        after = bisect_right(ends, offset)
        if after == len(ends):
            return None
        if after == 0:
            return Arrival(times[0], at_most=True)
        # n records that arrive evenly between two points divide the time into n + 1 parts.
        share = (offset - ends[after - 1] + 1) / (ends[after] - ends[after - 1] + 1)
        start_ms = times[after - 1]
        return Arrival(start_ms + int(share * (times[after] - start_ms)), at_most=False)

    def rate(self, since_ms: int, now_ms: int) -> float | None:
        """Returns the records that arrived per second since a time, or None if the history is too short."""
        times, ends = self._times, self._ends
        if not times:
            return None
        start_ms = max(since_ms, times[0])
        start = self.end_at(start_ms)
        if start is None or now_ms <= start_ms:
            return None
        return (ends[-1] - start) * 1000 / (now_ms - start_ms)
