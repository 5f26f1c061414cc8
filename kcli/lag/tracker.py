"""Keeps the samples of commits and end offsets, and judges groups by them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from kcli.lag.burrow import Status, judge
from kcli.lag.history import Arrival, EndHistory
from kcli.lag.partition_lag import PartitionLag
from kcli.lag.patience import first_at_same_offset, withheld
from kcli.lag.window import Commit, CommitWindow
from kcli.model.topic_partition import TopicPartition

WINDOWS_MAX = 100_000
"""The most pairs of a group and a partition that one tracker follows. Their windows take about 50 MB. Pairs above this
limit are not judged."""
RECENT_ENDS_MS = 100_000
"""The age up to which end offsets are compared with the last commit. Burrow keeps ten end offsets, one each 10 s."""

Key = tuple[str, TopicPartition]
"""A group id and a partition."""


class LagTracker:
    """The windows and histories of many groups. The times that a caller passes must not go back, except the times of
    commits.

    `first_patience_ms` is the time for which a bad state is not reported if a group has only one known commit.
    """

    def __init__(self, *, first_patience_ms: int, windows_max: int = WINDOWS_MAX) -> None:
        self._first_patience_ms = first_patience_ms
        self._windows_max = windows_max
        self._windows: dict[Key, CommitWindow] = {}
        self._ends: dict[TopicPartition, EndHistory] = {}

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that have a history."""
        return self._ends.keys()

    @property
    def keys(self) -> Collection[Key]:
        """The pairs of a group and a partition that have a window."""
        return self._windows.keys()

    # Samples

    def see_end(self, partition: TopicPartition, now_ms: int, end: int) -> None:
        """Adds the end offset of a partition. Call this method before `see_commit`."""
        history = self._ends.get(partition)
        if history is None:
            history = self._ends[partition] = EndHistory()
        history.add(now_ms, end)

    def see_arrival(self, partition: TopicPartition, offset: int, time_ms: int) -> None:
        """Adds the timestamp of a record that is older than the history of its partition."""
        history = self._ends.get(partition)
        if history is not None:
            history.begin_with(offset, time_ms)

    def see_commit(self, group: str, partition: TopicPartition, time_ms: int, offset: int) -> bool:
        """Adds the last commit of a group, unless the window already has this commit. Returns False if the number of
        windows is at its limit."""
        window = self._window(group, partition)
        if window is None:
            return False
        if window.last != (time_ms, offset):
            self._add(window, self._ends.get(partition), time_ms, offset)
        return True

    def see_offset(self, group: str, partition: TopicPartition, now_ms: int, offset: int) -> bool:
        """Adds the committed offset of a group whose times of commits are unknown. An offset that has changed counts as
        a commit at this moment. Returns False if the number of windows is at its limit."""
        window = self._window(group, partition)
        if window is None:
            return False
        if window.last is None or window.last[1] != offset:
            self._add(window, self._ends.get(partition), now_ms, offset)
        return True

    def _window(self, group: str, partition: TopicPartition) -> CommitWindow | None:
        key = (group, partition)
        window = self._windows.get(key)
        if window is None and len(self._windows) < self._windows_max:
            window = self._windows[key] = CommitWindow()
        return window

    def _add(self, window: CommitWindow, history: EndHistory | None, time_ms: int, offset: int) -> None:
        end = None if history is None else history.end_at(time_ms)
        lag = None if end is None else max(end - offset, 0)
        window.add(time_ms, offset, lag, _pause_ms(window.last, history, time_ms))

    def forget(self, keys: Collection[Key], partitions: Collection[TopicPartition]) -> None:
        """Drops the windows of offsets and the histories of partitions that no longer exist."""
        for key in keys:
            self._windows.pop(key, None)
        for partition in partitions:
            self._ends.pop(partition, None)

    # Questions

    def end(self, partition: TopicPartition) -> int | None:
        """Returns the newest end offset of a partition."""
        history = self._ends.get(partition)
        return None if history is None else history.end

    def lag_of(
        self,
        group: str,
        partition: TopicPartition,
        now_ms: int,
        *,
        arrival_ms: int | None = None,
    ) -> PartitionLag | None:
        """Judges a group on a partition. Returns None without a known commit.

        `arrival_ms` is the time at which the first unread record arrived. If the caller does not give this time, the
        tracker computes it from the history of end offsets.
        """
        window = self._windows.get((group, partition))
        if window is None or window.last is None:
            return None
        history = self._ends.get(partition) or EndHistory()
        if history.end is not None and history.end <= window.last[1]:
            return _at_the_end(window.last, history.end, len(window), now_ms)
        commits = list(window)
        arrival = history.arrival(commits[-1].offset)
        if arrival is not None and arrival_ms is not None:
            arrival = Arrival(arrival_ms, at_most=False)
        return _judged(commits, history, now_ms, arrival, self._first_patience_ms)


