"""One partition of `__consumer_offsets` as a state machine: its groups, their offsets, their timers.

A call takes a message, the token of its request and the time, and returns a `Ready` (see `coordinator.runtime` for what
the shell owes it). Offsets and the existence of groups change by `replay` alone, live and on loading. The members of a
classic group are soft state, as in Kafka: they move as requests come, a record of them is written when a generation has
its assignment or the group becomes empty, and it is read back only on loading. So a live replay of a group record adds
nothing; of a tombstone it removes the group.
"""

from __future__ import annotations

import uuid
from typing import Protocol

from kcli.coordinator.group.classic import ClassicGroup, GroupState
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.join import Caller, Join, JoinProtocol
from kcli.coordinator.group.membership import MembershipProtocol, leave_unknown_group
from kcli.coordinator.group.offset_requests import Group, OffsetProtocol
from kcli.coordinator.group.offsets import NO_PRODUCER_ID, OffsetTable
from kcli.coordinator.group.other import GroupType, OtherGroup, type_of_key
from kcli.coordinator.group.rebalance import GroupStep, Rebalance, TimerKind
from kcli.coordinator.group.records import GroupRecord, LogRecord, OffsetRecord, OtherRecord
from kcli.coordinator.runtime import Producer, Ready, Step, Timers, Token
from kcli.errors import ErrorCode
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.records.consumer_offsets import GroupMetadataValue

GroupReady = Ready[LogRecord]

DESCRIBE_NOT_FOUND_VERSION = 6
"""DescribeGroups says GROUP_ID_NOT_FOUND from this version on; before, a missing group is "Dead" (KIP-1043)."""


class Uuids(Protocol):
    """The part of an `Rng` that a shard needs."""

    def uuid(self) -> uuid.UUID: ...


