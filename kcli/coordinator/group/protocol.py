"""`GroupProtocol`, the interface between `GroupShard` (group/shard.py) and one type of group, and the table of types.

To add a type of group, write a package with a `GroupProtocol`, and add a row to the table in `GroupShard`. Some records
and requests exist for one type only, and `GroupShard` passes them directly to the package of this type. The methods of
`GroupProtocol` serve the requests that every type of group may get: requests of the classic protocol, offsets,
deletion, deadlines. Each method takes a group id. `Protocols` calls a method only for groups of the type that the
package serves.
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
"""The groups of a shard by id, in the order of their creation. All parts of a shard use the same table."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The start of the retention of a group's offsets, and whether the group ends with its last offset (KIP-211)."""

    empty_since_ms: int | None
    """The start of the retention of all offsets. If this is None, the retention of each offset starts at its commit."""
    is_deserted: bool
    """Whether the group may be deleted when its last offset has expired."""


class GroupRequests(Protocol):
    """Answers requests that name a group. `MissingGroups` implements this interface for groups that do not exist.

    If `join`, `sync` or `heartbeat` raises a KafkaError, the answer has the code of this error, and the group has not
    changed.
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
        """NONE if this client may commit offsets, else the error code. If the client is a member, its session timer
        restarts."""
        ...

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """NONE if this producer may commit offsets in a transaction, else the error code. The session timer of a member
        does not restart."""
        ...

    def admit_fetch(self, group_id: str, member_id: str, member_epoch: int) -> ErrorCode:
        """NONE if a client that names this member may read offsets, else the error code."""
        ...


class GroupProtocol(GroupRequests, Protocol):
    """The methods that `GroupShard` needs for one type of group."""

    def listed(self, group_id: str) -> ListedGroup: ...
    def is_subscribed_to(self, group_id: str, topic: str) -> bool: ...

    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        """NONE if some offsets of the group may be deleted, else the error code."""
        ...

    def delete_error(self, group_id: str) -> ErrorCode:
        """NONE if the group may be deleted, else the error code."""
        ...

    def bury(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group for which `delete_error` gives no error. If the write fails, the group is restored."""
        ...

    def retention(self, group_id: str) -> Retention | None:
        """The start of the retention of the group's offsets. None if no offset of the group may expire."""
        ...

    def expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        """Handles a deadline that has passed, for example removes the member. The deadline may belong to an earlier
        group of another type that had the same id."""
        ...

    def start(self, group_id: str, step: GroupStep) -> None:
        """Starts the sessions of a group that has been loaded."""
        ...

    def resign(self, group_id: str, step: GroupStep) -> None:
        """Answers the waiting requests of the group with an error that makes the clients look for the new
        coordinator."""
        ...


class Protocols:
    """Finds the protocol of a group. `missing` answers requests for groups that do not exist."""

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
