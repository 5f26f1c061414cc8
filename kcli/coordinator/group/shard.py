"""One partition of `__consumer_offsets` as a state machine: its groups, their offsets, their timers.

A method takes a request, its token and the time. The token identifies the request in a later reply. The method returns
a `Ready`, which lists what the caller must do (see `coordinator.runtime`). Each type of group is an object with its own
rules (group_type.py). The shard owns the table of groups and the committed offsets, and passes each request, deadline
and record to the type that serves it. Committed offsets are the same for all types. Only `replay` and `end_transaction`
change them, both in normal running and when the shard is loaded.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from kcli.coordinator.group.config import ConsumerTimes, GroupConfig, TimesOf
from kcli.coordinator.group.counts import GroupCounts
from kcli.coordinator.group.group_type import GroupTypeRow, ShardParts
from kcli.coordinator.group.offsets.deletion import OffsetDeletion, OffsetsDeleted
from kcli.coordinator.group.offsets.expiry import OffsetExpiry
from kcli.coordinator.group.offsets.requests import OffsetRequests
from kcli.coordinator.group.offsets.table import OffsetTable
from kcli.coordinator.group.records import LogRecord, OffsetRecord
from kcli.coordinator.group.requests import ArgumentT, Question, Request
from kcli.coordinator.group.step import GroupReady, GroupStep
from kcli.coordinator.group.topics import TopicsView
from kcli.coordinator.group.type_table import TypeTable
from kcli.coordinator.group.types import GROUP_TYPES
from kcli.coordinator.runtime import AnswerT, Producer, Step, Token
from kcli.errors import ErrorCode, KafkaError
from kcli.model.ids import NO_PRODUCER_ID
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kcli.protocol.messages.offset_fetch import OffsetFetchResponseGroup

NEXT_SLICE_MS = 1
"""The pause between two slices of the search for expired offsets, or of a deletion of offsets. Waiting requests are
served in this pause."""


class OffsetTimer(StrEnum):
    """The deadlines of the shard itself. They belong to no group."""

    EXPIRY = "offset expiry"
    """The next search for expired offsets."""
    DELETION = "offset deletion"
    """The next slice of a deletion of offsets."""


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
        types: Sequence[GroupTypeRow] = GROUP_TYPES,
    ) -> None:
        parts = ShardParts(
            config=config, new_uuid=rng.uuid, times_of=times_of, counts=counts or GroupCounts()
        )
        self._config = config
        self._counts = parts.counts
        self._groups = parts.groups
        self._timers = parts.timers
        self._types = TypeTable(types, parts)
        self._table = OffsetTable()
        self._offsets = OffsetRequests(config, self._table)
        self._deletion = OffsetDeletion(self._table)
        self._expiry = OffsetExpiry(config, self._groups, self._types, self._table)
        self._live = False

    # The requests of the types

    def serve(self, request: Request[ArgumentT], argument: ArgumentT, now_ms: int) -> GroupReady:
        """Serves a request about one group, such as JoinGroup. If the request is refused and its kind has no reply for
        this, raises KafkaError."""
        try:
            with _whole(now_ms) as step:
                self._types.serving(request, argument)(argument, step)
        except KafkaError as error:
            if request.refuse is None:
                raise
            step = Step(now_ms)
            request.refuse(argument, error, step)
        return step.ready()

    def ask(self, question: Question[ArgumentT, AnswerT], argument: ArgumentT, now_ms: int) -> AnswerT:
        """Answers a question about one group, such as a Heartbeat."""
        return self._types.answering(question, argument)(argument, now_ms)

    def topics_changed(self, topics: TopicsView, names: Iterable[str], *, has_new: bool) -> None:
        """Replaces the topics by the topics in a new metadata image. `names` are the changed topics. `has_new` is True
        if some of these topics are new."""
        touched = tuple(names)
        for group_type in self._types:
            group_type.topics_changed(topics, touched, has_new=has_new)

    # Offsets

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        api_version: int,
        token: Token[OffsetCommitResponse],
        now_ms: int,
    ) -> GroupReady:
        code = self._types.of_offsets(request.group_id).admit_commit(request, api_version, now_ms)
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
        code = self._types.of_offsets(request.group_id).admit_transactional_commit(request)
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
            code = self._types.of_offsets(group_id).admit_fetch(group_id, member_id or "", member_epoch)
            if code is not ErrorCode.NONE:
                return OffsetFetchResponseGroup(group_id=group_id, error_code=code)
        offsets = self._offsets.fetch(group_id, topics, require_stable=require_stable)
        return OffsetFetchResponseGroup(group_id=group_id, topics=offsets)

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
        self._offsets.delete(self._types.of(request.group_id), request, token, step)
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
        for group_id, group_type in self._types.of_all_groups():
            yield group_type.listed(group_id)

    def group_states(self) -> Iterator[tuple[str, str]]:
        """The type and the state of each group. The caller may pause between two groups."""
        for group_id, group_type in self._types.of_all_groups():
            listed = group_type.listed(group_id)
            yield listed.group_type, listed.group_state

    @property
    def offset_count(self) -> int:
        """The number of committed offsets."""
        return self._table.size

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
        group_type = self._types.of(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if group_type is None else group_type.delete_error(group_id)

    def _delete_group(self, group_id: str, step: GroupStep) -> ErrorCode:
        code = self._deletion_error(group_id)
        group_type = self._types.of(group_id)
        if code is ErrorCode.NONE and group_type is not None:
            for record in self._table.tombstones_of_group(group_id):
                step.append(record)
            group_type.delete(group_id, step)
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

    def _expire(self, kind: StrEnum, group_id: str, member_id: str, step: GroupStep) -> None:
        if kind is OffsetTimer.EXPIRY:
            has_more = self._expiry.expire_slice(step)
            self._counts.expirations += sum(isinstance(record, OffsetRecord) for record in step.records)
            self._schedule_offsets_check(step.now_ms, NEXT_SLICE_MS if has_more else None)
        elif kind is OffsetTimer.DELETION:
            if self._deletion.delete_slice(step):
                self._schedule_deletion(step.now_ms)
        else:
            group_type = self._types.of_timer(kind, group_id)
            if group_type is not None:
                group_type.expire(kind, group_id, member_id, step)

    def _schedule_offsets_check(self, now_ms: int, delay_ms: int | None = None) -> None:
        after_ms = self._config.offsets_retention_check_interval_ms if delay_ms is None else delay_ms
        self._timers.schedule((OffsetTimer.EXPIRY, "", ""), now_ms + after_ms)

    def _schedule_deletion(self, now_ms: int) -> None:
        self._timers.schedule((OffsetTimer.DELETION, "", ""), now_ms + NEXT_SLICE_MS)

    # The log

    def replay(self, record: LogRecord, log_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Applies a committed record. `producer_id` is given if the record belongs to an open transaction."""
        if not isinstance(record, OffsetRecord):
            self._types.of_record(record).replay(record, live=self._live)
            return
        self._table.replay(record, log_offset, producer_id)
        if record.committed is not None and record.group_id not in self._groups:
            group_type = self._types.of_offsets(record.group_id)
            group_type.create_for_offsets(record.group_id, record.committed.commit_timestamp)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self._table.end_transaction(producer_id, committed=committed)

    def start(self, now_ms: int) -> GroupReady:
        """Begins work after the whole log was replayed: starts the sessions of members and shrinks groups that exceed
        the size limit."""
        self._live = True
        self._table.forget_commit_counts()
        step: GroupStep = Step(now_ms)
        for group_id, group_type in self._types.of_all_groups():
            group_type.start(group_id, step)
        self._schedule_offsets_check(now_ms)
        return step.ready()

    def resign(self, now_ms: int) -> GroupReady:
        """Ends the work of this shard, because another broker becomes the coordinator. Waiting requests get an error
        that makes the clients look for that broker."""
        step: GroupStep = Step(now_ms)
        for group_id, group_type in self._types.of_all_groups():
            group_type.resign(group_id, step)
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
