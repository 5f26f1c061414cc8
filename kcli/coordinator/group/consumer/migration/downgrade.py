"""The change to the classic protocol, when the last member of the consumer protocol leaves and classic members remain.

The group becomes a classic group with the same epoch and assignments. Then a rebalance begins, so that a member assigns
the partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from kcli.coordinator.group.classic.group import (
    ClassicGroup,
    ClassicMember,
    GroupState,
)
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.consumer.migration.embedded import assignment_bytes
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import Writer
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.records import group_tombstones
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.topics import TopicsView
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE

_log = logging.getLogger("kcli.coordinator.group")


def is_downgrade_due(
    shard: ConsumerShard, group: ConsumerGroup, leaving: Sequence[str], *, joining: int = 0
) -> bool:
    """Whether the group must become a classic group. This is True if the last members of the consumer protocol
    leave and classic members remain. The migration policy and the size limit must also allow a classic group.
    `joining` is the number of classic members that join at the same time."""
    staying = len(group.members) - len(leaving) + joining
    return (
        0 < staying <= shard.config.max_size
        and group.all_classic_but(leaving)
        and not any(group.members[member_id].is_classic for member_id in leaving)
        and shard.config.migration_policy.allows_downgrade
    )


def downgrade(
    shard: ConsumerShard, writer: Writer, leaving: Collection[str], *, rebalances: bool = True
) -> None:
    """Replaces the consumer group of a writer by a classic group. `leaving` are the members that leave."""
    group, step = writer.group, writer.step
    classic = _converted(shard, group, frozenset(leaving), step.now_ms)
    for member_id in group.members:
        shard.sessions.cancel(group.group_id, member_id)
    writer.put(*group_tombstones(group))
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    step.append(GroupRecord(classic.group_id, classic.to_metadata(assignments)))
    shard.groups[classic.group_id] = classic
    _log.info("[GroupId %s] Converted the consumer group to a classic group.", classic.group_id)
    for member in classic.members.values():
        shard.classic.rebalance.restart_session(classic, member, step.now_ms)
    if rebalances:
        reason = f"Downgrade group {classic.group_id} from consumer to classic"
        shard.classic.rebalance.prepare(classic, reason, step)


def _converted(
    shard: ConsumerShard, group: ConsumerGroup, leaving: frozenset[str], now_ms: int
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation_id = group.epoch
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_classic_member(shard.topics, member), CONSUMER_PROTOCOL_TYPE, None)
    classic.protocol_name = classic.select_protocol()
    classic.previous_state = GroupState.COMPLETING_REBALANCE
    classic.state = GroupState.STABLE
    classic.refresh_subscribed()
    return classic


def _classic_member(topics: TopicsView, member: ConsumerMember) -> ClassicMember:
    classic = member.classic
    assert classic is not None, f"{member.member_id} does not speak the classic protocol"
    protocols = tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols)
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=protocols,
        assignment=assignment_bytes(member.assigned, topics, protocols[0][1]),
    )
