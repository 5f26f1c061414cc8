"""Burrow's rules: the state of a group on a partition, from the window of its last commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise

from kcli.lag.window import WINDOW_COMMITS, Commit

IDLE_WINDOW_MS = 90_000
"""If the idle time of a window is not counted, the window counts as at least this long. It is the time of ten samples
of a broker."""


class Status(IntEnum):
    """Burrow's states, with Burrow's numbers. A larger number is worse. Burrow's ERR (3) means STOP, STALL or REWIND,
    so it is not needed here."""

    OK = 1
    WARN = 2
    """The group commits, but its lag never decreases."""
    STOP = 4
    """The group no longer commits."""
    STALL = 5
    """The group commits the same offset again and again, although it has lag."""
    REWIND = 6
    """The offset of the group went back."""


def judge(
    commits: Sequence[Commit],
    now_ms: int,
    *,
    current_lag: int | None,
    recent_ends: Iterable[int] = (),
    arrival_ms: int | None = None,
    allowed_lag: int = 0,
    minimum_complete: float = 0.0,
) -> Status:
    """Returns Burrow's verdict. `commits` has at most ten commits, the oldest first.

    `recent_ends` are the newest end offsets of the partition. `arrival_ms` is the time at which the first unread record
    arrived. If this time is known, the rule STOP compares only times in which the group had unread records
    (`_has_stopped`).

    The verdict is OK if there are too few commits (`minimum_complete`), or if the lag is unknown or at most
    `allowed_lag`.
    """
    if not commits or len(commits) / WINDOW_COMMITS < minimum_complete:
        return Status.OK
    if current_lag is None or current_lag <= allowed_lag:
        return Status.OK
    if _has_stopped(commits, now_ms, recent_ends, arrival_ms):
        return Status.STOP
    if _has_rewound(commits):
        return Status.REWIND
    if any(commit.lag is not None and commit.lag <= allowed_lag for commit in commits):
        return Status.OK
    if all(commit.offset == commits[0].offset for commit in commits):
        return Status.STALL
    return Status.OK if _lag_decreased(commits) else Status.WARN


def worst(statuses: Iterable[Status]) -> Status:
    """Returns the state of a group: the worst state of its partitions."""
    return max(statuses, default=Status.OK)


def _has_stopped(
    commits: Sequence[Commit], now_ms: int, recent_ends: Iterable[int], arrival_ms: int | None
) -> bool:
    """Whether the time since the last commit is longer than the time of the whole window, and the group has had lag.

    A group is idle while it has no unread records. A group that was idle for hours has a window of hours, so Burrow
    would notice a failure hours later. So if `arrival_ms` is known, the time since the last commit is counted without
    idle time. The window is also counted without idle time, if it is longer than IDLE_WINDOW_MS.
    """
    last = commits[-1]
    silence_ms, window_ms = now_ms - last.time_ms, last.time_ms - commits[0].time_ms
    if arrival_ms is not None:
        silence_ms = min(silence_ms, now_ms - arrival_ms)
        owed_ms = sum(commit.pause_ms or 0 for commit in commits)
        window_ms = min(window_ms, max(owed_ms, IDLE_WINDOW_MS))
    return silence_ms > window_ms and all(end > last.offset for end in recent_ends)


def _has_rewound(commits: Sequence[Commit]) -> bool:
    """Whether a committed offset went back, and no later commit has reached the old offset again."""
    return any(
        after.offset < before.offset
        and all(later.offset < before.offset for later in commits[position + 2 :])
        for position, (before, after) in enumerate(pairwise(commits))
    )


def _lag_decreased(commits: Sequence[Commit]) -> bool:
    lags = [commit.lag for commit in commits if commit.lag is not None]
    return any(after < before for before, after in pairwise(lags))
