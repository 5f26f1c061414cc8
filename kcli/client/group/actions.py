"""The work that a `Membership` returns to its caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kcli.client.group.protocol import Generation, JoinedMember
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.wire.api import ApiKey

Request: TypeAlias = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
Response: TypeAlias = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse

API_KEYS: dict[type[Request], ApiKey] = {
    JoinGroupRequest: ApiKey.JOIN_GROUP,
    SyncGroupRequest: ApiKey.SYNC_GROUP,
    HeartbeatRequest: ApiKey.HEARTBEAT,
    LeaveGroupRequest: ApiKey.LEAVE_GROUP,
}


@dataclass(frozen=True, slots=True)
class Find:
    """Look up the coordinator. Then call `found` or `not_found`."""


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Send a request to the coordinator. Then call `answered` or `failed`. Two requests are never equal."""

    request: Request
    timeout_ms: int

    @property
    def key(self) -> ApiKey:
        return API_KEYS[type(self.request)]

    @property
    def is_heartbeat(self) -> bool:
        return isinstance(self.request, HeartbeatRequest)


@dataclass(frozen=True, slots=True)
class Assign:
    """Call the protocol's `assign`, because this member leads. Then call `made`."""

    generation: Generation
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """Call the protocol's `assigned`. Then call `taken`."""

    generation: Generation
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Revoke:
    """Call the protocol's `revoked`. Then call `given_up`."""

    everything: bool


@dataclass(frozen=True, slots=True)
class Lose:
    """Call the protocol's `lost`. Then call `given_up`."""


@dataclass(frozen=True, slots=True)
class End:
    """The member is not in the group any more. `error` is the reason if it did not leave on purpose."""

    error: Exception | None


Callback: TypeAlias = Assign | Take | Revoke | Lose
Action: TypeAlias = Find | Send | Callback | End
