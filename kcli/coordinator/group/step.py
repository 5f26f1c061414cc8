"""The types `Ready` and `Step` for the group coordinator, and the keys of its deadlines, for all types of
groups."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from kcli.coordinator.group.records import LogRecord
from kcli.coordinator.runtime import Continuation, Ready, Step, Timers


class GroupSend(Protocol):
    """Work outside the shard that a group asks the server to do. The server has a function for each class of work."""

    @property
    def group_id(self) -> str: ...


GroupReady = Ready[LogRecord, GroupSend]
GroupStep = Step[LogRecord, GroupSend]
GroupContinuation = Continuation[LogRecord, GroupSend]

TimerKey = tuple[StrEnum, str, str]
"""The kind, group id and member id of a deadline. Each type of group has kinds of its own. The ids are empty if the
deadline belongs to no group or member."""
GroupTimers = Timers[TimerKey]
