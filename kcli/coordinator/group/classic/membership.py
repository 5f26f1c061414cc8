"""SyncGroup, Heartbeat and LeaveGroup: the requests of a member between two JoinGroups.

KIPs: 345 (static members, batched leave), 559 (protocol type and name in SyncGroup), 800 (reasons to leave).
"""

from __future__ import annotations

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.classic.rebalance import Rebalance
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.classic.requests import LeaveCall, SyncCall
from kcli.coordinator.group.group_type import ShardParts
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

BATCHED_LEAVE_VERSION = 3


class Memberships:
    def __init__(self, parts: ShardParts, rebalance: Rebalance) -> None:
        self._groups = parts.groups
        self._counts = parts.counts
        self._rebalance = rebalance

    def _group(self, group_id: str) -> ClassicGroup | None:
        """The classic group with this id. None if the group does not exist, or if its members do not speak the classic
        protocol."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # SyncGroup

    def sync(self, call: SyncCall, step: GroupStep) -> None:
        request, token = call.request, call.token
        group = self._group(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _sync_error(group, request)
        if group is None or code is not ErrorCode.NONE:
            step.reply(token, SyncGroupResponse(error_code=code))
            return
        member = group.members[request.member_id]
        self._rebalance.received_sync(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._rebalance.restart_session(group, member, step.now_ms)
            step.reply(token, _synced(group, member.assignment))
            return
        if member.sync_token is not None:  # the member repeats its request
            step.reply(member.sync_token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_token = token
        if group.leader_id == member.member_id:
            self._store_assignments(group, request, step)

    def _store_assignments(self, group: ClassicGroup, request: SyncGroupRequest, step: GroupStep) -> None:
        sent = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        # A member that is missing in the leader's assignment gets an empty assignment (KAFKA-3526).
        assignments = {member_id: sent.get(member_id, b"") for member_id in group.members}
        generation_id = group.generation_id
        step.append(GroupRecord(group.group_id, group.to_metadata(assignments)))
        step.when_written(
            lambda code, then: self._assignments_written(group, generation_id, assignments, code, then)
        )

    def _assignments_written(
        self,
        group: ClassicGroup,
        generation_id: int,
        assignments: dict[str, bytes],
        code: ErrorCode,
        step: GroupStep,
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return  # another rebalance began before the record was committed
        if code is not ErrorCode.NONE:
            self._rebalance.fail_sync_phase(group, write_error(code), step)
            self._rebalance.prepare(group, f"{code.name} when storing the assignment", step)
            return
        group.transition_to(GroupState.STABLE, step.now_ms)
        self._counts.classic_rebalances += 1
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.sync_token is not None:
                step.reply(member.sync_token, _synced(group, member.assignment))
                member.sync_token = None
                self._rebalance.restart_session(group, member, step.now_ms)

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        group = self._group(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = _member_error(group, request)
        if code is not ErrorCode.NONE:
            return code
        self._rebalance.restart_session(group, group.members[request.member_id], now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # LeaveGroup

    def leave(self, call: LeaveCall, step: GroupStep) -> None:
        group = self._group(call.group_id)
        identities = leaving(call)
        if group is None:
            results = tuple(_left(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in identities)
        elif group.state is GroupState.DEAD:
            step.reply(call.token, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        else:
            results = tuple(self._leave_one(group, identity, step) for identity in identities)
            if any(result.error_code is ErrorCode.NONE for result in results):
                gone = ", ".join(_words(identity) for identity in identities)
                self._rebalance.after_removal(group, f"explicit leave of {gone}", step)
        reply_to_leave(call, results, step)

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity, step: GroupStep) -> MemberResponse:
        member_id = identity.member_id
        code = ErrorCode.NONE
        if not member_id:
            # An administrator may remove a static member by its instance id, without a member id.
            member_id = group.static_member_id(identity.group_instance_id) or ""
            code = ErrorCode.NONE if member_id else ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in group.pending_joins:
            self._rebalance.cancel_session(group, member_id)
            group.remove(member_id)
            return _left(identity, code)
        else:
            code = group.validate_member(member_id, identity.group_instance_id)
        if code is ErrorCode.NONE:
            self._rebalance.remove_member(group, group.members[member_id], step)
        return _left(identity, code)


def leaving(call: LeaveCall) -> tuple[MemberIdentity, ...]:
    """The members that leave. A request before version 3 contains only one member, in a separate field."""
    if call.caller.api_version >= BATCHED_LEAVE_VERSION:
        return call.request.members
    return (MemberIdentity(member_id=call.request.member_id),)


def reply_to_leave(call: LeaveCall, results: tuple[MemberResponse, ...], step: GroupStep) -> None:
    """Replies to LeaveGroup. Before version 3, the error of the only member is the error of the response."""
    if call.caller.api_version >= BATCHED_LEAVE_VERSION:
        step.reply(call.token, LeaveGroupResponse(members=results))
    else:
        step.reply(call.token, LeaveGroupResponse(error_code=results[0].error_code))


def _words(identity: MemberIdentity) -> str:
    """A text for the log: the member that leaves and, if given, its reason (KIP-800)."""
    name = identity.member_id or f"instance {identity.group_instance_id}"
    return f"{name}; client reason: {identity.reason}" if identity.reason else name


def _left(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
    )


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _member_error(group: ClassicGroup, request: HeartbeatRequest | SyncGroupRequest) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.validate_member(request.member_id, request.group_instance_id)
    if code is ErrorCode.NONE and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    code = _member_error(group, request)
    if code is not ErrorCode.NONE:
        return code
    for named, selected in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if named is not None and named != selected:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
