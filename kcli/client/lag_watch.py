"""Watches the lag of groups for a tool or the console: stores samples, and computes the states of groups.

No API returns the times of commits. So if an offset has changed since the last sample, the time of the new sample
counts as the time of a commit. The first sample also counts as a commit. A commit of the same offset as before is not
noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.client.admin.groups import GroupDescription
from kcli.lag.burrow import Status
from kcli.lag.group_lag import PARTITION_COST, GroupLag, Member, member_names
from kcli.lag.partition_lag import PartitionLag, without_end
from kcli.lag.tracker import LagTracker
from kcli.model.pace import Pace
from kcli.model.topic_partition import TopicPartition

FIRST_PATIENCE_MS = 60_000
"""If only one commit is known, a state other than OK is not reported for this time. It is the default of Connect's
offset.flush.interval.ms, the longest usual interval of commits. The time is shorter than in a broker, because a person
waits for the state.
"""


class LagWatch:
    """The samples of one tool or page. There is a window of samples for each group and partition that was seen. The
    number of windows is limited.
    """

    def __init__(self, *, windows_max: int = 100_000) -> None:
        self._tracker = LagTracker(first_patience_ms=FIRST_PATIENCE_MS, windows_max=windows_max)

    async def look(
        self,
        group: GroupDescription,
        committed: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        ages_seconds: Mapping[TopicPartition, float],
        pace: Pace,
        *,
        now_ms: int,
    ) -> GroupLag:
        """Adds a sample: the offsets of a group, and the end offsets of the same partitions. Computes the state of the
        group. A partition that `ends` does not contain has no lag in the result, because its end is unknown now.

        `ages_seconds` has the known ages of first unread records. `now_ms` is the time of a clock that never goes back.
        """
        lag = await _with_members(group, pace)
        for partition, offset in committed.items():
            await pace(PARTITION_COST)
            if partition not in ends:
                # An end of an earlier sample would make an unknown lag look known.
                lag.add_partition(partition, without_end(offset, now_ms, now_ms))
                continue
            self._tracker.see_end(partition, now_ms, ends[partition])
            self._tracker.see_offset(group.group_id, partition, now_ms, offset)
            age = ages_seconds.get(partition)
            partition_lag = self._tracker.lag_of(
                group.group_id,
                partition,
                now_ms,
                arrival_ms=None if age is None else now_ms - int(age * 1000),
            )
            if partition_lag is not None:
                lag.add_partition(partition, partition_lag)
        return lag

    def forget(self, group_ids: Iterable[str]) -> None:
        """Drops the windows of groups. Keeps the histories of end offsets of their partitions."""
        gone = frozenset(group_ids)
        self._tracker.forget([key for key in self._tracker.keys if key[0] in gone], ())


async def _with_members(group: GroupDescription, pace: Pace) -> GroupLag:
    """Makes the `GroupLag` of a group, with its members but without partitions."""
    lag = GroupLag(group.group_id, group.state, group.protocol, group.assignor)
    members = [
        Member(described.member_id, described.client_id, described.host, tuple(described.assignment))
        for described in group.members
    ]
    for member, name in zip(members, member_names(members), strict=True):
        await lag.add_member(member, name, pace)
    return lag


def is_known(lag: PartitionLag) -> bool:
    """Whether there are enough samples for a state. If the group has a lag, one sample is not enough."""
    return lag.status is not Status.OK or lag.lag == 0 or lag.commits > 1
