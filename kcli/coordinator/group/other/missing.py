"""The answers to requests for groups that do not exist."""

from __future__ import annotations

from kcli.coordinator.group.classic.join import Join
from kcli.coordinator.group.classic.membership import leave_unknown_group
from kcli.coordinator.group.classic.protocol import ClassicProtocol
from kcli.coordinator.group.offsets.requests import MEMBER_EPOCH_VERSION, names_no_member
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class MissingGroups:
    """Answers requests for a group that does not exist. Only a JoinGroup or an OffsetCommit may create a group."""

    def __init__(self, classic: ClassicProtocol) -> None:
        self._classic = classic

    def join(self, join: Join, step: GroupStep) -> None:
        self._classic.found(join, step)

    def sync(self, _request: SyncGroupRequest, token: Token[SyncGroupResponse], step: GroupStep) -> None:
        step.reply(token, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(
        self,
        _group_id: str,
        _member_id: str,
        _group_instance_id: str | None,
        _generation_id: int,
        _now_ms: int,
    ) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(
        self,
        request: LeaveGroupRequest,
        api_version: int,
        token: Token[LeaveGroupResponse],
        step: GroupStep,
    ) -> None:
        step.reply(token, leave_unknown_group(request, api_version))

    def admit_commit(self, request: OffsetCommitRequest, api_version: int, _now_ms: int) -> ErrorCode:
        if request.generation_id_or_member_epoch < 0:
            return ErrorCode.NONE
        knows_epochs = api_version >= MEMBER_EPOCH_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if knows_epochs else ErrorCode.ILLEGAL_GENERATION

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        if names_no_member(request) or request.generation_id_or_member_epoch < 0:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION

    def admit_fetch(self, _group_id: str, _member_id: str, _member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE
