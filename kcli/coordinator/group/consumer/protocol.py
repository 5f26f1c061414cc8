"""The consumer group protocol (KIP-848) as a `GroupProtocol`, made from the other modules of this package.

A consumer group changes when its records are written, before they are committed (`state/log.py` explains why).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping

from kcli.coordinator.group.classic.group import ClassicGroup
from kcli.coordinator.group.classic.join import Caller, Join
from kcli.coordinator.group.classic.protocol import ClassicProtocol
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer import offsets
from kcli.coordinator.group.consumer.describe import Description, described, missing
from kcli.coordinator.group.consumer.members.classic_members import ClassicMembers
from kcli.coordinator.group.consumer.members.departure import Departures
from kcli.coordinator.group.consumer.members.heartbeat import ConsumerHeartbeats
from kcli.coordinator.group.consumer.migration.downgrade import Downgrades
from kcli.coordinator.group.consumer.migration.upgrade import Upgrades
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import ConsumerLog
from kcli.coordinator.group.consumer.state.records import group_tombstones, regex_record
from kcli.coordinator.group.consumer.targets.regexes import Regexes, changed
from kcli.coordinator.group.consumer.targets.sessions import ConsumerSessions, TimesOf
from kcli.coordinator.group.consumer.targets.targets import Targets
from kcli.coordinator.group.protocol import Group, Groups, Retention
from kcli.coordinator.group.records import ConsumerRecord
from kcli.coordinator.group.step import GroupStep, GroupTimers, TimerKind
from kcli.coordinator.group.topics import NoTopics, TopicsView
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode, UnknownMemberIdException
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_log = logging.getLogger("kcli.coordinator.group")


class ConsumerProtocol:
    """The consumer groups of one partition of `__consumer_offsets`. `topics` are the topics in the broker's newest
    metadata image. `topics_changed` replaces these topics."""

    def __init__(
        self,
        config: GroupConfig,
        groups: Groups,
        timers: GroupTimers,
        classic: ClassicProtocol,
        times_of: TimesOf,
        new_uuid: Callable[[], uuid.UUID],
    ) -> None:
        self._groups = groups
        self._config = config
        self._classic = classic
        self._topics: TopicsView = NoTopics()
        self._log = ConsumerLog(groups, self._restored)
        self._sessions = ConsumerSessions(timers, times_of)
        self._regexes = Regexes(config)
        self._targets = Targets(config, self._sessions, self._regexes, self._present_topics)
        downgrades = Downgrades(config, groups, classic.rebalance, self._sessions, self._present_topics)
        self._departures = Departures(self._log, self._sessions, self._targets, downgrades)
        upgrades = Upgrades(config, groups, classic.rebalance, self._sessions, self._present_topics)
        self._heartbeats = ConsumerHeartbeats(
            config,
            self._log,
            self._sessions,
            self._targets,
            self._regexes,
            self._departures,
            upgrades,
            new_uuid,
        )
        self._members = ClassicMembers(
            self._log,
            self._sessions,
            self._targets,
            self._departures,
            downgrades,
            self._heartbeats,
            self._present_topics,
            new_uuid,
        )

    def _present_topics(self) -> TopicsView:
        return self._topics

    def _own(self, group_id: str) -> ConsumerGroup:
        group = self._groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    # ConsumerGroupHeartbeat

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        token: Token[ConsumerGroupHeartbeatResponse],
        step: GroupStep,
    ) -> None:
        """Serves a heartbeat. If this method raises KafkaError, the group has not changed."""
        self._heartbeats.heartbeat(request, caller, token, step)

    # Members of the classic protocol

    def join(self, join: Join, step: GroupStep) -> None:
        group = self._own(join.request.group_id)
        if group.members:
            self._members.join(group, join, step)
            return
        if join.request.member_id:
            raise UnknownMemberIdException
        # The group has no members, so the classic group may replace it.
        self._log.writer(group, step).put_all(tuple(group_tombstones(group)))
        self._classic.found(join, step)

    def sync(self, request: SyncGroupRequest, token: Token[SyncGroupResponse], step: GroupStep) -> None:
        self._members.sync(self._own(request.group_id), request, token, step)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        group = self._own(group_id)
        return self._members.heartbeat(group, member_id, group_instance_id, generation_id, now_ms)

    def leave(
        self,
        request: LeaveGroupRequest,
        api_version: int,
        token: Token[LeaveGroupResponse],
        step: GroupStep,
    ) -> None:
        self._members.leave(self._own(request.group_id), request, api_version, token, step)

    # Offsets

    def admit_commit(self, request: OffsetCommitRequest, api_version: int, _now_ms: int) -> ErrorCode:
        return offsets.commit_error(self._own(request.group_id), request, api_version)

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        return offsets.transactional_commit_error(self._own(request.group_id), request)

    def admit_fetch(self, group_id: str, member_id: str, member_epoch: int) -> ErrorCode:
        return offsets.member_epoch_error(self._own(group_id), member_id, member_epoch)

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._own(group_id).is_subscribed_to(topic)

    def delete_offsets_error(self, _group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    def retention(self, group_id: str) -> Retention | None:
        return Retention(None, is_deserted=not self._own(group_id).members)

    # Groups

    def listed(self, group_id: str) -> ListedGroup:
        group = self._own(group_id)
        return ListedGroup(
            group_id=group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=group.state,
            group_type=group.group_type.value,
        )

    def describe(self, group_id: str) -> Description:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return described(group, self._topics, self._config.consumer_assignors[0])
        return missing(group_id, "not found" if group is None else "is not a consumer group")

    def delete_error(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._own(group_id).members else ErrorCode.NONE

    def bury(self, group_id: str, step: GroupStep) -> None:
        """Deletes a group at once. If the write fails, the group is restored."""
        group = self._own(group_id)
        self._log.writer(group, step).put_all(tuple(group_tombstones(group)))
        del self._groups[group_id]

    # TopicsView

    def topics_changed(self, topics: TopicsView, names: Iterable[str], *, has_new: bool) -> None:
        """Replaces `topics` by the topics in a new metadata image. `names` are the changed topics. A group that
        subscribes to one of these topics checks its topics at the next heartbeat of a member."""
        self._topics = topics
        if has_new:
            self._regexes.new_topics_version = topics.version
        touched = tuple(names)
        if not touched:
            return
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, touched)):
                group.metadata_is_stale = True

    def regexes_resolved(
        self, group_id: str, found: Mapping[str, tuple[str, ...]] | None, version: int, step: GroupStep
    ) -> None:
        """Stores the topics that match the expressions of a `ResolveRegexes`. If `found` is None, the search failed,
        and the group will request the search again."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        group.is_resolving = False
        if found is None:
            group.regexes_failed_ms = step.now_ms
            return
        wanted = {regex: names for regex, names in found.items() if group.subscribers_of(regex)}
        raises_epoch = changed(group, wanted)
        writer = self._log.writer(group, step)
        for regex, names in wanted.items():
            record = regex_record(group_id, regex, names, version=version, timestamp_ms=step.now_ms)
            writer.put(record.key, record.value)
        if wanted:
            self._targets.raise_epoch(writer, always=raises_epoch)

    # Time and the log

    def expire(self, kind: TimerKind, group_id: str, member_id: str, step: GroupStep) -> None:
        self._departures.expire(kind, self._own(group_id), member_id, step)

    def start(self, group_id: str, step: GroupStep) -> None:
        self._sessions.restart_all(self._own(group_id), step.now_ms)

    def resign(self, _group_id: str, _step: GroupStep) -> None:
        """Does nothing, because no request waits in a consumer group: heartbeats are answered immediately."""

    def replay(self, record: ConsumerRecord, *, live: bool) -> None:
        self._log.replay(record, live=live)

    def _restored(self, group_id: str, failed: Group | None, step: GroupStep) -> None:
        """Completes the restoration of a group after a failed write. Answers requests that wait in a classic group with
        an error, and restarts the timers."""
        group = self._groups.get(group_id)
        _log.warning("[GroupId %s] A write failed; the group is back at what is committed.", group_id)
        if isinstance(failed, ClassicGroup) and failed is not group:
            self._classic.fail_waiting(failed, ErrorCode.COORDINATOR_NOT_AVAILABLE, step)
            self._classic.rebalance.forget(failed)
        if isinstance(group, ConsumerGroup):
            self._sessions.restart_all(group, step.now_ms)
        elif isinstance(group, ClassicGroup):
            self._classic.restart_sessions(group, step.now_ms)
