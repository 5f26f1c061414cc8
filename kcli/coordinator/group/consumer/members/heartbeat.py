"""ConsumerGroupHeartbeat, the request by which members take part in the consumer group protocol (KIP-848).

With heartbeats, a member joins, changes its subscription, gives up partitions and leaves. The answer contains the
assignment of the member. After all checks, the coordinator does five things, in this order:

1. save the changes of the member;
2. raise the group epoch if the subscriptions of the group or the subscribed topics changed;
3. compute targets if the group epoch is above the assignment epoch;
4. reconcile the member: move its assignment one step towards its target;
5. restart the session timer of the member.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.members.departure import remove_members
from kcli.coordinator.group.consumer.members.heartbeat_request import (
    check_epoch,
    check_request,
    owned_partitions,
)
from kcli.coordinator.group.consumer.migration.upgrade import existing_group, find_or_upgrade, write_upgrade
from kcli.coordinator.group.consumer.requests import HeartbeatCall
from kcli.coordinator.group.consumer.state.assignment import Assignment
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import Writer
from kcli.coordinator.group.consumer.state.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    sorted_names,
)
from kcli.coordinator.group.consumer.state.records import current_record, member_tombstones, target_record
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.consumer.targets.reconciliation import check_state
from kcli.coordinator.group.consumer.targets.regexes import check_regex, resolution_due
from kcli.coordinator.group.consumer.targets.targets import reconcile_member, save_member, update_member
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.step import GroupStep
from kcli.errors import (
    FencedInstanceIdException,
    GroupMaxSizeReachedException,
    UnknownMemberIdException,
    UnreleasedInstanceIdException,
)
from kcli.model.uuids import uuid_to_text
from kcli.protocol.messages.consumer_group_heartbeat import Assignment as ResponseAssignment
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

_NOT_GIVEN = (None, None, None, None, -1)
"""The values of the fields that a heartbeat leaves out: names, expression, rack, assignor and rebalance timeout."""

_log = logging.getLogger("kcli.coordinator.group")


@dataclass(frozen=True, slots=True)
class MatchedMember:
    """The member that sent a request. If this member takes the place of a static member, `replaces` is that static
    member."""

    member: ConsumerMember
    replaces: ConsumerMember | None = None


def heartbeat(shard: ConsumerShard, call: HeartbeatCall, step: GroupStep) -> None:
    """Serves a heartbeat. If this function raises KafkaError, the group has not changed."""
    request = call.request
    check_request(request, call.caller.api_version, shard.config.consumer_assignors)
    if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        _leave(shard, call, step)
    else:
        _beat(shard, call, step)


# Regular heartbeats


def _beat(shard: ConsumerShard, call: HeartbeatCall, step: GroupStep) -> None:
    request = call.request
    joins = request.member_epoch == 0
    upgraded = find_or_upgrade(shard, request.group_id, creates=joins)
    group = upgraded.group
    member_id = request.member_id or uuid_to_text(shard.new_uuid())
    check_room(shard.config, group, member_id, request.instance_id)
    owned = owned_partitions(request.topic_partitions)
    matched = _match(group, request, member_id, owned)
    before = matched.member
    check_state(before, owned)
    after = _updated(before, request, call.caller)
    check_regex(group, before, after.topic_regex)
    writer = shard.writer(group, step)
    write_upgrade(shard, upgraded, writer)
    if matched.replaces is not None:
        replace_member(shard, writer, matched.replaces, before)
    update_member(shard, writer, before, after)
    after = reconcile_member(shard, writer, after.member_id, owned)
    if before.is_classic:
        # The member no longer has deadlines for joining and syncing.
        shard.sessions.cancel(group.group_id, after.member_id)
    shard.sessions.restart(group, after, step.now_ms)
    resolve = resolution_due(shard, group, step.now_ms)
    if resolve is not None:
        step.send(replace(resolve, visible=call.caller.visible))
    step.reply(call.token, _answer(shard, request, before, after))


def check_room(config: GroupConfig, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Raises KafkaError if the group is full. A static member that restarts needs no room, because it takes its old
    place."""
    if (
        len(group.members) >= config.consumer_max_size
        and member_id not in group.members
        and (instance_id is None or instance_id not in group.static_members)
    ):
        raise GroupMaxSizeReachedException(
            f"The consumer group has reached its maximum capacity of {config.consumer_max_size} members."
        )


