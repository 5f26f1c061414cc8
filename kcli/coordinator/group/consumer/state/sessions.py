"""The deadlines of members of consumer groups: for heartbeats, revocations, and joins of classic members."""

from __future__ import annotations

from enum import StrEnum

from kcli.coordinator.group.config import TimesOf
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState
from kcli.coordinator.group.step import GroupTimers


class ConsumerTimer(StrEnum):
    SESSION = "consumer session"
    REVOCATION = "consumer revocation"
    """The end of the time that a member has to give up partitions."""
    JOIN = "consumer join"
    """The end of the time that a classic member has to join again."""
    SYNC = "consumer sync"
    """The end of the time that a classic member has to fetch its assignment."""


class ConsumerSessions:
    def __init__(self, timers: GroupTimers, times_of: TimesOf) -> None:
        self._timers = timers
        self.times_of = times_of

    def restart(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Restarts the session of a member that sent a request."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self.times_of(group.group_id).session_timeout_ms
        self._timers.schedule((ConsumerTimer.SESSION, group.group_id, member.member_id), now_ms + timeout_ms)

    def restart_all(self, group: ConsumerGroup, now_ms: int) -> None:
        """Restarts the deadlines of all members, for example after the group was loaded from the log."""
        for member in group.members.values():
            self.restart(group, member, now_ms)
            self.watch_revocation(group, member, now_ms)

    def watch_revocation(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Gives the member its rebalance timeout to give up partitions. A member of the classic protocol has no such
        deadline, because it is asked to join again (`await_join`)."""
        key = (ConsumerTimer.REVOCATION, group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            self._timers.schedule(key, now_ms + member.rebalance_timeout_ms)
        else:
            self._timers.cancel(key)

    def await_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Starts the deadline of a classic member that was asked to join again. If the member was asked before, the
        earlier deadline stays."""
        key = (ConsumerTimer.JOIN, group.group_id, member.member_id)
        if not self._timers.is_scheduled(key):
            self._timers.schedule(key, now_ms + member.rebalance_timeout_ms)

    def joined(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Starts the deadline of a classic member that has joined and must now send SyncGroup."""
        self._timers.cancel((ConsumerTimer.JOIN, group.group_id, member.member_id))
        sync = (ConsumerTimer.SYNC, group.group_id, member.member_id)
        self._timers.schedule(sync, now_ms + member.rebalance_timeout_ms)

    def synced(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._timers.cancel((ConsumerTimer.SYNC, group.group_id, member.member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        for kind in ConsumerTimer:
            self._timers.cancel((kind, group_id, member_id))
