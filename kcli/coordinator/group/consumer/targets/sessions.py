"""The deadlines of a member of a consumer group: for its heartbeats, and for steps it was asked to take."""

from __future__ import annotations

from collections.abc import Callable

from kcli.coordinator.group.config import ConsumerTimes
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState
from kcli.coordinator.group.step import GroupTimers, TimerKind, session_key

TimesOf = Callable[[str], ConsumerTimes]
"""The session timeout and heartbeat interval of a group."""


class ConsumerSessions:
    def __init__(self, timers: GroupTimers, times_of: TimesOf) -> None:
        self._timers = timers
        self.times_of = times_of

    def restart(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A sign of life."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self.times_of(group.group_id).session_timeout_ms
        self._timers.schedule(session_key(group.group_id, member.member_id), now_ms + timeout_ms)

    def restart_all(self, group: ConsumerGroup, now_ms: int) -> None:
        """Starts every deadline again, because the group comes from the log."""
        for member in group.members.values():
            self.restart(group, member, now_ms)
            self.watch_revocation(group, member, now_ms)

    def watch_revocation(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A member that must give up partitions has its rebalance timeout for it. A member of the classic protocol is
        asked to join again instead (`await_join`)."""
        key = (TimerKind.REVOCATION, group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            self._timers.schedule(key, now_ms + member.rebalance_timeout_ms)
        else:
            self._timers.cancel(key)

    def await_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A classic member has been asked to join again; asking twice gives it no more time."""
        key = (TimerKind.MEMBER_JOIN, group.group_id, member.member_id)
        if not self._timers.is_scheduled(key):
            self._timers.schedule(key, now_ms + member.rebalance_timeout_ms)

    def joined(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A classic member has joined, and must fetch its assignment next."""
        self._timers.cancel((TimerKind.MEMBER_JOIN, group.group_id, member.member_id))
        sync = (TimerKind.MEMBER_SYNC, group.group_id, member.member_id)
        self._timers.schedule(sync, now_ms + member.rebalance_timeout_ms)

    def synced(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._timers.cancel((TimerKind.MEMBER_SYNC, group.group_id, member.member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        for kind in (
            TimerKind.SESSION,
            TimerKind.REVOCATION,
            TimerKind.MEMBER_JOIN,
            TimerKind.MEMBER_SYNC,
        ):
            self._timers.cancel((kind, group_id, member_id))