def _match(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: Assignment | None,
) -> MatchedMember:
    if request.member_epoch != 0:
        member = identified(group, member_id, request.instance_id)
        check_epoch(member, request.member_epoch, owned)
        return MatchedMember(member)
    matched = match_member(group, member_id, request.instance_id)
    before = matched.replaces
    # A static member announces its restart with the epoch −2. Without this announcement, the earlier process may still
    # read the partitions (KIP-848).
    if before is not None and not before.is_classic and before.epoch != STATIC_LEAVE_EPOCH:
        raise UnreleasedInstanceIdException(
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because "
            f"the instance id is owned by {before.member_id} member."
        )
    return matched


def replace_member(shard: ConsumerShard, writer: Writer, old: ConsumerMember, new: ConsumerMember) -> None:
    """Gives the assignment of the old member id to the new member id, when a static member has restarted."""
    group = writer.group
    target = group.target_of(old.member_id)
    writer.put(*member_tombstones(group.group_id, old.member_id))
    shard.sessions.cancel(group.group_id, old.member_id)
    save_member(writer, new)
    writer.put(target_record(group.group_id, new.member_id, target))
    writer.put(current_record(group.group_id, new))


def _answer(
    shard: ConsumerShard,
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerMember,
    after: ConsumerMember,
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat. The answer has the assignment if the member joins, if the assignment has changed,
    or if the heartbeat is full. A full heartbeat has all fields. A member sends a full heartbeat after an answer
    was lost."""
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    has_assignment = request.member_epoch == 0 or is_full or before.assigned != after.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=shard.sessions.times_of(request.group_id).heartbeat_interval_ms,
        assignment=_response(after.assigned) if has_assignment else None,
    )


# Leaving


def _leave(shard: ConsumerShard, call: HeartbeatCall, step: GroupStep) -> None:
    request = call.request
    group = existing_group(shard, request.group_id)
    member_id = request.member_id
    member = identified(group, member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        _log.debug("[GroupId %s] Static member %s left for a while.", group.group_id, member_id)
        # The member keeps its partitions until it returns or its session ends, so that a restart moves no partition
        # (KIP-848).
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation={})
        shard.writer(group, step).put(current_record(group.group_id, away))
    else:
        _log.debug("[GroupId %s] Member %s left the consumer group.", group.group_id, member_id)
        remove_members(shard, group, (member,), step)
    response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    step.reply(call.token, response)


def identified(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with this member id. If an instance id is given, the member must have this instance id."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise UnknownMemberIdException(f"Member {member_id} is not a member of group {group.group_id}.")
        return member
    holder = group.static_member(instance_id)
    if holder is None:
        raise UnknownMemberIdException(f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise FencedInstanceIdException(
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}."
        )
    return holder


def match_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> MatchedMember:
    """Finds the member that a joining client becomes: the former member with the client's instance id, the member with
    the client's member id, or a new member."""
    holder = group.static_member(instance_id)
    if holder is None:
        return MatchedMember(group.members.get(member_id) or ConsumerMember(member_id=member_id))
    return MatchedMember(replace(holder, member_id=member_id, epoch=0, previous_epoch=0), holder)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """The member with the changes of a heartbeat. Fields that the heartbeat leaves out keep their values."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    if (
        (names, regex, request.rack_id, request.server_assignor, timeout_ms) == _NOT_GIVEN
        and request.instance_id in (None, member.instance_id)
        and (caller.client_id, caller.client_host) == (member.client_id, member.client_host)
        and member.classic is None
    ):
        return member  # nearly every heartbeat changes nothing
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        topic_names=member.topic_names if names is None else sorted_names(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _response(assigned: Assignment) -> ResponseAssignment:
    return ResponseAssignment(
        topic_partitions=tuple(
            ResponseTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in assigned.items()
        )
    )
