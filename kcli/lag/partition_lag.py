"""The lag and the state of one group on one partition."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.lag.burrow import Status


@dataclass(frozen=True, slots=True)
class Reader:
    """The member that reads a partition: a name for it, and its host."""

    name: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a group on a partition. An unknown value is None."""

    status: Status
    committed: int
    end: int | None
    lag: int | None
    lag_seconds: float | None
    """The age of the first unread record, 0 without lag."""
    is_at_least: bool
    """Whether the lag may be longer, because the first unread record is older than the history."""
    catch_up_seconds: float | None
    """The time after which the group reaches the end at the present rates. None: never, or the rates are unknown."""
    commit_age_seconds: float
    """The time since the last commit."""
    same_offset_seconds: float
    """The time since the first commit of the present offset."""
    rewound_from: int | None
    """For REWIND, the offset from which the group went back."""
    first_lag: int | None
    """The lag at the oldest commit of the window."""
    window_seconds: float
    """The time since the oldest commit of the window."""
    commits: int
    """The number of commits in the window."""
    is_withheld: bool
    """Whether Burrow's verdict is worse than OK but withheld (patience.py)."""


def without_end(committed: int, time_ms: int, now_ms: int) -> PartitionLag:
    """Returns the values for a partition whose end offset is unknown now. `time_ms` is the time of the commit."""
    age_seconds = max(now_ms - time_ms, 0) / 1000
    return PartitionLag(
        status=Status.OK,
        committed=committed,
        end=None,
        lag=None,
        lag_seconds=None,
        is_at_least=False,
        catch_up_seconds=None,
        commit_age_seconds=age_seconds,
        same_offset_seconds=age_seconds,
        rewound_from=None,
        first_lag=None,
        window_seconds=0.0,
        commits=1,
        is_withheld=False,
    )
