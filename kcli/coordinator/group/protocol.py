"""The interface of a type of group to its shard, and the table of the types.

A new type is a package with a `GroupProtocol` and a row in the table (`GroupShard`); it brings records and requests of
its own, which go to it directly. The methods here are for what every group may be asked: the requests of the classic
protocol, offsets, deletion, deadlines. They take the id of a group; `Protocols` calls them only for a group of the
right type, and each protocol finds its own group in `Groups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kcli.coordinator.group.classic.join import Join
from kcli.coordinator.group.group_type import GroupType
from kcli.coordinator.group.step import GroupStep, TimerKind
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Group(Protocol):
    group_id: str

    @property
    def group_type(self) -> GroupType: ...


Groups = dict[str, Group]
"""By group id, in the order in which the groups came. Shared by the parts of a shard."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How the offsets of a group grow old (KIP-211)."""

    empty_since_ms: int | None
    """From when all offsets count; None: each from its own commit."""
    is_deserted: bool
    """Whether the group may go when its last offset does."""


class GroupRequests(Protocol):
    """The answers to requests that name a group, which may also be one that does not exist.

    `join`, `sync` and `heartbeat` may raise a KafkaError, which is the answer; nothing has changed then.
    """

    def join(self, join: Join, step: GroupStep) -> None: ...
    def sync(self, request: SyncGroupRequest, token: Token[SyncGroupResponse], step: GroupStep) -> None: ...
    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode: ...
    def leave(
        self,
        request: LeaveGroupRequest,
        api_version: int,
        token: Token[LeaveGroupResponse],
        step: GroupStep,
    ) -> None: ...

    def admit_commit(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> ErrorCode:
        """Whether this client may commit offsets; the commit of a member is a sign of life."""
        ...

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether this producer may commit offsets in a transaction. It may act for a member, which need not live."""
        ...

    def admit_fetch(self, group_id: str, member_id: str, member_epoch: int) -> ErrorCode:
        """Whether a client that names itself may read offsets."""
        ...


class GroupProtocol(GroupRequests, Protocol):
    """All that a shard needs of one type of group."""

    def listed(self, group_id: str) -> ListedGroup: ...
    def is_subscribed_to(self, group_id: str, topic: str) -> bool: ...

    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        """Why no offset of the group may be deleted; NONE if some may."""
        ...

    def delete_error(self, group_id: str) -> ErrorCode:
        """Why the group may not be deleted."""
        ...

    def bury(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group that may be deleted; if the write fails, the group comes back."""
        ...

    def retention(self, group_id: str) -> Retention | None:
        """None if no offset of the group may expire."""
        ...

    def expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        """A deadline has passed. It may be one of another type that the group had before."""
        ...

    def start(self, group_id: str, step: GroupStep) -> None:
        """The group has been loaded: its sessions begin again."""
        ...

    def resign(self, group_id: str, step: GroupStep) -> None:
        """Sends the requests that wait in the group to another coordinator."""
        ...


class Protocols:
    """Finds the protocol of a group. `missing` answers for groups that do not exist."""

    def __init__(
        self, groups: Groups, table: Mapping[GroupType, GroupProtocol], missing: GroupRequests
    ) -> None:
        assert table.keys() == set(GroupType), "every type of group has a row"
        self._groups = groups
        self._table = table
        self._missing = missing

    def of(self, group_id: str) -> GroupProtocol | None:
        group = self._groups.get(group_id)
        return None if group is None else self._table[group.group_type]

    def requests(self, group_id: str) -> GroupRequests:
        return self.of(group_id) or self._missing
