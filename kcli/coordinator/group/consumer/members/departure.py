"""The end of memberships in a consumer group: members that leave, send no heartbeat in time, or miss another
deadline."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.coordinator.group.consumer.migration.downgrade import downgrade, is_downgrade_due
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState
from kcli.coordinator.group.consumer.state.records import member_tombstones, regex_tombstone
from kcli.coordinator.group.consumer.state.sessions import ConsumerTimer
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.consumer.targets.targets import raise_epoch
from kcli.coordinator.group.step import GroupStep

_log = logging.getLogger("kcli.coordinator.group")

_WHY = {
    ConsumerTimer.SESSION: "the member session expired",
    ConsumerTimer.REVOCATION: "it failed to give up its partitions within the rebalance timeout",
    ConsumerTimer.JOIN: "the classic member failed to join within the rebalance timeout",
    ConsumerTimer.SYNC: "the member failed to sync within timeout",
}


def remove_members(
    shard: ConsumerShard, group: ConsumerGroup, members: Sequence[ConsumerMember], step: GroupStep
) -> None:
    """Removes members. Their partitions are free immediately, and the group epoch increases. If only members of the
    classic protocol remain, the group becomes a classic group."""
    if not members:
        return
    gone = tuple(member.member_id for member in members)
    for member_id in gone:
        shard.sessions.cancel(group.group_id, member_id)
    writer = shard.writer(group, step)
    if is_downgrade_due(shard, group, gone):
        downgrade(shard, writer, gone)
        return
    for member_id in gone:
        writer.put(*member_tombstones(group.group_id, member_id))
    for regex in tuple(group.regexes):
        if not group.subscribers_of(regex):
            writer.put(regex_tombstone(group.group_id, regex))
    raise_epoch(shard, writer, always=True)


def expire_member(
    shard: ConsumerShard, kind: ConsumerTimer, group: ConsumerGroup, member_id: str, step: GroupStep
) -> None:
    """Removes a member that missed a deadline. If the member had to give up partitions by this deadline and gave
    them up in time, it stays in the group."""
    member = group.members.get(member_id)
    if member is None:
        return
    gave_up = member.state is not MemberState.UNREVOKED_PARTITIONS or member.epoch < 0
    if kind is ConsumerTimer.REVOCATION and gave_up:
        return
    _log.debug(
        "[GroupId %s] Member %s fenced from the group because %s.", group.group_id, member_id, _WHY[kind]
    )
    remove_members(shard, group, (member,), step)
