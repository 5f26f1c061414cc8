"""The types `Ready` and `Step` for the group coordinator, and the kinds of its deadlines. All types of groups use
them."""

from __future__ import annotations

from enum import IntEnum

from kcli.coordinator.group.consumer.resolve_regexes import ResolveRegexes
from kcli.coordinator.group.records import LogRecord
from kcli.coordinator.runtime import Continuation, Ready, Step, Timers

GroupSend = ResolveRegexes
GroupReady = Ready[LogRecord, GroupSend]
GroupStep = Step[LogRecord, GroupSend]
GroupContinuation = Continuation[LogRecord, GroupSend]


class TimerKind(IntEnum):
    SESSION = 0
    JOIN = 1
    """The end of the join phase of a classic group."""
    SYNC = 2
    """The end of the sync phase of a classic group."""
    OFFSETS_CHECK = 3
    """The next search for expired offsets. This deadline belongs to no group."""
    REVOCATION = 4
    """The end of the time that a member of a consumer group has to give up partitions."""
    MEMBER_JOIN = 5
    """The end of the time that a classic member of a consumer group has to join again."""
    MEMBER_SYNC = 6
    """The end of the time that a classic member of a consumer group has to fetch its assignment."""
    OFFSETS_DELETION = 7
    """The next slice of a deletion of offsets. This deadline belongs to no group."""


TimerKey = tuple[TimerKind, str, str]
"""The kind, group id and member id of a deadline. The ids are empty if the deadline belongs to no group or member."""
GroupTimers = Timers[TimerKey]


def session_key(group_id: str, member_id: str) -> TimerKey:
    return (TimerKind.SESSION, group_id, member_id)
