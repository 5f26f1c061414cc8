"""Computes the targets of members from their subscriptions: raises the group epoch, assigns, reconciles."""

from __future__ import annotations

import logging
import uuid

from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.assignors.table import ASSIGNORS, GroupSpec
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
    regex_record,
    target_record,
)
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.consumer.targets.reconciliation import reconcile
from kcli.coordinator.group.consumer.targets.regexes import (
    RegexChange,
    RegexesResolved,
    changed,
    update_regex,
)
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.topics import TopicsView, metadata_hash

_log = logging.getLogger("kcli.coordinator.group")


def update_member(
    shard: ConsumerShard, writer: Writer, before: ConsumerMember, after: ConsumerMember
) -> bool:
    """Saves a new or changed member, and updates the group epoch and the targets. Returns whether the member's
    subscription has changed."""
    group = writer.group
    is_new = after.member_id not in group.members
    if is_new or after != before:
        save_member(writer, after)
    names_changed = before.topic_names != after.topic_names
    regex_change = update_regex(writer, before, after)
    # A regular expression that is new to the group changes the targets only when it has been resolved.
    raises_epoch = group.epoch == 0 or names_changed or regex_change is RegexChange.RESOLVED
    _refresh(shard, writer, raises_epoch=raises_epoch)
    return names_changed or regex_change is not RegexChange.NONE


def save_member(writer: Writer, member: ConsumerMember) -> None:
    writer.put(member_record(writer.group.group_id, member))


def _refresh(shard: ConsumerShard, writer: Writer, *, raises_epoch: bool) -> None:
    """Raises the group epoch if `raises_epoch` is True or if the topics have changed. Computes targets for the new
    epoch."""
    group = writer.group
    if raises_epoch or group.metadata_is_stale:
        raise_epoch(shard, writer, always=raises_epoch)
    if group.epoch > group.assignment_epoch:
        _assign(shard, writer)


def raise_epoch(shard: ConsumerShard, writer: Writer, *, always: bool) -> None:
    group = writer.group
    new_hash = metadata_hash(shard.topics, group.subscribed)
    if always or new_hash != group.metadata_hash:
        writer.put(epoch_record(group.group_id, group.epoch + 1, new_hash))
        # Logged at DEBUG, like the targets below, because each member that joins causes both lines.
        _log.debug(
            "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
            group.group_id,
            group.epoch,
            new_hash,
        )
    if group.has_partition_metadata:
        writer.put(partition_metadata_tombstone(group.group_id))
    group.metadata_is_stale = False


def _assign(shard: ConsumerShard, writer: Writer) -> None:
    group = writer.group
    name = group.preferred_assignor()
    if name not in shard.config.consumer_assignors:
        name = shard.config.consumer_assignors[0]  # no member asks for a known assignor
    targets = ASSIGNORS[name](_spec(shard.topics, group))
    for member_id in group.members:
        target = targets.get(member_id, NOTHING)
        known = group.targets.get(member_id)
        if target is not known and target != known:
            writer.put(target_record(group.group_id, member_id, target))
    writer.put(assignment_epoch_record(group.group_id, group.epoch))
    _log.debug(
        "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
        group.group_id,
        group.epoch,
        name,
    )


def _spec(topics: TopicsView, group: ConsumerGroup) -> GroupSpec:
    known = {name: topics.topic(name) for name in topics.existing(group.subscribed)}
    counts: dict[uuid.UUID, int] = {
        topic.topic_id: topic.partition_count for topic in known.values() if topic is not None
    }
    ids_of: dict[tuple[str, ...], tuple[uuid.UUID, ...]] = {}
    members = {}
    for member in group.members.values():
        names = group.names_of(member)
        if names not in ids_of:
            existing = [known[name] for name in names if name in known]
            ids_of[names] = tuple(topic.topic_id for topic in existing if topic is not None)
        members[member.member_id] = Subscriber(
            member.instance_id, ids_of[names], group.target_of(member.member_id)
        )
    return GroupSpec(members, counts, group.is_homogeneous)


def reconcile_member(
    shard: ConsumerShard, writer: Writer, member_id: str, owned: Assignment | None
) -> ConsumerMember:
    """Moves a member one step towards its target. Returns the member after the step."""
    group = writer.group
    member = group.members[member_id]
    after = reconcile(member, group.assignment_epoch, group.target_of(member_id), owned, group.owners_of)
    if after == member:
        return member
    writer.put(current_record(group.group_id, after))
    shard.sessions.watch_revocation(group, after, writer.step.now_ms)
    return after


def store_resolved(shard: ConsumerShard, resolved: RegexesResolved, step: GroupStep) -> None:
    """Stores the topics that match the expressions of a group. If the search failed, the group will request the search
    again."""
    group = shard.groups.get(resolved.group_id)
    if not isinstance(group, ConsumerGroup):
        return
    group.is_resolving = False
    if resolved.matches is None:
        group.regexes_failed_ms = step.now_ms
        return
    matches = {regex: names for regex, names in resolved.matches.items() if group.subscribers_of(regex)}
    raises_epoch = changed(group, matches)
    writer = shard.writer(group, step)
    for regex, names in matches.items():
        version, now_ms = resolved.version, step.now_ms
        writer.put(regex_record(group.group_id, regex, names, version=version, timestamp_ms=now_ms))
    if matches:
        raise_epoch(shard, writer, always=raises_epoch)
