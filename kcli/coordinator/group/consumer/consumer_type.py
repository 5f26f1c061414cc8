"""The consumer type of groups (KIP-848), made from the other modules of this package.

A consumer group changes when its records are written, before they are committed (`state/log.py` explains why).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import StrEnum
from functools import partial

from kcli.coordinator.group.classic.classic_type import ClassicType
from kcli.coordinator.group.classic.group import ClassicGroup
from kcli.coordinator.group.classic.records import CLASSIC_NAME
from kcli.coordinator.group.classic.requests import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from kcli.coordinator.group.consumer import offsets
from kcli.coordinator.group.consumer.describe import Description, described, missing
from kcli.coordinator.group.consumer.members import classic_members
from kcli.coordinator.group.consumer.members.departure import expire_member
from kcli.coordinator.group.consumer.members.heartbeat import heartbeat
from kcli.coordinator.group.consumer.requests import (
    CONSUMER_HEARTBEAT,
    DESCRIBE_CONSUMER_GROUP,
    REGEXES_RESOLVED,
)
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.record import (
    CONSUMER_NAME,
    RECORD_TYPES,
    ConsumerRecord,
    decode_consumer_record,
)
from kcli.coordinator.group.consumer.state.records import group_tombstones
from kcli.coordinator.group.consumer.state.sessions import ConsumerTimer
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.consumer.targets.targets import store_resolved
from kcli.coordinator.group.group_type import Group, GroupType, GroupTypeRow, Retention, ShardParts, serving
from kcli.coordinator.group.records import LogRecord
from kcli.coordinator.group.requests import Describe
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.topics import TopicsView
from kcli.errors import ErrorCode
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.records.consumer_offsets import ConsumerGroupMetadataValue

_log = logging.getLogger("kcli.coordinator.group")


class ConsumerType(GroupType):
    timers = tuple(ConsumerTimer)

    def __init__(self, parts: ShardParts) -> None:
        classic = parts.types[CLASSIC_NAME]
        assert isinstance(classic, ClassicType)
        self._classic = classic
        shard = self._shard = ConsumerShard(parts, classic, self._restored)
        self.requests = serving(
            CONSUMER_HEARTBEAT.by(partial(heartbeat, shard)),
            DESCRIBE_CONSUMER_GROUP.by(self._describe),
            REGEXES_RESOLVED.by(partial(store_resolved, shard)),
            JOIN_GROUP.by(partial(classic_members.join, shard)),
            SYNC_GROUP.by(partial(classic_members.sync, shard)),
            HEARTBEAT.by(partial(classic_members.heartbeat, shard)),
            LEAVE_GROUP.by(partial(classic_members.leave, shard)),
        )

    # Offsets

    def admit_commit(self, request: OffsetCommitRequest, api_version: int, _now_ms: int) -> ErrorCode:
        return offsets.commit_error(self._shard.own(request.group_id), request, api_version)

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        return offsets.transactional_commit_error(self._shard.own(request.group_id), request)

    def admit_fetch(self, group_id: str, member_id: str, member_epoch: int) -> ErrorCode:
        return offsets.member_epoch_error(self._shard.own(group_id), member_id, member_epoch)

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._shard.own(group_id).is_subscribed_to(topic)

    def delete_offsets_error(self, _group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    def retention(self, group_id: str) -> Retention | None:
        return Retention(None, is_deserted=not self._shard.own(group_id).members)

    # Groups

    def listed(self, group_id: str) -> ListedGroup:
        return ListedGroup(
            group_id=group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=self._shard.own(group_id).state,
            group_type=CONSUMER_NAME,
        )

    def _describe(self, question: Describe, _now_ms: int) -> Description:
        group = self._shard.groups.get(question.group_id)
        if isinstance(group, ConsumerGroup):
            return described(group, self._shard.topics, self._shard.config.consumer_assignors[0])
        return missing(question.group_id, "not found" if group is None else "is not a consumer group")

    def delete_error(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._shard.own(group_id).members else ErrorCode.NONE

    def delete(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group at once. If the write fails, the group is restored."""
        group = self._shard.own(group_id)
        self._shard.writer(group, step).put(*group_tombstones(group))
        del self._shard.groups[group_id]

    def topics_changed(self, topics: TopicsView, names: Iterable[str], *, has_new: bool) -> None:
        """Stores the topics. A group that subscribes to one of the changed topics checks its topics at the next
        heartbeat of a member."""
        self._shard.topics = topics
        if has_new:
            self._shard.new_topics_version = topics.version
        touched = tuple(names)
        if not touched:
            return
        for group in self._shard.groups.values():
            if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, touched)):
                group.metadata_is_stale = True

    # Time and the log

    def expire(self, kind: StrEnum, group_id: str, member_id: str, step: GroupStep) -> None:
        assert isinstance(kind, ConsumerTimer)
        expire_member(self._shard, kind, self._shard.own(group_id), member_id, step)

    def start(self, group_id: str, step: GroupStep) -> None:
        self._shard.sessions.restart_all(self._shard.own(group_id), step.now_ms)

    def replay(self, record: LogRecord, *, live: bool) -> None:
        assert isinstance(record, ConsumerRecord)
        self._shard.log.replay(record, live=live)
        if live and isinstance(record.value, ConsumerGroupMetadataValue):
            self._shard.counts.consumer_rebalances += 1

    def _restored(self, group_id: str, failed: Group | None, step: GroupStep) -> None:
        """Completes the restoration of a group after a failed write. Answers requests that wait in a classic group with
        an error, and restarts the timers."""
        group = self._shard.groups.get(group_id)
        _log.warning("[GroupId %s] A write failed; the group is back at what is committed.", group_id)
        if isinstance(failed, ClassicGroup) and failed is not group:
            self._classic.fail_waiting(failed, ErrorCode.COORDINATOR_NOT_AVAILABLE, step)
            self._classic.rebalance.forget(failed)
        if isinstance(group, ConsumerGroup):
            self._shard.sessions.restart_all(group, step.now_ms)
            return
        if isinstance(failed, ConsumerGroup):
            for member_id in failed.members:
                self._shard.sessions.cancel(group_id, member_id)
        if isinstance(group, ClassicGroup):
            self._classic.restart_sessions(group, step.now_ms)
            self._classic.rebalance.restart_phase(group, step.now_ms)


CONSUMER = GroupTypeRow(
    name=CONSUMER_NAME,
    record_types=RECORD_TYPES,
    decode=decode_consumer_record,
    create=ConsumerType,
)
