"""The classic protocol as a `GroupProtocol`, made from the other modules of this package.

As in Kafka, a request changes the members of a classic group in memory at once. A record of the group is written when
the leader has sent the assignment, or when the group becomes empty. This record is needed only when a coordinator loads
its partition of `__consumer_offsets`. In normal running, the replay of the record changes nothing, except that a
tombstone removes the group.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from kcli.coordinator.group.classic import offsets
from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.classic.join import Join, JoinProtocol
from kcli.coordinator.group.classic.membership import MembershipProtocol
from kcli.coordinator.group.classic.rebalance import Rebalance
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.counts import GroupCounts
from kcli.coordinator.group.protocol import Groups, Retention
from kcli.coordinator.group.records import GroupRecord
from kcli.coordinator.group.step import GroupStep, GroupTimers, TimerKind
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode, UnknownMemberIdException
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.records.consumer_offsets import GroupMetadataValue

DESCRIBE_NOT_FOUND_VERSION = 6
"""The first version of DescribeGroups with GROUP_ID_NOT_FOUND. In older versions a missing group is "Dead"
(KIP-1043)."""


class ClassicProtocol:
    def __init__(
        self,
        config: GroupConfig,
        groups: Groups,
        timers: GroupTimers,
        new_uuid: Callable[[], uuid.UUID],
        counts: GroupCounts | None = None,
    ) -> None:
        self._config = config
        self._groups = groups
        self.rebalance = Rebalance(config, timers)
        self._joins = JoinProtocol(config, self.rebalance, new_uuid)
        self._membership = MembershipProtocol(self.rebalance, counts or GroupCounts())

    def _own(self, group_id: str) -> ClassicGroup:
        group = self._groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    # Members

    def join(self, join: Join, step: GroupStep) -> None:
        self._joins.join(self._own(join.request.group_id), join, step)

    def found(self, join: Join, step: GroupStep) -> None:
        """Creates a group with its first member. Refuses a JoinGroup with a member id, because a group that does not
        exist has no members."""
        group_id = join.request.group_id
        if join.request.member_id:
            raise UnknownMemberIdException
        group = self._groups[group_id] = ClassicGroup(group_id, step.now_ms)
        self._joins.join(group, join, step)
        if not any(isinstance(record, GroupRecord) for record in step.records):
            # With this record, the next coordinator knows the group too.
            newborn = GroupMetadataValue(
                protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms
            )
            step.append(GroupRecord(group_id, newborn))

    def sync(self, request: SyncGroupRequest, token: Token[SyncGroupResponse], step: GroupStep) -> None:
        self._membership.sync(self._own(request.group_id), request, token, step)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        group = self._own(group_id)
        return self._membership.heartbeat(group, member_id, group_instance_id, generation_id, now_ms)

    def leave(
        self,
        request: LeaveGroupRequest,
        api_version: int,
        token: Token[LeaveGroupResponse],
        step: GroupStep,
    ) -> None:
        self._membership.leave(self._own(request.group_id), request, api_version, token, step)

    # Offsets

    def admit_commit(self, request: OffsetCommitRequest, _api_version: int, now_ms: int) -> ErrorCode:
        group = self._own(request.group_id)
        code = offsets.commit_error(group, request)
        member = group.members.get(request.member_id)
        if code is ErrorCode.NONE and member is not None:
            self.rebalance.restart_session(group, member, now_ms)
        return code

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        return offsets.transactional_commit_error(self._own(request.group_id), request)

    def admit_fetch(self, _group_id: str, _member_id: str, _member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._own(group_id).is_subscribed_to(topic)

    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        return offsets.delete_offsets_error(self._own(group_id))

    def retention(self, group_id: str) -> Retention | None:
        return offsets.retention(self._own(group_id))

    def keep_offsets(self, group_id: str, commit_timestamp_ms: int) -> None:
        """Creates a group without members when its first offset is committed. Such a group has no group record."""
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id, commit_timestamp_ms)

    # Groups

    def listed(self, group_id: str) -> ListedGroup:
        group = self._own(group_id)
        return ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.group_type.value,
        )

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        if api_version < DESCRIBE_NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        reason = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
        )

    def delete_error(self, group_id: str) -> ErrorCode:
        state = self._own(group_id).state
        if state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def bury(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group. The group is Dead until its tombstone is committed."""
        group = self._own(group_id)
        step.append(GroupRecord(group_id, None))
        group.previous_state = group.state
        # The group keeps its timestamp, because its offsets expire by that timestamp if the write fails.
        group.state = GroupState.DEAD
        step.when_written(lambda code, _: _revive(group, code))

    # Time and the log

    def expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        group = self._own(group_id)
        match kind:
            case TimerKind.SESSION:
                self.rebalance.expire_session(group, member_id, step)
            case TimerKind.JOIN:
                self.rebalance.expire_join(group, step)
            case TimerKind.SYNC:
                self.rebalance.expire_sync(group, step)

    def start(self, group_id: str, step: GroupStep) -> None:
        group = self._own(group_id)
        self.restart_sessions(group, step.now_ms)
        if len(group.members) > self._config.max_size:
            reason = f"it was loaded with {len(group.members)} members; {self._config.max_size} are allowed"
            self.rebalance.prepare(group, reason, step)

    def restart_sessions(self, group: ClassicGroup, now_ms: int) -> None:
        for member in group.members.values():
            self.rebalance.restart_session(group, member, now_ms)

    def resign(self, group_id: str, step: GroupStep) -> None:
        self.fail_waiting(self._own(group_id), ErrorCode.NOT_COORDINATOR, step)

    def fail_waiting(self, group: ClassicGroup, code: ErrorCode, step: GroupStep) -> None:
        """Answers every waiting request of the group with this error code."""
        for member in group.members.values():
            self.rebalance.fail_waiting(group, member, code, member.member_id, step)

    def replay(self, record: GroupRecord, *, live: bool) -> None:
        known = self._groups.get(record.group_id)
        if record.metadata is None:
            # In normal running, ignore the tombstone of an earlier change of the group's protocol.
            if isinstance(known, ClassicGroup) and (not live or known.state is GroupState.DEAD):
                self.rebalance.forget(known)
                del self._groups[record.group_id]
        elif not live or known is None:
            self._groups[record.group_id] = ClassicGroup.from_metadata(record.group_id, record.metadata)


def _revive(group: ClassicGroup, code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        group.state = GroupState.EMPTY


def _described(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=group.described_members(),
    )
