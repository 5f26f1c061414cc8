"""The classic type of groups, made from the other modules of this package.

As in Kafka, a request changes the members of a classic group in memory at once. A record of the group is written when
the leader has sent the assignment, or when the group becomes empty. This record is needed only when a coordinator loads
its partition of `__consumer_offsets`. In normal running, the replay of the record changes nothing, except that a
tombstone removes the group.

A group without members that has committed offsets is a classic group too. So this type also decides about commits to
groups that do not exist.
"""

from __future__ import annotations

from enum import StrEnum

from kcli.coordinator.group.classic import offsets
from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.classic.join import Joins
from kcli.coordinator.group.classic.membership import Memberships
from kcli.coordinator.group.classic.rebalance import ClassicTimer, Rebalance
from kcli.coordinator.group.classic.records import CLASSIC_NAME, GroupRecord, decode_group_record
from kcli.coordinator.group.classic.requests import (
    DESCRIBE_CLASSIC_GROUP,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from kcli.coordinator.group.group_type import GroupType, GroupTypeRow, Retention, ShardParts, serving
from kcli.coordinator.group.records import LogRecord
from kcli.coordinator.group.requests import Describe
from kcli.coordinator.group.step import GroupStep
from kcli.errors import ErrorCode
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.records.consumer_offsets import GroupMetadataKey
from kcli.protocol.records.schema import schema_of

DESCRIBE_NOT_FOUND_VERSION = 6
"""The first version of DescribeGroups with GROUP_ID_NOT_FOUND. In older versions a missing group is "Dead"
(KIP-1043)."""


class ClassicType(GroupType):
    timers = tuple(ClassicTimer)

    def __init__(self, parts: ShardParts) -> None:
        self._config = parts.config
        self._groups = parts.groups
        self.rebalance = Rebalance(parts.config, parts.timers)
        self.joins = Joins(parts, self.rebalance)
        memberships = Memberships(parts, self.rebalance)
        self.requests = serving(
            JOIN_GROUP.by(self.joins.serve),
            SYNC_GROUP.by(memberships.sync),
            HEARTBEAT.by(memberships.heartbeat),
            LEAVE_GROUP.by(memberships.leave),
            DESCRIBE_CLASSIC_GROUP.by(self._describe),
        )

    def _own(self, group_id: str) -> ClassicGroup:
        group = self._groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def _own_or_none(self, group_id: str) -> ClassicGroup | None:
        return self._own(group_id) if group_id in self._groups else None

    # Offsets

    def admit_commit(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> ErrorCode:
        group = self._own_or_none(request.group_id)
        if group is None:
            return offsets.missing_group_commit_error(request, api_version)
        code = offsets.commit_error(group, request)
        member = group.members.get(request.member_id)
        if code is ErrorCode.NONE and member is not None:
            self.rebalance.restart_session(group, member, now_ms)
        return code

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        group = self._own_or_none(request.group_id)
        if group is None:
            return offsets.missing_group_transactional_error(request)
        return offsets.transactional_commit_error(group, request)

    def admit_fetch(self, _group_id: str, _member_id: str, _member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._own(group_id).is_subscribed_to(topic)

    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        return offsets.delete_offsets_error(self._own(group_id))

    def retention(self, group_id: str) -> Retention | None:
        return offsets.retention(self._own(group_id))

    def create_for_offsets(self, group_id: str, commit_timestamp_ms: int) -> None:
        """Creates a group without members when its first offset is committed. Such a group has no group record."""
        self._groups[group_id] = ClassicGroup(group_id, commit_timestamp_ms)

    # Groups

    def listed(self, group_id: str) -> ListedGroup:
        group = self._own(group_id)
        return ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC_NAME,
        )

    def _describe(self, question: Describe, _now_ms: int) -> DescribedGroup:
        group_id = question.group_id
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        if question.api_version < DESCRIBE_NOT_FOUND_VERSION:
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

    def delete(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group. The group is Dead until its tombstone is committed."""
        group = self._own(group_id)
        step.append(GroupRecord(group_id, None))
        group.previous_state = group.state
        # The group keeps its timestamp, because its offsets expire by that timestamp if the write fails.
        group.state = GroupState.DEAD
        step.when_written(lambda code, _: _revive(group, code))

    # Time and the log

    def expire(self, kind: StrEnum, group_id: str, member_id: str, step: GroupStep) -> None:
        group = self._own(group_id)
        match kind:
            case ClassicTimer.SESSION:
                self.rebalance.expire_session(group, member_id, step)
            case ClassicTimer.JOIN:
                self.rebalance.expire_join(group, step)
            case ClassicTimer.SYNC:
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

    def replay(self, record: LogRecord, *, live: bool) -> None:
        assert isinstance(record, GroupRecord)
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


CLASSIC = GroupTypeRow(
    name=CLASSIC_NAME,
    record_types=(schema_of(GroupMetadataKey).key,),
    decode=decode_group_record,
    create=ClassicType,
)
