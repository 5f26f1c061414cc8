"""The settings of a member, and the requests of its membership."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.client.group.protocol import EmbeddedProtocol, Generation
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

REASON_MAX = 255
"""The longest reason of a JoinGroup or LeaveGroup (KIP-800)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of a member, with the defaults of Java's consumer.

    `group_instance_id` makes the member static (KIP-345).
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


def join_request(
    settings: GroupSettings, protocol: EmbeddedProtocol, member_id: str, reason: str
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=protocol.protocol_type,
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocol.metadata()
        ),
        reason=reason[:REASON_MAX],
    )


def sync_request(
    settings: GroupSettings, protocol_type: str, generation: Generation, assignments: Mapping[str, bytes]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=protocol_type,
        protocol_name=generation.protocol_name,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        ),
    )


def heartbeat_request(settings: GroupSettings, generation: Generation) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(settings: GroupSettings, member_id: str, reason: str) -> LeaveGroupRequest:
    """Returns the request in the form of every version: before version 3, it has only the member id."""
    member = MemberIdentity(
        member_id=member_id, group_instance_id=settings.group_instance_id, reason=reason[:REASON_MAX]
    )
    return LeaveGroupRequest(group_id=settings.group_id, members=(member,), member_id=member_id)
