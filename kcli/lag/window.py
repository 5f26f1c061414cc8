"""The window of the last commits that a group made for a partition (Burrow's `intervals`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

WINDOW_COMMITS = 10
"""The commits that a window keeps: Burrow's default of `intervals`."""

_FIELDS = 4
_UNKNOWN = -1
_INT64_MAX = 2**63 - 1


class Commit(NamedTuple):
    """One commit in a window. Times are in milliseconds."""

    time_ms: int
    offset: int
    lag: int | None
    """The lag at the time of the commit, or None if the end offset of this time is unknown."""
    pause_ms: int | None
    """The part of the time since the previous commit in which the group had unread records. None if the group had no
    unread records, or if this is unknown."""


class CommitWindow:
    """The last commits, the oldest first. All numbers are in one array, so a window of ten commits takes only about 450
    bytes."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(
        self,
        time_ms: int,
        offset: int,
        lag: int | None = None,
        pause_ms: int | None = None,
        *,
        min_distance_ms: int = 0,
    ) -> None:
        """Adds a commit. If less than `min_distance_ms` has passed since the last commit, the new offset replaces the
        last offset. The time of the last commit stays (Burrow's `min-distance`)."""
        numbers = self._numbers
        if numbers and time_ms - numbers[-_FIELDS] < min_distance_ms:
            time_ms = numbers[-_FIELDS]
            del numbers[-_FIELDS:]
        numbers.extend((time_ms, offset, _number(lag), _number(pause_ms)))
        if len(numbers) > WINDOW_COMMITS * _FIELDS:
            del numbers[:_FIELDS]

    def __len__(self) -> int:
        return len(self._numbers) // _FIELDS

    def __iter__(self) -> Iterator[Commit]:
        numbers = self._numbers.tolist()
        known = [None if number == _UNKNOWN else number for number in numbers]
        return map(Commit, numbers[::_FIELDS], numbers[1::_FIELDS], known[2::_FIELDS], known[3::_FIELDS])

    @property
    def last(self) -> tuple[int, int] | None:
        """The time and the offset of the last commit, or None if the window is empty."""
        numbers = self._numbers
        return (numbers[-_FIELDS], numbers[1 - _FIELDS]) if numbers else None

    @property
    def completeness(self) -> float:
        """The filled part of the window, from 0 to 1."""
        return len(self) / WINDOW_COMMITS


def _number(value: int | None) -> int:
    """The number for the array. A client chooses the offsets that it commits, so a difference may exceed an int64."""
    return _UNKNOWN if value is None else min(value, _INT64_MAX)
