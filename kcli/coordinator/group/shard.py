"""One partition of `__consumer_offsets` as a state machine: its groups, their offsets, their timers.

A method takes a request, its token and the time. The token identifies the request in a later reply. The method returns
a `Ready`, which lists what the caller must do (see `coordinator.runtime`). Each type of group has its own rules, called
its protocol (`group/protocol.py`). The shard finds the protocol of the group that a request names. Committed offsets
are the same for all types. Only `replay` and `end_transaction` change them, both in normal running and when the shard
is loaded.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from kcli.coordinator.group.classic.join import Caller, Join, fail_join
from kcli.coordinator.group.classic.protocol import ClassicProtocol
from kcli.coordinator.group.config import ConsumerTimes, GroupConfig
from kcli.coordinator.group.consumer.describe import Description
from kcli.coordinator.group.consumer.protocol import ConsumerProtocol
from kcli.coordinator.group.consumer.targets.sessions import TimesOf
from kcli.coordinator.group.counts import GroupCounts
from kcli.coordinator.group.group_type import GroupType
from kcli.coordinator.group.offsets.deletion import OffsetDeletion, OffsetsDeleted
from kcli.coordinator.group.offsets.expiry import OffsetExpiry
from kcli.coordinator.group.offsets.requests import OffsetProtocol
from kcli.coordinator.group.offsets.table import OffsetTable
from kcli.coordinator.group.other.missing import MissingGroups
from kcli.coordinator.group.other.protocol import OtherProtocol
from kcli.coordinator.group.protocol import Groups, Protocols
from kcli.coordinator.group.records import (
    ConsumerRecord,
    GroupRecord,
    LogRecord,
    OffsetRecord,
    OtherRecord,
)
from kcli.coordinator.group.step import GroupReady, GroupStep, GroupTimers, TimerKind
from kcli.coordinator.group.topics import TopicsView
from kcli.coordinator.runtime import AnswerT, Producer, Step, Token
from kcli.errors import ErrorCode, KafkaError
from kcli.model.ids import NO_PRODUCER_ID
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kcli.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.records.consumer_offsets import ConsumerGroupMetadataValue

NEXT_SLICE_MS = 1
"""The pause between two slices of the search for expired offsets, or of a deletion of offsets. Waiting requests are
served in this pause."""


class Uuids(Protocol):
    """The method of an `Rng` that a shard needs."""

    def uuid(self) -> uuid.UUID: ...


def _default_times(_group_id: str) -> ConsumerTimes:
    return ConsumerTimes()


class GroupShard:
    """The groups of one partition of `__consumer_offsets`. `times_of` is a function that returns the `ConsumerTimes` of
    a consumer group."""

    def __init__(
        self,
        config: GroupConfig,
        rng: Uuids,
        times_of: TimesOf = _default_times,
        counts: GroupCounts | None = None,
    ) -> None:
        self._config = config
        self._counts = counts or GroupCounts()
        self._groups: Groups = {}
        self._timers = GroupTimers()
        self._table = OffsetTable()
        self._classic = ClassicProtocol(config, self._groups, self._timers, rng.uuid, self._counts)
        self._consumer = ConsumerProtocol(
            config, self._groups, self._timers, self._classic, times_of, rng.uuid
        )
        self._other = OtherProtocol(self._groups)
        self._protocols = Protocols(
            self._groups,
            {
                GroupType.CLASSIC: self._classic,
                GroupType.CONSUMER: self._consumer,
                GroupType.SHARE: self._other,
                GroupType.STREAMS: self._other,
            },
            MissingGroups(self._classic),
        )
        self._offsets = OffsetProtocol(config, self._table)
        self._deletion = OffsetDeletion(self._table)
        self._expiry = OffsetExpiry(config, self._groups, self._protocols, self._table)
        self._live = False

    # The consumer protocol

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        token: Token[ConsumerGroupHeartbeatResponse],
        now_ms: int,
    ) -> GroupReady:
        """Serves a ConsumerGroupHeartbeat. Raises KafkaError if the heartbeat is refused."""
        with _whole(now_ms) as step:
            self._consumer.consumer_heartbeat(request, caller, token, step)
        return step.ready()

    def topics_changed(self, topics: TopicsView, names: Iterable[str], *, has_new: bool) -> None:
        """Replaces the topics by the topics in a new metadata image. `names` are the changed topics. `has_new` is True
        if some of these topics are new."""
        self._consumer.topics_changed(topics, names, has_new=has_new)

    def regexes_resolved(
        self, group_id: str, found: Mapping[str, tuple[str, ...]] | None, version: int, now_ms: int
    ) -> GroupReady:
        """Stores the topics that match the expressions of a `ResolveRegexes`. `version` is the version of the metadata
        in which the topics were found. If `found` is None, the search failed."""
        with _whole(now_ms) as step:
            self._consumer.regexes_resolved(group_id, found, version, step)
        return step.ready()

    # The classic protocol, in groups of any type

    def join_group(
        self, request: JoinGroupRequest, caller: Caller, token: Token[JoinGroupResponse], now_ms: int
    ) -> GroupReady:
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return _answered(token, fail_join(request, ErrorCode.INVALID_SESSION_TIMEOUT), now_ms)
        try:
            with _whole(now_ms) as step:
                protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
                join = Join(request, caller, token, protocols)
                self._protocols.requests(request.group_id).join(join, step)
        except KafkaError as error:
            return _answered(token, fail_join(request, error.code), now_ms)
        return step.ready()

    def sync_group(
        self, request: SyncGroupRequest, token: Token[SyncGroupResponse], now_ms: int
    ) -> GroupReady:
        try:
            with _whole(now_ms) as step:
                self._protocols.requests(request.group_id).sync(request, token, step)
        except KafkaError as error:
            return _answered(token, SyncGroupResponse(error_code=error.code), now_ms)
        return step.ready()

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Serves a Heartbeat. Needs no token, because the answer is the return value."""
        try:
            return self._protocols.requests(group_id).heartbeat(
                group_id, member_id, group_instance_id, generation_id, now_ms
            )
        except KafkaError as error:
            return error.code

    def leave_group(
        self, request: LeaveGroupRequest, api_version: int, token: Token[LeaveGroupResponse], now_ms: int
    ) -> GroupReady:
        with _whole(now_ms) as step:
            self._protocols.requests(request.group_id).leave(request, api_version, token, step)
        return step.ready()

    # Offsets

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        api_version: int,
        token: Token[OffsetCommitResponse],
        now_ms: int,
    ) -> GroupReady:
        code = self._protocols.requests(request.group_id).admit_commit(request, api_version, now_ms)
        step: GroupStep = Step(now_ms)
        self._offsets.commit(code, request, token, step)
        self._counts.commits += len(step.records)
        return step.ready()

    def commit_offsets_in_transaction(
        self,
        request: OffsetCommitRequest,
        producer: Producer,
        token: Token[OffsetCommitResponse],
        now_ms: int,
    ) -> GroupReady:
        """Serves TxnOffsetCommit. The checks of the member differ from the checks of OffsetCommit. The offsets stay
        pending until the transaction ends."""
        code = self._protocols.requests(request.group_id).admit_transactional_commit(request)
        step: GroupStep = Step(now_ms, producer)
        self._offsets.commit(code, request, token, step)
        self._counts.commits += len(step.records)
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
        """The committed offsets of a group. A member of a consumer group names its member id and epoch."""
        if member_id is not None or member_epoch >= 0:
            code = self._protocols.requests(group_id).admit_fetch(group_id, member_id or "", member_epoch)
            if code is not ErrorCode.NONE:
                return OffsetFetchResponseGroup(group_id=group_id, error_code=code)
        found = self._offsets.fetch(group_id, topics, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=group_id, topics=found)

    def partitions_with_offsets(self, group_id: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The partitions that a group has offsets for, by topic."""
        return tuple(self._table.topics_of(group_id).items())

    def topics_with_offsets(self, group_id: str) -> tuple[str, ...]:
        """The topics that a group has offsets for."""
        return self._table.topic_names_of(group_id)

    def commits_of(self, group_id: str, topic: str) -> list[tuple[int, int, int]]:
        """The committed offsets of a group for one topic: partition, offset, and time of the commit."""
        return self._table.commits_of(group_id, topic)

    def commit_count(self, group_id: str) -> int:
        """The number of commits of a group since this shard began its work. A commit of several partitions counts once
        for each partition."""
        return self._table.commit_count(group_id)

    def delete_offsets(
        self, request: OffsetDeleteRequest, token: Token[OffsetDeleteResponse], now_ms: int
    ) -> GroupReady:
        step: GroupStep = Step(now_ms)
        self._offsets.delete(self._protocols.of(request.group_id), request, token, step)
        self._counts.deletions += len(step.records)
        return step.ready()

    def delete_topics(self, topics: Collection[str], now_ms: int) -> GroupReady:
        """Deletes the offsets that are committed for deleted topics. If there are many offsets, deletes some of them at
        a time."""
        step: GroupStep = Step(now_ms)
        if self._deletion.begin(frozenset(topics), step):
            self._schedule_deletion(now_ms)
        return step.ready()

    # Groups

    def list_groups(self) -> Iterator[ListedGroup]:
        """The groups, one at a time. The caller may pause between two groups."""
        for group_id in tuple(self._groups):
            protocol = self._protocols.of(group_id)
            if protocol is not None:
                yield protocol.listed(group_id)

    def group_states(self) -> Iterator[tuple[str, str]]:
        """The type and the state of each group. The caller may pause between two groups."""
        for group_id in tuple(self._groups):
            protocol = self._protocols.of(group_id)
            if protocol is not None:
                listed = protocol.listed(group_id)
                yield listed.group_type, listed.group_state

    @property
    def offset_count(self) -> int:
        """The number of committed offsets."""
        return self._table.size

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        return self._classic.describe(group_id, api_version)

    def describe_consumer_group(self, group_id: str) -> Description:
        return self._consumer.describe(group_id)

    def delete_groups(
        self, request: DeleteGroupsRequest, token: Token[DeleteGroupsResponse], now_ms: int
    ) -> GroupReady:
        """Deletes empty groups and their offsets."""
        results = []
        with _whole(now_ms) as step:
            for group_id in request.groups_names:
                code = self._delete_group(group_id, step)
                results.append(DeletableGroupResult(group_id=group_id, error_code=code))
            step.reply(token, DeleteGroupsResponse(results=tuple(results)))
        return step.ready()

    def offset_count_of(self, group_id: str) -> int:
        """The number of committed offsets of a group."""
        return self._table.size_of(group_id)

    def delete_offsets_of_group(
        self, group_id: str, before: int | None, token: Token[OffsetsDeleted], now_ms: int
    ) -> GroupReady:
        """Deletes some offsets of a large group, before the group itself is deleted. In the first call, `before` is
        None. Only the first call checks whether the group may be deleted. If a member joins between two calls, it finds
        no offsets, as after the deletion."""
        step: GroupStep = Step(now_ms)
        code = self._deletion_error(group_id) if before is None else ErrorCode.NONE
        if code is ErrorCode.NONE:
            step.reply(token, self._deletion.delete_of_group(group_id, before, step))
        else:
            step.reply(token, OffsetsDeleted(code))
        return step.ready()

    def _deletion_error(self, group_id: str) -> ErrorCode:
        protocol = self._protocols.of(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if protocol is None else protocol.delete_error(group_id)

    def _delete_group(self, group_id: str, step: GroupStep) -> ErrorCode:
        code = self._deletion_error(group_id)
        protocol = self._protocols.of(group_id)
        if code is ErrorCode.NONE and protocol is not None:
            for record in self._table.tombstones_of_group(group_id):
                step.append(record)
            protocol.bury(group_id, step)
        return code

    # Time

    @property
    def next_deadline_ms(self) -> int | None:
        return self._timers.next_deadline_ms

    def tick(self, now_ms: int) -> GroupReady | None:
        """Does the work of the earliest deadline, if this deadline has passed. Returns None if no deadline has
        passed."""
        key = self._timers.pop_expired(now_ms)
        if key is None:
            return None
        with _whole(now_ms) as step:
            self._expire(*key, step)
        return step.ready()

    def _expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        if kind is TimerKind.OFFSETS_CHECK:
            has_more = self._expiry.expire_slice(step)
            self._counts.expirations += sum(isinstance(each, OffsetRecord) for each in step.records)
            self._schedule_offsets_check(step.now_ms, NEXT_SLICE_MS if has_more else None)
            return
        if kind is TimerKind.OFFSETS_DELETION:
            if self._deletion.delete_slice(step):
                self._schedule_deletion(step.now_ms)
            return
        protocol = self._protocols.of(group_id)
        if protocol is not None:
            protocol.expire(kind, group_id, member_id, step)

    def _schedule_offsets_check(self, now_ms: int, delay_ms: int | None = None) -> None:
        after_ms = self._config.offsets_retention_check_interval_ms if delay_ms is None else delay_ms
        self._timers.schedule((TimerKind.OFFSETS_CHECK, "", ""), now_ms + after_ms)

    def _schedule_deletion(self, now_ms: int) -> None:
        self._timers.schedule((TimerKind.OFFSETS_DELETION, "", ""), now_ms + NEXT_SLICE_MS)

    # The log

    def replay(self, record: LogRecord, log_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Applies a committed record. `producer_id` is given if the record belongs to an open transaction."""
        match record:
            case OffsetRecord():
                self._table.replay(record, log_offset, producer_id)
                if record.committed is not None:
                    self._classic.keep_offsets(record.group_id, record.committed.commit_timestamp)
            case GroupRecord():
                self._classic.replay(record, live=self._live)
            case ConsumerRecord():
                self._consumer.replay(record, live=self._live)
                if self._live and isinstance(record.value, ConsumerGroupMetadataValue):
                    self._counts.consumer_rebalances += 1
            case OtherRecord():
                self._other.replay(record)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self._table.end_transaction(producer_id, committed=committed)

    def start(self, now_ms: int) -> GroupReady:
        """Begins work after the whole log was replayed: starts the sessions of members and shrinks groups that exceed
        the size limit."""
        self._live = True
        self._table.forget_commit_counts()
        step: GroupStep = Step(now_ms)
        for group_id in tuple(self._groups):
            protocol = self._protocols.of(group_id)
            if protocol is not None:
                protocol.start(group_id, step)
        self._schedule_offsets_check(now_ms)
        return step.ready()

    def resign(self, now_ms: int) -> GroupReady:
        """Ends the work of this shard, because another broker becomes the coordinator. Waiting requests get an error
        that makes the clients look for that broker."""
        step: GroupStep = Step(now_ms)
        for group_id in self._groups:
            protocol = self._protocols.of(group_id)
            if protocol is not None:
                protocol.resign(group_id, step)
        return step.ready()


def _answered(token: Token[AnswerT], response: AnswerT, now_ms: int) -> GroupReady:
    step: GroupStep = Step(now_ms)
    step.reply(token, response)
    return step.ready()


@contextlib.contextmanager
def _whole(now_ms: int) -> Iterator[GroupStep]:
    """Yields a `Step` that takes effect completely or not at all. A consumer group changes as soon as records are added
    to the step. If the `with` block raises an error, the records are not written, so the group is restored."""
    step: GroupStep = Step(now_ms)
    try:
        yield step
    except BaseException:
        step.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        raise
