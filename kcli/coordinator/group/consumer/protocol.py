"""The consumer group protocol of a shard in one place: its parts put together, and what happens to it from outside."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping

from kcli.coordinator.group.classic.group import ClassicGroup
from kcli.coordinator.group.classic.rebalance import Rebalance
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.members.classic_members import ClassicMembers
from kcli.coordinator.group.consumer.members.departure import Departures
from kcli.coordinator.group.consumer.members.heartbeat import ConsumerHeartbeats
from kcli.coordinator.group.consumer.migration.downgrade import Downgrades
from kcli.coordinator.group.consumer.migration.upgrade import Upgrades
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import ConsumerLog
from kcli.coordinator.group.consumer.state.records import regex_record
from kcli.coordinator.group.consumer.targets.regexes import Regexes, changed
from kcli.coordinator.group.consumer.targets.sessions import ConsumerSessions, TimesOf
from kcli.coordinator.group.consumer.targets.targets import Targets
from kcli.coordinator.group.groups import Group, Groups
from kcli.coordinator.group.step import GroupStep, GroupTimers, TimerKind
from kcli.coordinator.group.topics import NoTopics, Topics
from kcli.errors import ErrorCode

_log = logging.getLogger("kcli.coordinator.group")


class ConsumerProtocol:
    """`topics`: those of the present metadata; set by `topics_changed`."""

    def __init__(
        self,
        config: GroupConfig,
        groups: Groups,
        timers: GroupTimers,
        rebalance: Rebalance,
        times_of: TimesOf,
        new_uuid: Callable[[], uuid.UUID],
    ) -> None:
        self._groups = groups
        self._rebalance = rebalance
        self.topics: Topics = NoTopics()
        self.log = ConsumerLog(groups, self._restored)
        self._sessions = ConsumerSessions(timers, times_of)
        self._regexes = Regexes(config)
        self._targets = Targets(config, self._sessions, self._regexes, self._present_topics)
        downgrades = Downgrades(config, groups, rebalance, self._sessions, self._present_topics)
        self.departures = Departures(self.log, self._sessions, self._targets, downgrades)
        upgrades = Upgrades(config, groups, rebalance, self._sessions, self._present_topics)
        self.heartbeats = ConsumerHeartbeats(
            config,
            self.log,
            self._sessions,
            self._targets,
            self._regexes,
            self.departures,
            upgrades,
            new_uuid,
        )
        self.classic_members = ClassicMembers(
            self.log,
            self._sessions,
            self._targets,
            self.departures,
            downgrades,
            self.heartbeats,
            self._present_topics,
            new_uuid,
        )

    def _present_topics(self) -> Topics:
        return self.topics

    # Topics

    def topics_changed(self, topics: Topics, names: Iterable[str], *, has_new: bool) -> None:
        """A new image: groups that subscribe any of these look at them at their next heartbeat."""
        self.topics = topics
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
        """What a `ResolveRegexes` came to; None if it failed, and is to be asked again."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        group.is_resolving = False
        if found is None:
            return
        wanted = {regex: names for regex, names in found.items() if group.subscribers_of(regex)}
        raises_epoch = changed(group, wanted)
        writer = self.log.writer(group, step)
        for regex, names in wanted.items():
            record = regex_record(group_id, regex, names, version=version, timestamp_ms=step.now_ms)
            writer.put(record.key, record.value)
        if wanted:
            self._targets.raise_epoch(writer, always=raises_epoch)

    # Time

    def expire(self, kind: TimerKind, group: ConsumerGroup, member_id: str, step: GroupStep) -> None:
        self.departures.expire(kind, group, member_id, step)

    def start(self, now_ms: int) -> None:
        """The log has been read: sessions begin anew."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                self._sessions.restart_all(group, now_ms)

    def _restored(self, group_id: str, failed: Group | None, step: GroupStep) -> None:
        """A write failed and the group is what it was before it."""
        group = self._groups.get(group_id)
        _log.warning("[GroupId %s] A write failed; the group is back at what is committed.", group_id)
        if isinstance(failed, ClassicGroup) and failed is not group:
            for member in failed.members.values():
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                self._rebalance.fail_waiting(failed, member, code, member.member_id, step)
            self._rebalance.forget(failed)
        if isinstance(group, ConsumerGroup):
            self._sessions.restart_all(group, step.now_ms)
        elif isinstance(group, ClassicGroup):
            for member in group.members.values():
                self._rebalance.restart_session(group, member, step.now_ms)
