"""The rule that keeps idle groups, and groups with rare commits, from changing their state all the time.

Burrow compares a group only with the times of its own commits. This comparison gives false alarms for two kinds of
healthy groups:

- an *idle* group: its topic gets a record now and then. When a record arrives after a long time, the last commit is
  old, although the group had nothing to commit.
- a group with *rare commits*, for example a batch job that runs once in an hour. Between two commits, the group has
  lag. After a burst of commits, the window of the group is short.

Both kinds are healthy as long as their next commit is not late. A group *owes* a commit while there is a
record that it has not committed. So the rule measures two times:

- the *pause* before each commit of the window: the time since the previous commit, or since the first unread record
  arrived, if the record arrived later;
- the time for which the group owes the next commit, measured in the same way. There are two exceptions. For
  STALL, this time begins at the first commit of the repeated offset. For WARN, it begins when the first
  unread record arrived, because such a group commits often but has old unread records.

A verdict of WARN, STOP or STALL is withheld for some time, and the state stays OK. The time ends when the group owes
the commit for more than twice the longest pause in its window. Without a known pause, the limit is `first_patience_ms`.
A single long pause may be an outage, and must not hide the next outage. So the limit is at most twice the second
longest pause, or `first_patience_ms` if this is longer. A group with rare commits has several long pauses. REWIND is
never withheld, because offsets do not go back by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcli.lag.burrow import Status
from kcli.lag.window import Commit

PAUSES = 2
"""A verdict is withheld for the pause multiplied by this. With 1, a healthy group that is a little late would have a
false alarm."""


def withheld(
    verdict: Status,
    commits: Sequence[Commit],
    now_ms: int,
    *,
    arrival_ms: int | None,
    first_patience_ms: int,
) -> Status:
    """Returns OK if it is too early for Burrow's verdict, else the verdict. `arrival_ms` is the time at which the first
    unread record arrived. If this time is unknown, only the commits count."""
    if verdict in (Status.OK, Status.REWIND):
        return verdict
    is_early = owed_ms(verdict, commits, now_ms, arrival_ms) <= patience_ms(commits, first_patience_ms)
    return Status.OK if is_early else verdict


def owed_ms(verdict: Status, commits: Sequence[Commit], now_ms: int, arrival_ms: int | None) -> int:
    """Returns the time for which the group owes the next commit (see the module)."""
    match verdict:
        case Status.STOP:
            since_ms = commits[-1].time_ms
        case Status.STALL:
            since_ms = first_at_same_offset(commits).time_ms
        case _:
            since_ms = commits[0].time_ms if arrival_ms is None else arrival_ms
    return now_ms - (since_ms if arrival_ms is None else max(since_ms, arrival_ms))


def patience_ms(commits: Sequence[Commit], first_patience_ms: int) -> int:
    """Returns the time for which WARN, STOP and STALL are withheld."""
    pauses = sorted(commit.pause_ms for commit in commits if commit.pause_ms is not None)
    if not pauses:
        return first_patience_ms
    if len(pauses) == 1:
        return PAUSES * pauses[0]
    second, longest = pauses[-2:]
    return min(PAUSES * longest, max(PAUSES * second, first_patience_ms))


def first_at_same_offset(commits: Sequence[Commit]) -> Commit:
    """Returns the first commit of the present offset. All commits after this commit have the same offset."""
    first = commits[-1]
    for commit in reversed(commits):
        if commit.offset != first.offset:
            break
        first = commit
    return first
