"""The rules of a classic group for offsets: which clients may commit them, and when they expire.

KIPs: 211 (expiry), 447 (the generation fences transactional commits), 496 (deletion).
"""

from __future__ import annotations

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.group_type import Retention
from kcli.coordinator.group.offsets.requests import MEMBER_EPOCH_VERSION, names_no_member
from kcli.errors import ErrorCode
from kcli.model.ids import NO_TIMESTAMP
from kcli.protocol.messages.offset_commit import OffsetCommitRequest


def commit_error(group: ClassicGroup, request: OffsetCommitRequest) -> ErrorCode:
    """The error code for an OffsetCommit. A member of the current generation may commit. If the group has no members,
    every client may commit."""
    generation_id = request.generation_id_or_member_epoch
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if names_no_member(request):
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.validate_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the generation from the answer to its JoinGroup. It must send SyncGroup before it may commit.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def transactional_commit_error(group: ClassicGroup, request: OffsetCommitRequest) -> ErrorCode:
    """The error code for a TxnOffsetCommit. Two rules differ from OffsetCommit. A request without a member is allowed,
    because old producers do not name a member. A commit is allowed during a rebalance."""
    if names_no_member(request):
        is_dead = group.state is GroupState.DEAD
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_dead else ErrorCode.NONE
    code = commit_error(group, request)
    return ErrorCode.NONE if code is ErrorCode.REBALANCE_IN_PROGRESS else code


def missing_group_commit_error(request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """The error code for an OffsetCommit to a group that does not exist. A client without a generation may commit, and
    its commit makes the group."""
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return (
        ErrorCode.GROUP_ID_NOT_FOUND if api_version >= MEMBER_EPOCH_VERSION else ErrorCode.ILLEGAL_GENERATION
    )


def missing_group_transactional_error(request: OffsetCommitRequest) -> ErrorCode:
    """The error code for a TxnOffsetCommit to a group that does not exist."""
    return ErrorCode.NONE if request.generation_id_or_member_epoch < 0 else ErrorCode.ILLEGAL_GENERATION


def delete_offsets_error(group: ClassicGroup) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and not group.is_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def retention(group: ClassicGroup) -> Retention | None:
    """The start of the retention of the group's offsets. In an empty group, the retention starts when the group became
    empty. In a group that never had members, the retention of each offset starts at its commit. In a stable group, the
    retention of each offset starts at its commit too, but only offsets of topics without a subscription expire."""
    if group.state is GroupState.DEAD:
        return None
    if group.protocol_type is None:
        return Retention(None, _is_deserted(group))
    if group.state is GroupState.EMPTY:
        since_ms = None if group.state_timestamp_ms == NO_TIMESTAMP else group.state_timestamp_ms
        return Retention(since_ms, _is_deserted(group))
    knows_topics = group.is_consumer_protocol and group.subscribed is not None
    return Retention(None, is_deserted=False) if knows_topics and group.state is GroupState.STABLE else None


def _is_deserted(group: ClassicGroup) -> bool:
    return group.state is GroupState.EMPTY and not group.pending_joins
