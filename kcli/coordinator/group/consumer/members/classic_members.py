"""Members of the classic protocol in a consumer group, while the group changes its protocol (KIP-848).

These members do not notice that they are in a consumer group. A JoinGroup has the effect of a ConsumerGroupHeartbeat
with all fields. Its answer never makes the member the leader, because the coordinator computes the assignment, which is
in the answer to SyncGroup. If
the member must give up partitions or gets new partitions, the answer to its Heartbeat makes the member join again. The
generation of the member is its member epoch. If a function of this module raises KafkaError, the group has not changed.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from kcli.coordinator.group.classic.join import MEMBER_ID_REQUIRED_VERSION, Join, checked_join
from kcli.coordinator.group.classic.membership import leaving, reply_to_leave
from kcli.coordinator.group.classic.requests import JoinCall, LeaveCall, SyncCall
from kcli.coordinator.group.consumer.members.departure import remove_members
from kcli.coordinator.group.consumer.members.heartbeat import (
    MatchedMember,
    check_room,
    identified,
    match_member,
    replace_member,
)
from kcli.coordinator.group.consumer.migration.downgrade import downgrade, is_downgrade_due
from kcli.coordinator.group.consumer.migration.embedded import assignment_bytes, by_id
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState, sorted_names
from kcli.coordinator.group.consumer.state.records import group_tombstones
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.consumer.targets.reconciliation import check_state
from kcli.coordinator.group.consumer.targets.targets import reconcile_member, update_member
from kcli.coordinator.group.step import GroupStep
from kcli.errors import (
    CorruptRecordError,
    ErrorCode,
    IllegalGenerationException,
    InconsistentGroupProtocolException,
    KafkaError,
    RebalanceInProgressException,
    UnknownMemberIdException,
)
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.records.consumer_offsets import ClassicMemberMetadata, ClassicProtocol
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    check_size,
    decode_subscription,
)

_log = logging.getLogger("kcli.coordinator.group")

# JoinGroup


def join(shard: ConsumerShard, call: JoinCall, step: GroupStep) -> None:
    checked = checked_join(call, shard.config)
    group = shard.own(call.group_id)
    if group.members:
        _join_members(shard, group, checked, step)
        return
    if call.request.member_id:
        raise UnknownMemberIdException
    # The group has no members, so a classic group may replace it.
    shard.writer(group, step).put(*group_tombstones(group))
    shard.classic.joins.create_group(checked, step)


def _join_members(shard: ConsumerShard, group: ConsumerGroup, join: Join, step: GroupStep) -> None:
    request = join.request
    is_new = not request.member_id
    member_id = request.member_id or str(shard.new_uuid())
    check_room(shard.config, group, member_id, request.group_instance_id)
    if not _supports(group, request.protocol_type, join):
        raise InconsistentGroupProtocolException(f"Member {member_id}'s protocols are not supported.")
    if is_new and request.group_instance_id is None and join.caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
        response = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        step.reply(join.token, response)
        return
    subscription = _subscription(join, member_id)
    if is_new or request.group_instance_id is None:
        matched = match_member(group, member_id, request.group_instance_id)
    else:
        matched = MatchedMember(identified(group, member_id, request.group_instance_id))
    before = matched.member
    after = _updated(before, join, subscription)
    owned = by_id(subscription.owned_partitions, shard.topics)
    check_state(before, owned)
    replaced = matched.replaces
    downgrades = replaced is not None and is_downgrade_due(shard, group, (replaced.member_id,), joining=1)
    writer = shard.writer(group, step)
    if replaced is not None:
        replace_member(shard, writer, replaced, before)
    changed = update_member(shard, writer, before, after)
    after = reconcile_member(shard, writer, member_id, owned)
    if downgrades:
        downgrade(shard, writer, (), rebalances=changed)
    else:
        shard.sessions.restart(group, after, step.now_ms)
        shard.sessions.joined(group, after, step.now_ms)
    step.reply(join.token, _joined(after))


# SyncGroup


def sync(shard: ConsumerShard, call: SyncCall, step: GroupStep) -> None:
    request = call.request
    group = shard.own(request.group_id)
    member = _member(group, request)
    protocol, embedded = _first_protocol(member)
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise InconsistentGroupProtocolException(
            f"The protocol type {request.protocol_type} from member {member.member_id} request is not equal "
            f"to the group protocol type {CONSUMER_PROTOCOL_TYPE}."
        )
    if request.protocol_name not in (None, protocol):
        raise InconsistentGroupProtocolException(
            f"The protocol name {request.protocol_name} from member {member.member_id} request is not equal "
            f"to the protocol name {protocol} returned in the join response."
        )
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        # The member must give up partitions first. It is asked to join again after that.
        shard.sessions.await_join(group, member, step.now_ms)
        raise RebalanceInProgressException(
            f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should "
            "rejoin to catch up."
        )
    shard.sessions.synced(group, member)
    shard.sessions.restart(group, member, step.now_ms)
    step.reply(
        call.token,
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, shard.topics, embedded),
        ),
    )


# Heartbeat


def heartbeat(shard: ConsumerShard, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    group = shard.own(request.group_id)
    try:
        member = _member(group, request)
    except KafkaError as error:
        return error.code
    shard.sessions.restart(group, member, now_ms)
    can_get_more = member.state is MemberState.UNRELEASED_PARTITIONS and not group.awaits_release(member)
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS or can_get_more:
        shard.sessions.await_join(group, member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _member(group: ConsumerGroup, request: HeartbeatRequest | SyncGroupRequest) -> ConsumerMember:
    member = identified(group, request.member_id, request.group_instance_id)
    if not member.is_classic:
        raise UnknownMemberIdException(f"Member {member.member_id} does not use the classic protocol.")
    if request.generation_id != member.epoch:
        raise IllegalGenerationException(
            f"The request generation id {request.generation_id} is not equal to the member epoch {member.epoch} of "
            f"member {member.member_id}."
        )
    return member


# LeaveGroup


def leave(shard: ConsumerShard, call: LeaveCall, step: GroupStep) -> None:
    """Removes members of both protocols, because an administrator can name members of both protocols in a
    LeaveGroup."""
    group = shard.own(call.group_id)
    gone: dict[str, ConsumerMember] = {}
    results = []
    for identity in leaving(call):
        code = ErrorCode.NONE
        try:
            member = _leaving(group, identity)
            gone[member.member_id] = member
        except KafkaError as error:
            code = error.code
        results.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=code,
            )
        )
    if gone:
        _log.debug("[GroupId %s] %s left through explicit LeaveGroup.", group.group_id, ", ".join(gone))
    remove_members(shard, group, tuple(gone.values()), step)
    reply_to_leave(call, tuple(results), step)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.member_id or identity.group_instance_id is None:
        return identified(group, identity.member_id, identity.group_instance_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise UnknownMemberIdException(f"Instance id {identity.group_instance_id} is unknown.")
    return member


def _supports(group: ConsumerGroup, protocol_type: str, join: Join) -> bool:
    """Whether the new member and all classic members support a common protocol. Without a common protocol, the group
    could not become classic again."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not join.protocols:
        return False
    spoken = [
        frozenset(protocol.name for protocol in member.classic.supported_protocols)
        for member in group.members.values()
        if member.classic is not None
    ]
    return any(all(name in names for names in spoken) for name, _ in join.protocols)


def _subscription(join: Join, member_id: str) -> ConsumerProtocolSubscription:
    """The subscription in the first protocol of the member. Consumers send the same subscription in each protocol."""
    name, embedded = join.protocols[0]
    try:
        check_size(embedded)
        return decode_subscription(embedded)[0]
    except CorruptRecordError:
        raise InconsistentGroupProtocolException(
            f"Member {member_id} sent bytes for protocol {name} that are no subscription of the consumer protocol."
        ) from None


def _updated(
    member: ConsumerMember, join: Join, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    request, caller = join.request, join.caller
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        topic_names=sorted_names(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in join.protocols
            ),
        ),
    )


def _first_protocol(member: ConsumerMember) -> tuple[str, bytes]:
    assert member.classic is not None, f"{member.member_id} does not speak the classic protocol"
    first = member.classic.supported_protocols[0]
    return first.name, first.metadata


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    """The answer to a JoinGroup. The answer names no leader, because the coordinator assigns the partitions."""
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=_first_protocol(member)[0],
        member_id=member.member_id,
    )