def _pause_ms(last: tuple[int, int] | None, history: EndHistory | None, time_ms: int) -> int | None:
    """Returns the time in which the group had unread records before the commit, or None if it had none."""
    arrival = None if last is None or history is None else history.arrival(last[1])
    if arrival is None or last is None or arrival.time_ms > time_ms:
        return None
    return max(time_ms - max(last[0], arrival.time_ms), 0)


def _at_the_end(last: tuple[int, int], end: int, commits: int, now_ms: int) -> PartitionLag:
    """Returns the values of a group without lag. This is the most frequent case, so it is fast."""
    age_seconds = max(now_ms - last[0], 0) / 1000
    return PartitionLag(
        status=Status.OK,
        committed=last[1],
        end=end,
        lag=0,
        lag_seconds=0.0,
        is_at_least=False,
        catch_up_seconds=0.0,
        commit_age_seconds=age_seconds,
        same_offset_seconds=age_seconds,
        rewound_from=None,
        first_lag=None,
        window_seconds=0.0,
        commits=commits,
        is_withheld=False,
    )


def _judged(
    commits: Sequence[Commit],
    history: EndHistory,
    now_ms: int,
    arrival: Arrival | None,
    first_patience_ms: int,
) -> PartitionLag:
    first, last, end = commits[0], commits[-1], history.end
    lag = None if end is None else max(end - last.offset, 0)
    arrival_ms = None if arrival is None else arrival.time_ms
    recent_ends = history.recent(now_ms - RECENT_ENDS_MS)
    verdict = judge(commits, now_ms, current_lag=lag, recent_ends=recent_ends, arrival_ms=arrival_ms)
    status = withheld(verdict, commits, now_ms, arrival_ms=arrival_ms, first_patience_ms=first_patience_ms)
    return PartitionLag(
        status=status,
        committed=last.offset,
        end=end,
        lag=lag,
        lag_seconds=_age_seconds(arrival, now_ms),
        is_at_least=arrival is not None and arrival.at_most,
        catch_up_seconds=_catch_up_seconds(lag, commits, history, now_ms),
        commit_age_seconds=max(now_ms - last.time_ms, 0) / 1000,
        same_offset_seconds=max(now_ms - first_at_same_offset(commits).time_ms, 0) / 1000,
        rewound_from=_rewound_from(commits) if status is Status.REWIND else None,
        first_lag=first.lag,
        window_seconds=max(now_ms - first.time_ms, 0) / 1000,
        commits=len(commits),
        is_withheld=status is not verdict,
    )


def _age_seconds(arrival: Arrival | None, now_ms: int) -> float | None:
    return None if arrival is None else max(now_ms - arrival.time_ms, 0) / 1000


def _catch_up_seconds(
    lag: int | None, commits: Sequence[Commit], history: EndHistory, now_ms: int
) -> float | None:
    """Returns the time until the group has no lag: the lag divided by the difference of two rates. These are the rate
    of consumed records and the rate of new records, since the first commit of the window. None if the lag does not
    shrink."""
    if lag is None:
        return None
    first, last = commits[0], commits[-1]
    produced = history.rate(first.time_ms, now_ms)
    if produced is None or last.time_ms <= first.time_ms:
        return None
    # The time until now counts, so that the rate of a group that has stopped goes down.
    consumed = (last.offset - first.offset) * 1000 / (now_ms - first.time_ms)
    return lag / (consumed - produced) if consumed > produced else None


def _rewound_from(commits: Sequence[Commit]) -> int:
    return max(before.offset for before, after in pairwise(commits) if after.offset < before.offset)
