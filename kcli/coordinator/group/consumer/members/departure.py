"""The end of memberships in a consumer group: members that leave, send no heartbeat in time, or miss another
deadline."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.coordinator.group.consumer.migration.downgrade import Downgrades
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import ConsumerLog
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState
from kcli.coordinator.group.consumer.state.records import member_tombstones, regex_tombstone
from kcli.coordinator.group.consumer.targets.sessions import ConsumerSessions
from kcli.coordinator.group.consumer.targets.targets import Targets
from kcli.coordinator.group.step import GroupStep, TimerKind

_log = logging.getLogger("kcli.coordinator.group")

_WHY = {
    TimerKind.SESSION: "the member session expired",
    TimerKind.REVOCATION: "it failed to give up its partitions within the rebalance timeout",
    TimerKind.MEMBER_JOIN: "the classic member failed to join within the rebalance timeout",
    TimerKind.MEMBER_SYNC: "the member failed to sync within timeout",
}


class Departures:
    def __init__(
        self, log: ConsumerLog, sessions: ConsumerSessions, targets: Targets, downgrades: Downgrades
    ) -> None:
        self._log = log
        self._sessions = sessions
        self._targets = targets
        self._downgrades = downgrades

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerMember], step: GroupStep) -> None:
        """Removes members. Their partitions are free immediately, and the group epoch increases. If only members of the
        classic protocol remain, the group becomes a classic group."""
        if not members:
            return
        gone = tuple(member.member_id for member in members)
        for member_id in gone:
            self._sessions.cancel(group.group_id, member_id)
        writer = self._log.writer(group, step)
        if self._downgrades.is_due(group, gone):
            self._downgrades.convert(writer, gone)
            return
        for member_id in gone:
            writer.put_all(member_tombstones(group.group_id, member_id))
        for regex in tuple(group.regexes):
            if not group.subscribers_of(regex):
                writer.put_all((regex_tombstone(group.group_id, regex),))
        self._targets.raise_epoch(writer, always=True)

    def expire(self, kind: TimerKind, group: ConsumerGroup, member_id: str, step: GroupStep) -> None:
        """Removes a member that missed a deadline. If the member had to give up partitions by this deadline and gave
        them up in time, it stays in the group."""
        member = group.members.get(member_id)
        if member is None or kind not in _WHY:  # the deadline belongs to the earlier classic group
            return
        gave_up = member.state is not MemberState.UNREVOKED_PARTITIONS or member.epoch < 0
        if kind is TimerKind.REVOCATION and gave_up:
            return
        _log.debug(
            "[GroupId %s] Member %s fenced from the group because %s.", group.group_id, member_id, _WHY[kind]
        )
        self.remove(group, (member,), step)
