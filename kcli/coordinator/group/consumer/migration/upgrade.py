"""The change to the consumer protocol, when a member of the consumer protocol joins a classic group.

An empty classic group is replaced. A group with members becomes a consumer group with the same members, epoch and
assignments, if `group.consumer.migration.policy` allows this. The members continue to use the classic protocol, and
members that wait for a rebalance are asked to join again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from kcli.coordinator.group.classic.group import ClassicGroup, ClassicMember
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.migration.embedded import by_id
from kcli.coordinator.group.consumer.state.assignment import NOTHING, Assignment, disjoint
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import Writer
from kcli.coordinator.group.consumer.state.member import ConsumerMember, sorted_names
from kcli.coordinator.group.consumer.state.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    group_records,
    member_record,
    target_record,
)
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.topics import TopicsView, metadata_hash
from kcli.errors import CorruptRecordError, ErrorCode, GroupIdNotFoundException
from kcli.protocol.records.consumer_offsets import ClassicMemberMetadata, ClassicProtocol
from kcli.protocol.records.consumer_protocol import check_size, decode_assignment, decode_subscription

_log = logging.getLogger("kcli.coordinator.group")


@dataclass(frozen=True, slots=True)
class UpgradedGroup:
    """The consumer group to which a heartbeat was sent. If this group will replace a classic group, `classic` is the
    classic group."""

    group: ConsumerGroup
    classic: ClassicGroup | None = None


def existing_group(shard: ConsumerShard, group_id: str) -> ConsumerGroup:
    """The consumer group with this id. Raises GROUP_ID_NOT_FOUND if there is no such consumer group."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    reason = "not found" if group is None else "is not a consumer group"
    raise GroupIdNotFoundException(f"Group {group_id} {reason}.")


def find_or_upgrade(shard: ConsumerShard, group_id: str, *, creates: bool) -> UpgradedGroup:
    """Finds the consumer group with this id. If the id belongs to a classic group or to no group, and `creates` is
    True, makes a new consumer group. In all other cases, raises GROUP_ID_NOT_FOUND if there is no such consumer
    group. Nothing changes before `write_upgrade` is called."""
    group = shard.groups.get(group_id)
    if group is None:
        if not creates:
            raise GroupIdNotFoundException(f"Consumer group {group_id} not found.")
        return UpgradedGroup(ConsumerGroup(group_id))
    if not creates or isinstance(group, ConsumerGroup):
        return UpgradedGroup(existing_group(shard, group_id))
    if not isinstance(group, ClassicGroup):
        raise GroupIdNotFoundException(f"Group {group_id} is not a consumer group.")
    if not group.members:  # also if a rebalance is in progress and no member has joined yet
        return UpgradedGroup(ConsumerGroup(group_id), group)
    _check_allowed(shard.config, group)
    return UpgradedGroup(_converted(shard.topics, group), group)


def write_upgrade(shard: ConsumerShard, upgraded: UpgradedGroup, writer: Writer) -> None:
    """Writes the records that replace the classic group by the consumer group. Does nothing if there is no classic
    group."""
    classic, group = upgraded.classic, upgraded.group
    if classic is None:
        return
    step, rebalance = writer.step, shard.classic.rebalance
    for member in classic.members.values():
        rebalance.fail_waiting(classic, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, step)
        rebalance.cancel_session(classic, member.member_id)
    step.append(GroupRecord(group.group_id, None))
    if group.members:
        writer.put(*group_records(group))
        shard.sessions.restart_all(group, step.now_ms)
    _log.info("[GroupId %s] Converted the classic group to a consumer group.", group.group_id)


def _check_allowed(config: GroupConfig, group: ClassicGroup) -> None:
    if not config.migration_policy.allows_upgrade:
        raise _refused(group, "online upgrade is disabled.")
    if not group.is_consumer_protocol:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > config.consumer_max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")


def _converted(topics: TopicsView, classic: ClassicGroup) -> ConsumerGroup:
    group = ConsumerGroup(classic.group_id)
    try:
        members = tuple(_consumer_member(topics, classic, member) for member in classic.members.values())
    except CorruptRecordError:
        raise _refused(classic, "the embedded consumer protocol is malformed.") from None
    # A client's own assignor may have given a partition to several members. Here only the first of these members
    # gets the partition.
    for claimant, assigned in zip(members, disjoint(member.assigned for member in members), strict=True):
        member = replace(claimant, assigned=assigned)
        group.apply(member_record(group.group_id, member))
        group.apply(target_record(group.group_id, member.member_id, member.assigned))
        group.apply(current_record(group.group_id, member))
    topics_hash = metadata_hash(topics, group.subscribed)
    group.apply(epoch_record(group.group_id, classic.generation_id, topics_hash))
    group.apply(assignment_epoch_record(group.group_id, classic.generation_id))
    return group


def _consumer_member(topics: TopicsView, classic: ClassicGroup, member: ClassicMember) -> ConsumerMember:
    embedded = member.metadata_for(classic.protocol_name) or member.protocols[0][1]
    check_size(embedded)
    subscription, _ = decode_subscription(embedded)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=sorted_names(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
            ),
        ),
        epoch=classic.generation_id,
        previous_epoch=classic.generation_id,
        assigned=_assigned(topics, classic, member),
    )


def _assigned(topics: TopicsView, classic: ClassicGroup, member: ClassicMember) -> Assignment:
    if not member.assignment:
        return NOTHING
    check_size(member.assignment)
    assigned, _ = decode_assignment(member.assignment)
    if assigned.user_data:
        raise _refused(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to "
            "a default assignor before re-attempting the upgrade.",
        )
    return by_id(assigned.assigned_partitions, topics)


def _refused(group: ClassicGroup, reason: str) -> GroupIdNotFoundException:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}"
    # The log has the reason, because clients show only the text of the error code.
    _log.warning("%s", message)
    return GroupIdNotFoundException(message)
