"""`GroupType`, the interface between `GroupShard` (shard.py) and one type of group.

A type of group is a package, such as `classic/`, with one object that implements `GroupType`. This object owns the
records of its groups, their timers, their requests and their descriptions. The shard owns the table of groups and the
committed offsets, which are the same for all types. To add a type, write its package, and add its row to the list in
types.py.

Most methods take a group id, and the shard calls them only for groups of the type.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from kcli.coordinator.group.config import GroupConfig, TimesOf
from kcli.coordinator.group.counts import GroupCounts
from kcli.coordinator.group.records import LogRecord
from kcli.coordinator.group.requests import Kind, Served
from kcli.coordinator.group.step import GroupStep, GroupTimers
from kcli.coordinator.group.topics import TopicsView
from kcli.errors import ErrorCode
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest


class Group(Protocol):
    group_id: str

    @property
    def group_type(self) -> str:
        """The name of the group's type."""
        ...


Groups = dict[str, Group]
"""The groups of a shard by id, in the order of their creation. All parts of a shard use the same table."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The start of the retention of a group's offsets, and whether the group ends with its last offset (KIP-211)."""

    empty_since_ms: int | None
    """The start of the retention of all offsets. If this is None, the retention of each offset starts at its commit."""
    is_deserted: bool
    """Whether the group may be deleted when its last offset has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardParts:
    """The parts of a shard that its types of groups share."""

    config: GroupConfig
    new_uuid: Callable[[], uuid.UUID]
    times_of: TimesOf
    counts: GroupCounts = field(default_factory=GroupCounts)
    groups: Groups = field(default_factory=dict)
    timers: GroupTimers = field(default_factory=GroupTimers)
    types: dict[str, GroupType] = field(default_factory=dict)
    """The types by name. A type can use the types before it in the list."""


class GroupType(Protocol):
    """One type of group in one shard."""

    timers: tuple[StrEnum, ...] = ()
    """The kinds of deadlines that this type sets. The values of the kinds of all types are different."""
    requests: Mapping[Kind, Callable[..., Any]]
    """The requests that this type serves for its own groups. If no earlier type lists a request, this type also serves
    it for groups that do not exist, and for groups whose type does not list the request."""

    # Offsets

    @abstractmethod
    def admit_commit(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> ErrorCode:
        """NONE if this client may commit offsets, else the error code. If the client is a member, its session timer
        restarts."""

    @abstractmethod
    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """NONE if this producer may commit offsets in a transaction, else the error code. The session timer of a member
        does not restart."""

    @abstractmethod
    def admit_fetch(self, group_id: str, member_id: str, member_epoch: int) -> ErrorCode:
        """NONE if a client that names this member may read offsets, else the error code."""

    @abstractmethod
    def is_subscribed_to(self, group_id: str, topic: str) -> bool: ...

    @abstractmethod
    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        """NONE if some offsets of the group may be deleted, else the error code."""

    @abstractmethod
    def retention(self, group_id: str) -> Retention | None:
        """The start of the retention of the group's offsets. None if no offset of the group may expire."""

    def create_for_offsets(self, group_id: str, commit_timestamp_ms: int) -> None:
        """Creates a group that did not exist when its first offset was committed. Only the first type is called."""
        return

    # Groups

    @abstractmethod
    def listed(self, group_id: str) -> ListedGroup: ...

    @abstractmethod
    def delete_error(self, group_id: str) -> ErrorCode:
        """NONE if the group may be deleted, else the error code."""

    @abstractmethod
    def delete(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group for which `delete_error` gives no error. If the write fails, the group is restored."""

    def topics_changed(self, topics: TopicsView, names: Iterable[str], *, has_new: bool) -> None:
        """Gets the topics in a new metadata image. `names` are the changed topics."""
        return

    # Time and the log

    def expire(self, kind: StrEnum, group_id: str, member_id: str, step: GroupStep) -> None:
        """Handles a deadline of this type that has passed, for example removes the member."""
        return

    def start(self, group_id: str, step: GroupStep) -> None:
        """Starts the sessions of a group that has been loaded."""
        return

    def resign(self, group_id: str, step: GroupStep) -> None:
        """Answers the waiting requests of the group with an error that makes the clients look for the new
        coordinator."""
        return

    @abstractmethod
    def replay(self, record: LogRecord, *, live: bool) -> None:
        """Applies a committed record of this type. `live` is False while the shard is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTypeRow:
    """A type of group in the list of types: its name on the wire, its record types, and the functions that decode a
    record and that make the object of a shard."""

    name: str
    record_types: tuple[int, ...]
    decode: Callable[[bytes, bytes | None], LogRecord]
    create: Callable[[ShardParts], GroupType]


def serving(*served: Served) -> Mapping[Kind, Callable[..., Any]]:
    """Makes the table `GroupType.requests`."""
    return dict(served)
