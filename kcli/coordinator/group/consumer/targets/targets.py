"""Computes the targets of members from their subscriptions: raises the group epoch, assigns, reconciles."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.assignors.table import ASSIGNORS, GroupSpec
from kcli.coordinator.group.consumer.resolve_regexes import ResolveRegexes
from kcli.coordinator.group.consumer.state.assignment import NOTHING, Assignment
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import Writer
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    partition_metadata_tombstone,
    target_record,
)
from kcli.coordinator.group.consumer.targets.reconciliation import reconcile
from kcli.coordinator.group.consumer.targets.regexes import RegexChange, Regexes
from kcli.coordinator.group.consumer.targets.sessions import ConsumerSessions
from kcli.coordinator.group.topics import TopicsView, metadata_hash

_log = logging.getLogger("kcli.coordinator.group")


class Targets:
    """Keeps the targets of consumer groups up to date. `topics` are the topics of the present metadata."""

    def __init__(
        self,
        config: GroupConfig,
        sessions: ConsumerSessions,
        regexes: Regexes,
        topics: Callable[[], TopicsView],
    ) -> None:
        self._config = config
        self._sessions = sessions
        self._regexes = regexes
        self._topics = topics

    def update_member(self, writer: Writer, before: ConsumerMember, after: ConsumerMember) -> bool:
        """Saves a new or changed member, and updates the group epoch and the targets. Returns whether the member's
        subscription has changed."""
        group = writer.group
        is_new = after.member_id not in group.members
        if is_new or after != before:
            self.save_member(writer, after)
        names_changed = before.topic_names != after.topic_names
        regex_change = self._regexes.update(writer, before, after)
        # A regular expression that is new to the group changes the targets only when it has been resolved.
        raises_epoch = group.epoch == 0 or names_changed or regex_change is RegexChange.RESOLVED
        self.refresh(writer, raises_epoch=raises_epoch)
        return names_changed or regex_change is not RegexChange.NONE

    def save_member(self, writer: Writer, member: ConsumerMember) -> None:
        record = member_record(writer.group.group_id, member)
        writer.put(record.key, record.value)

    def refresh(self, writer: Writer, *, raises_epoch: bool) -> None:
        """Raises the group epoch if `raises_epoch` is True or if the topics have changed. Computes targets for the new
        epoch."""
        group = writer.group
        if raises_epoch or group.metadata_is_stale:
            self.raise_epoch(writer, always=raises_epoch)
        if group.epoch > group.assignment_epoch:
            self._assign(writer)

    def raise_epoch(self, writer: Writer, *, always: bool) -> None:
        group = writer.group
        found = metadata_hash(self._topics(), group.subscribed)
        if always or found != group.metadata_hash:
            record = epoch_record(group.group_id, group.epoch + 1, found)
            writer.put(record.key, record.value)
            # Logged at DEBUG, like the targets below, because each member that joins causes both lines.
            _log.debug(
                "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
                group.group_id,
                group.epoch,
                found,
            )
        if group.has_partition_metadata:
            writer.put_all((partition_metadata_tombstone(group.group_id),))
        group.metadata_is_stale = False

    def _assign(self, writer: Writer) -> None:
        group = writer.group
        name = group.preferred_assignor()
        if name not in self._config.consumer_assignors:
            name = self._config.consumer_assignors[0]  # no member asks for a known assignor
        targets = ASSIGNORS[name](self._spec(group))
        for member_id in group.members:
            target = targets.get(member_id, NOTHING)
            known = group.targets.get(member_id)
            if target is not known and target != known:
                writer.put_all((target_record(group.group_id, member_id, target),))
        writer.put_all((assignment_epoch_record(group.group_id, group.epoch),))
        _log.debug(
            "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
            group.group_id,
            group.epoch,
            name,
        )

    def _spec(self, group: ConsumerGroup) -> GroupSpec:
        topics = self._topics()
        known = {name: topics.topic(name) for name in topics.existing(group.subscribed)}
        counts: dict[uuid.UUID, int] = {
            topic.topic_id: topic.partition_count for topic in known.values() if topic is not None
        }
        ids_of: dict[tuple[str, ...], tuple[uuid.UUID, ...]] = {}
        members = {}
        for member in group.members.values():
            names = group.names_of(member)
            if names not in ids_of:
                found = [known[name] for name in names if name in known]
                ids_of[names] = tuple(topic.topic_id for topic in found if topic is not None)
            members[member.member_id] = Subscriber(
                member.instance_id, ids_of[names], group.target_of(member.member_id)
            )
        return GroupSpec(members, counts, group.is_homogeneous)

    def reconcile(self, writer: Writer, member_id: str, owned: Assignment | None) -> ConsumerMember:
        """Moves a member one step towards its target. Returns the member after the step."""
        group = writer.group
        member = group.members[member_id]
        after = reconcile(member, group.assignment_epoch, group.target_of(member_id), owned, group.owners_of)
        if after == member:
            return member
        record = current_record(group.group_id, after)
        writer.put(record.key, record.value)
        self._sessions.watch_revocation(group, after, writer.step.now_ms)
        return after

    def regexes_due(self, group: ConsumerGroup, now_ms: int) -> ResolveRegexes | None:
        return self._regexes.resolution_due(group, self._topics(), now_ms)