class GroupShard:
    def __init__(self, config: GroupConfig, rng: Uuids) -> None:
        self._config = config
        self._groups: dict[str, Group] = {}
        self._timers = Timers()
        self._table = OffsetTable()
        self._rebalance = Rebalance(config, self._timers)
        self._joins = JoinProtocol(config, self._rebalance, rng.uuid)
        self._membership = MembershipProtocol(self._rebalance)
        self._offsets = OffsetProtocol(config, self._table, self._rebalance)
        self._live = False

    # Membership

    def join_group(self, request: JoinGroupRequest, caller: Caller, token: Token, now_ms: int) -> GroupReady:
        step: GroupStep = Step(now_ms)
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return _refuse_join(request, ErrorCode.INVALID_SESSION_TIMEOUT, token)
        group = self._groups.get(request.group_id)
        is_new = group is None
        if group is None:
            if request.member_id:
                return _refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID, token)
            group = self._groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
        elif isinstance(group, OtherGroup):
            return _refuse_join(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, token)
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        self._joins.join(group, Join(request, caller, token, protocols), step)
        if is_new and not step.records:
            # The group exists from now on, also for a coordinator that takes over.
            newborn = GroupMetadataValue(
                protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms
            )
            step.append(GroupRecord(request.group_id, newborn))
        return step.ready()

    def sync_group(self, request: SyncGroupRequest, token: Token, now_ms: int) -> GroupReady:
        group = self._classic(request.group_id)
        step: GroupStep = Step(now_ms)
        if group is None:
            step.reply(token, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._membership.sync(group, request, token, step)
        return step.ready()

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Answered at once and never written, so there is no token."""
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._membership.heartbeat(group, member_id, group_instance_id, generation_id, now_ms)

    def leave_group(
        self, request: LeaveGroupRequest, api_version: int, token: Token, now_ms: int
    ) -> GroupReady:
        group = self._classic(request.group_id)
        step: GroupStep = Step(now_ms)
        if group is None:
            step.reply(token, leave_unknown_group(request, api_version))
        else:
            self._membership.leave(group, request, api_version, token, step)
        return step.ready()

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int, token: Token, now_ms: int
    ) -> GroupReady:
        step: GroupStep = Step(now_ms)
        self._offsets.commit(self._groups.get(request.group_id), request, api_version, token, step)
        return step.ready()

    def commit_offsets_in_transaction(
        self, request: OffsetCommitRequest, producer: Producer, token: Token, now_ms: int
    ) -> GroupReady:
        """The offsets wait for the end of the producer's transaction."""
        step: GroupStep = Step(now_ms, producer)
        self._offsets.commit_in_transaction(self._groups.get(request.group_id), request, token, step)
        return step.ready()

    def fetch_offsets(
        self,
        group_id: str,
        topics: tuple[tuple[str, tuple[int, ...]], ...] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
    ) -> OffsetFetchResponseGroup:
        """Committed offsets. A member id makes sense to groups of the new protocol only; ours have no such members."""
        group = self._groups.get(group_id)
        if isinstance(group, OtherGroup) and (member_id is not None or member_epoch >= 0):
            return OffsetFetchResponseGroup(group_id=group_id, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        found = self._offsets.fetch(group_id, topics, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=group_id, topics=found)

    def delete_offsets(self, request: OffsetDeleteRequest, token: Token, now_ms: int) -> GroupReady:
        step: GroupStep = Step(now_ms)
        self._offsets.delete(self._groups.get(request.group_id), request, token, step)
        return step.ready()

    def delete_topic(self, topic: str, now_ms: int) -> GroupReady:
        """A topic is gone, and with it every offset committed for it."""
        step: GroupStep = Step(now_ms)
        for record in self._table.tombstones_of_topic(topic):
            step.append(record)
        return step.ready()

    # Groups

    def list_groups(self) -> tuple[ListedGroup, ...]:
        return tuple(_listed(group) for group in self._groups.values())

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            stable = group.state is GroupState.STABLE
            return DescribedGroup(
                group_id=group_id,
                group_state=group.state.value,
                protocol_type=group.protocol_type or "",
                protocol_data=(group.protocol_name or "") if stable else "",
                members=group.described_members(),
            )
        if api_version < DESCRIBE_NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        reason = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
        )

    def delete_groups(self, request: DeleteGroupsRequest, token: Token, now_ms: int) -> GroupReady:
        """Deletes empty groups and their offsets. Until the tombstones are committed they are Dead to everybody."""
        step: GroupStep = Step(now_ms)
        dying: list[ClassicGroup] = []
        results = []
        for group_id in request.groups_names:
            group = self._groups.get(group_id)
            code = _delete_error(group)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
            if code is ErrorCode.NONE and isinstance(group, ClassicGroup):
                self._kill(group, step)
                dying.append(group)
        if dying:
            step.on_written = lambda code, _: self._revive(dying, code)
        step.reply(token, DeleteGroupsResponse(results=tuple(results)))
        return step.ready()

    def _kill(self, group: ClassicGroup, step: GroupStep) -> None:
        for record in self._table.tombstones_of_group(group.group_id):
            step.append(record)
        step.append(GroupRecord(group.group_id, None))
        group.previous_state = group.state
        group.state = GroupState.DEAD  # keeps its timestamp, which dates its offsets should the write fail

    def _revive(self, dying: list[ClassicGroup], code: ErrorCode) -> GroupReady:
        if code is not ErrorCode.NONE:
            for group in dying:
                group.state = GroupState.EMPTY
        return Ready()

    # Time

    @property
    def next_deadline_ms(self) -> int | None:
        return self._timers.next_deadline_ms

    def tick(self, now_ms: int) -> tuple[GroupReady, ...]:
        """Acts on every deadline that has passed; one `Ready` for each that did something."""
        done = []
        while (key := self._timers.pop_expired(now_ms)) is not None:
            assert isinstance(key, tuple)
            step: GroupStep = Step(now_ms)
            kind, group_id, member_id = key
            self._expire(kind, group_id, member_id, step)
            ready = step.ready()
            if ready.records or ready.replies:
                done.append(ready)
        return tuple(done)

    def _expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        if kind is TimerKind.OFFSETS_CHECK:
            self._expire_offsets(step)
            return
        group = self._classic(group_id)
        assert group is not None, f"a {kind.name} timer outlived group {group_id!r}"
        match kind:
            case TimerKind.SESSION:
                self._rebalance.expire_session(group, member_id, step)
            case TimerKind.JOIN:
                self._rebalance.expire_join(group, step)
            case TimerKind.SYNC:
                self._rebalance.expire_sync(group, step)

    def _expire_offsets(self, step: GroupStep) -> None:
        dying = []
        for group in tuple(self._groups.values()):
            if not isinstance(group, ClassicGroup) or group.state is GroupState.DEAD:
                continue
            all_gone = self._offsets.expire(group, step)
            if all_gone and group.state is GroupState.EMPTY and not group.pending_joins:
                step.append(GroupRecord(group.group_id, None))
                group.state = GroupState.DEAD
                dying.append(group)
        if dying:
            step.on_written = lambda code, _: self._revive(dying, code)
        self._schedule_offsets_check(step.now_ms)

    def _schedule_offsets_check(self, now_ms: int) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timers.schedule((TimerKind.OFFSETS_CHECK, "", ""), now_ms + interval_ms)

    # The log

    def replay(self, record: LogRecord, log_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Takes in a committed record; producer_id is set for one of a transaction that has not ended yet."""
        match record:
            case OffsetRecord():
                self._table.replay(record, log_offset, producer_id)
                if record.committed is not None and record.group_id not in self._groups:
                    # A group that only keeps offsets has no record of its own.
                    self._groups[record.group_id] = ClassicGroup(
                        record.group_id, record.committed.commit_timestamp
                    )
            case GroupRecord():
                self._replay_group(record)
            case OtherRecord():
                self._replay_other(record)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self._table.end_transaction(producer_id, committed=committed)

    def _replay_group(self, record: GroupRecord) -> None:
        known = self._groups.get(record.group_id)
        if record.metadata is None:
            if isinstance(known, ClassicGroup):
                self._rebalance.forget(known)
                del self._groups[record.group_id]
        elif not self._live or not isinstance(known, ClassicGroup):
            self._groups[record.group_id] = ClassicGroup.from_metadata(record.group_id, record.metadata)

    def _replay_other(self, record: OtherRecord) -> None:
        group_type = type_of_key(record.key_type)
        group = self._groups.get(record.group_id)
        if isinstance(group, OtherGroup) and group.group_type == group_type:
            group.replay(record)
            if group.is_gone:
                del self._groups[record.group_id]
        elif group_type is not None and record.value is not None:
            other = self._groups[record.group_id] = OtherGroup(record.group_id, group_type)
            other.replay(record)

    def start(self, now_ms: int) -> GroupReady:
        """The log has been replayed to its end: sessions begin anew, and groups that grew too large shrink."""
        self._live = True
        step: GroupStep = Step(now_ms)
        for group in tuple(self._groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                self._rebalance.restart_session(group, member, now_ms)
            if len(group.members) > self._config.max_size:
                reason = (
                    f"it was loaded with {len(group.members)} members; {self._config.max_size} are allowed"
                )
                self._rebalance.prepare(group, reason, step)
        self._schedule_offsets_check(now_ms)
        return step.ready()

    def resign(self, now_ms: int) -> GroupReady:
        """Another broker coordinates from now on: everybody who waits is sent there. The shard is of no use after."""
        step: GroupStep = Step(now_ms)
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self._rebalance.fail_waiting(
                        group, member, ErrorCode.NOT_COORDINATOR, member.member_id, step
                    )
        return step.ready()

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None


def _refuse_join(request: JoinGroupRequest, code: ErrorCode, token: Token) -> GroupReady:
    return Ready(replies=((token, JoinGroupResponse(error_code=code, member_id=request.member_id)),))


def _delete_error(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, OtherGroup):
        # Its records are not ours to delete: this broker does not serve its protocol.
        return ErrorCode.NON_EMPTY_GROUP if group.has_members else ErrorCode.UNSUPPORTED_VERSION
    match group.state:
        case GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        case GroupState.EMPTY:
            return ErrorCode.NONE
        case _:
            return ErrorCode.NON_EMPTY_GROUP


def _listed(group: Group) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        group_type, state = GroupType.CLASSIC, group.state.value
    else:
        group_type, state = group.group_type, group.state
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=state,
        group_type=group_type,
    )
