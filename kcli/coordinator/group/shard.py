"""One partition of `__consumer_offsets` as a state machine: its groups, their offsets, their timers.

A call takes a message, the token of its request and the time, and returns a `Ready` (see `coordinator.runtime` for what
the shell owes it). Offsets change by `replay` alone, live and on loading. The members of a classic group are soft
state, as in Kafka: they move as requests come, a record of them is written when a generation has its assignment or the
group becomes empty, and it is read back only on loading. So a live replay of a group record adds nothing; of a
tombstone it removes the group. A consumer group changes as its records are written (`consumer/log.py` says why).

A call of the consumer protocol may raise a KafkaError, which is its answer; nothing has changed then.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.classic.join import Caller, Join, JoinProtocol
from kcli.coordinator.group.classic.membership import MembershipProtocol, leave_unknown_group
from kcli.coordinator.group.classic.rebalance import Rebalance
from kcli.coordinator.group.config import ConsumerTimes, GroupConfig
from kcli.coordinator.group.consumer.protocol import ConsumerProtocol
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.records import group_tombstones
from kcli.coordinator.group.consumer.targets.sessions import TimesOf
from kcli.coordinator.group.directory import GroupDirectory
from kcli.coordinator.group.groups import Groups
from kcli.coordinator.group.offsets.requests import OffsetProtocol, member_epoch_error
from kcli.coordinator.group.offsets.table import NO_PRODUCER_ID, OffsetTable
from kcli.coordinator.group.other.group import OtherGroup, type_of_key
from kcli.coordinator.group.records import (
    ConsumerRecord,
    GroupRecord,
    LogRecord,
    OffsetRecord,
    OtherRecord,
)
from kcli.coordinator.group.step import GroupReady, GroupStep, GroupTimers, TimerKind
from kcli.coordinator.group.topics import Topics
from kcli.coordinator.runtime import Producer, Step, Token
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages import consumer_group_describe as cgd
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kcli.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.records.consumer_offsets import GroupMetadataValue

NEXT_SLICE_MS = 1
"""Between two slices of the search for old offsets: time enough for whoever waits."""


class Uuids(Protocol):
    """The part of an `Rng` that a shard needs."""

    def uuid(self) -> uuid.UUID: ...


def _default_times(_group_id: str) -> ConsumerTimes:
    return ConsumerTimes()


class GroupShard:
    """`times_of`: what a consumer group is configured to, by its id."""

    def __init__(self, config: GroupConfig, rng: Uuids, times_of: TimesOf = _default_times) -> None:
        self._config = config
        self._groups: Groups = {}
        self._timers = GroupTimers()
        self._table = OffsetTable()
        self._rebalance = Rebalance(config, self._timers)
        self._joins = JoinProtocol(config, self._rebalance, rng.uuid)
        self._membership = MembershipProtocol(self._rebalance)
        self._offsets = OffsetProtocol(config, self._table, self._rebalance)
        self._consumers = ConsumerProtocol(
            config, self._groups, self._timers, self._rebalance, times_of, rng.uuid
        )
        self._directory = GroupDirectory(
            config,
            self._groups,
            self._table,
            self._offsets,
            self._consumers.log,
            lambda: self._consumers.topics,
        )
        self._live = False

    # The consumer protocol

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        token: Token[ConsumerGroupHeartbeatResponse],
        now_ms: int,
    ) -> GroupReady:
        """ConsumerGroupHeartbeat; raises KafkaError where it is refused."""
        with _whole(now_ms) as step:
            self._consumers.heartbeats.heartbeat(request, caller, token, step)
        return step.ready()

    def topics_changed(self, topics: Topics, names: Iterable[str], *, has_new: bool) -> None:
        """`names`: of the topics that are not what they were; `has_new`: some did not exist before."""
        self._consumers.topics_changed(topics, names, has_new=has_new)

    def regexes_resolved(
        self, group_id: str, found: Mapping[str, tuple[str, ...]] | None, version: int, now_ms: int
    ) -> GroupReady:
        """The answer to a `ResolveRegexes`, from the topics of the image of this version; None: it failed."""
        with _whole(now_ms) as step:
            self._consumers.regexes_resolved(group_id, found, version, step)
        return step.ready()

    # The classic protocol, in groups of either

    def join_group(
        self, request: JoinGroupRequest, caller: Caller, token: Token[JoinGroupResponse], now_ms: int
    ) -> GroupReady:
        step: GroupStep = Step(now_ms)
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return _refuse_join(request, ErrorCode.INVALID_SESSION_TIMEOUT, token, now_ms)
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        join = Join(request, caller, token, protocols)
        group = self._groups.get(request.group_id)
        if isinstance(group, OtherGroup):
            return _refuse_join(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, token, now_ms)
        if isinstance(group, ConsumerGroup) and group.members:
            try:
                with _whole(now_ms) as step:
                    self._consumers.classic_members.join(group, join, step)
            except KafkaError as error:
                return _refuse_join(request, error.code, token, now_ms)
            return step.ready()
        is_new = not isinstance(group, ClassicGroup)
        if not isinstance(group, ClassicGroup):
            if request.member_id:
                return _refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID, token, now_ms)
            if group is not None:
                # Its protocol does not matter any more.
                self._consumers.log.writer(group, step).put_all(tuple(group_tombstones(group)))
            group = self._groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
        self._joins.join(group, join, step)
        if is_new and not any(isinstance(record, GroupRecord) for record in step.records):
            # The group exists from now on, also for a coordinator that takes over.
            newborn = GroupMetadataValue(
                protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms
            )
            step.append(GroupRecord(request.group_id, newborn))
        return step.ready()

    def sync_group(
        self, request: SyncGroupRequest, token: Token[SyncGroupResponse], now_ms: int
    ) -> GroupReady:
        group = self._groups.get(request.group_id)
        step: GroupStep = Step(now_ms)
        match group:
            case ClassicGroup():
                self._membership.sync(group, request, token, step)
            case ConsumerGroup():
                try:
                    self._consumers.classic_members.sync(group, request, token, step)
                except KafkaError as error:
                    step.reply(token, SyncGroupResponse(error_code=error.code))
            case _:
                step.reply(token, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return step.ready()

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Answered at once and never written, so there is no token."""
        group = self._groups.get(group_id)
        match group:
            case ClassicGroup():
                return self._membership.heartbeat(group, member_id, group_instance_id, generation_id, now_ms)
            case ConsumerGroup():
                try:
                    return self._consumers.classic_members.heartbeat(
                        group, member_id, group_instance_id, generation_id, now_ms
                    )
                except KafkaError as error:
                    return error.code
            case _:
                return ErrorCode.UNKNOWN_MEMBER_ID

    def leave_group(
        self, request: LeaveGroupRequest, api_version: int, token: Token[LeaveGroupResponse], now_ms: int
    ) -> GroupReady:
        group = self._groups.get(request.group_id)
        step: GroupStep = Step(now_ms)
        match group:
            case ClassicGroup():
                self._membership.leave(group, request, api_version, token, step)
            case ConsumerGroup():
                with _whole(now_ms) as step:
                    self._consumers.classic_members.leave(group, request, api_version, token, step)
            case _:
                step.reply(token, leave_unknown_group(request, api_version))
        return step.ready()

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int, token: Token[OffsetCommitResponse], now_ms: int
    ) -> GroupReady:
        step: GroupStep = Step(now_ms)
        self._offsets.commit(self._groups.get(request.group_id), request, api_version, token, step)
        return step.ready()

    def commit_offsets_in_transaction(
        self,
        request: OffsetCommitRequest,
        producer: Producer,
        token: Token[OffsetCommitResponse],
        now_ms: int,
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
        """Committed offsets. Only groups of the newer protocols look at who asks."""
        group = self._groups.get(group_id)
        code = ErrorCode.NONE
        if member_id is not None or member_epoch >= 0:
            if isinstance(group, ConsumerGroup):
                code = member_epoch_error(group, member_id or "", member_epoch)
            elif isinstance(group, OtherGroup):
                code = ErrorCode.UNKNOWN_MEMBER_ID
        if code is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=code)
        found = self._offsets.fetch(group_id, topics, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=group_id, topics=found)

    def delete_offsets(
        self, request: OffsetDeleteRequest, token: Token[OffsetDeleteResponse], now_ms: int
    ) -> GroupReady:
        step: GroupStep = Step(now_ms)
        self._offsets.delete(self._groups.get(request.group_id), request, token, step)
        return step.ready()

    def delete_topics(self, topics: Collection[str], now_ms: int) -> GroupReady:
        """Topics are gone, and with them every offset committed for them."""
        step: GroupStep = Step(now_ms)
        for record in self._table.tombstones_of_topics(topics):
            step.append(record)
        return step.ready()

    # Groups

    def list_groups(self) -> tuple[ListedGroup, ...]:
        return self._directory.list_groups()

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        return self._directory.describe_classic(group_id, api_version)

    def describe_consumer_group(self, group_id: str) -> cgd.DescribedGroup:
        return self._directory.describe_consumer(group_id)

    def delete_groups(
        self, request: DeleteGroupsRequest, token: Token[DeleteGroupsResponse], now_ms: int
    ) -> GroupReady:
        step: GroupStep = Step(now_ms)
        self._directory.delete_groups(request, token, step)
        return step.ready()

    # Time

    @property
    def next_deadline_ms(self) -> int | None:
        return self._timers.next_deadline_ms

    def tick(self, now_ms: int) -> GroupReady | None:
        """Acts on the deadline that passed first; None if none has passed."""
        key = self._timers.pop_expired(now_ms)
        if key is None:
            return None
        with _whole(now_ms) as step:
            self._expire(*key, step)
        return step.ready()

    def _expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        if kind is TimerKind.OFFSETS_CHECK:
            has_more = self._directory.expire_offsets(step)
            self._schedule_offsets_check(step.now_ms, NEXT_SLICE_MS if has_more else None)
            return
        match self._groups.get(group_id):
            case ClassicGroup() as group:
                self._expire_classic(kind, group, member_id, step)
            case ConsumerGroup() as group:
                if kind not in (TimerKind.JOIN, TimerKind.SYNC):  # those of the classic group it once was
                    self._consumers.expire(kind, group, member_id, step)

    def _expire_classic(self, kind: TimerKind, group: ClassicGroup, member_id: str, step: GroupStep) -> None:
        match kind:
            case TimerKind.SESSION:
                self._rebalance.expire_session(group, member_id, step)
            case TimerKind.JOIN:
                self._rebalance.expire_join(group, step)
            case TimerKind.SYNC:
                self._rebalance.expire_sync(group, step)

    def _schedule_offsets_check(self, now_ms: int, delay_ms: int | None = None) -> None:
        after_ms = self._config.offsets_retention_check_interval_ms if delay_ms is None else delay_ms
        self._timers.schedule((TimerKind.OFFSETS_CHECK, "", ""), now_ms + after_ms)

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
            case ConsumerRecord():
                self._consumers.log.replay(record, live=self._live)
            case OtherRecord():
                self._replay_other(record)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self._table.end_transaction(producer_id, committed=committed)

    def _replay_group(self, record: GroupRecord) -> None:
        known = self._groups.get(record.group_id)
        if record.metadata is None:
            # In a live group's way it is old: the group has changed its protocol, maybe there and back.
            if isinstance(known, ClassicGroup) and (not self._live or known.state is GroupState.DEAD):
                self._rebalance.forget(known)
                del self._groups[record.group_id]
        elif not self._live or not isinstance(known, ClassicGroup | ConsumerGroup):
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
        self._consumers.start(now_ms)
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


@contextlib.contextmanager
def _whole(now_ms: int) -> Iterator[GroupStep]:
    """A step that is done or not. A consumer group changes as its records are written, so should we fail in the middle
    of them, the group goes back, or no later write of it would be understood."""
    step: GroupStep = Step(now_ms)
    try:
        yield step
    except BaseException:
        step.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        raise


def _refuse_join(
    request: JoinGroupRequest, code: ErrorCode, token: Token[JoinGroupResponse], now_ms: int
) -> GroupReady:
    step: GroupStep = Step(now_ms)
    step.reply(token, JoinGroupResponse(error_code=code, member_id=request.member_id))
    return step.ready()
