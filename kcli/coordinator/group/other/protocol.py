"""Serves share and streams groups: lists them and serves their offsets, but refuses the requests of their members."""

from __future__ import annotations

from kcli.coordinator.group.classic.join import Join
from kcli.coordinator.group.classic.membership import leave_unknown_group
from kcli.coordinator.group.offsets.requests import names_no_member
from kcli.coordinator.group.other.group import OtherGroup, type_of_key
from kcli.coordinator.group.protocol import Groups, Retention
from kcli.coordinator.group.records import OtherRecord
from kcli.coordinator.group.step import GroupStep, TimerKind
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode, InconsistentGroupProtocolException
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class OtherProtocol:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def _own(self, group_id: str) -> OtherGroup:
        group = self._groups[group_id]
        assert isinstance(group, OtherGroup)
        return group

    # Requests of the classic protocol

    def join(self, join: Join, _step: GroupStep) -> None:
        raise InconsistentGroupProtocolException

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

    # Offsets

    def admit_commit(self, request: OffsetCommitRequest, _api_version: int, _now_ms: int) -> ErrorCode:
        group = self._own(request.group_id)
        is_outsider = request.generation_id_or_member_epoch < 0 and not group.has_members
        return ErrorCode.NONE if is_outsider else ErrorCode.UNKNOWN_MEMBER_ID

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.NONE if names_no_member(request) else self.admit_commit(request, 0, 0)

    def admit_fetch(self, _group_id: str, _member_id: str, _member_epoch: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def is_subscribed_to(self, _group_id: str, _topic: str) -> bool:
        return False

    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._own(group_id).has_members else ErrorCode.NONE

    def retention(self, _group_id: str) -> Retention | None:
        return None

    # Groups

    def listed(self, group_id: str) -> ListedGroup:
        group = self._own(group_id)
        return ListedGroup(
            group_id=group_id,
            protocol_type=group.group_type.value,
            group_state=group.state,
            group_type=group.group_type.value,
        )

    def delete_error(self, group_id: str) -> ErrorCode:
        """The error code for a deletion. The deletion is refused, because this broker does not serve the group's
        protocol."""
        has_members = self._own(group_id).has_members
        return ErrorCode.NON_EMPTY_GROUP if has_members else ErrorCode.UNSUPPORTED_VERSION

    def bury(self, group_id: str, _step: GroupStep) -> None:
        raise AssertionError(f"{group_id} is not ours to delete")

    # Time and the log

    def expire(self, _kind: TimerKind, _group_id: str, _member_id: str, _step: GroupStep) -> None:
        """Does nothing. The deadline belongs to an earlier group of another type with the same id."""

    def start(self, _group_id: str, _step: GroupStep) -> None:
        """Does nothing, because members of these groups have no sessions here."""

    def resign(self, _group_id: str, _step: GroupStep) -> None:
        """Does nothing, because no request waits in these groups."""

    def replay(self, record: OtherRecord) -> None:
        group_type = type_of_key(record.key_type)
        group = self._groups.get(record.group_id)
        if isinstance(group, OtherGroup) and group.group_type is group_type:
            group.replay(record)
            if group.is_gone:
                del self._groups[record.group_id]
        elif group_type is not None and record.value is not None:
            other = self._groups[record.group_id] = OtherGroup(record.group_id, group_type)
            other.replay(record)
