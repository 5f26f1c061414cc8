"""Serves JoinGroup, from its first check to its answer: read this module from the top down.

A client sends JoinGroup to become a member of the next generation of a group. The answer contains the generation, and
for the leader a list of all members. So the answer must wait until all members have joined. The way has five stations:

1. `server/handlers/join_group.py` checks the permission and the limits of the request. `ShardRunner.call` then makes
   a future, the token of the request, and calls the shard of the group.
2. `GroupShard.serve` finds the type of the group. For a classic group, and for a group that does not exist, it calls
   `Joins.serve` below. For a consumer group, it calls `join` of consumer/members/classic_members.py.
3. `Joins` decides whether the client may join, whether it is a new or a known member, and whether a rebalance is
   needed. If the member must wait, `ClassicGroup.await_join` stores the token in the member (group.py).
4. `Rebalance` (rebalance.py) runs the join phase. When all members have joined, or when the time for this is over,
   `Rebalance.complete_join` begins the next generation and replies to every stored token.
5. `ShardRunner` sends the replies. A JoinGroup writes a record only if it makes a group, or if a static member
   returns, and these replies wait for the commit. The record of the generation follows when the leader sends SyncGroup
   (membership.py).

KIPs: 62 (rebalance timeout), 345 (static members), 389 (group.max.size), 394 (member id required), 559 (protocol type
in the response), 800 (reasons), 814 (a returning static leader skips the assignment).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.classic.group import ClassicGroup, ClassicMember, GroupState, Protocols
from kcli.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalance
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.classic.requests import JoinCall
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.group_type import ShardParts
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.runtime import Token
from kcli.coordinator.write_errors import write_error
from kcli.errors import (
    ErrorCode,
    InconsistentGroupProtocolException,
    InvalidSessionTimeoutException,
    UnknownMemberIdException,
)
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.records.consumer_offsets import GroupMetadataValue

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup to serve: the request, its client, and the token for the answer (`coordinator.runtime`)."""

    request: JoinGroupRequest
    caller: Caller
    token: Token[JoinGroupResponse]
    protocols: Protocols

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout of the member. Requests of version 0 do not have this field, so the session timeout is
        used (KIP-62)."""
        request = self.request
        return request.rebalance_timeout_ms if self.caller.api_version >= 1 else request.session_timeout_ms

    @property
    def why(self) -> str:
        """The reason that the client gave, for the log (KIP-800)."""
        return f"; client reason: {self.request.reason}" if self.request.reason else ""


def checked_join(call: JoinCall, config: GroupConfig) -> Join:
    """The JoinGroup of a call to a group of any type. Raises INVALID_SESSION_TIMEOUT."""
    request = call.request
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        raise InvalidSessionTimeoutException
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    return Join(request, call.caller, call.token, protocols)


class Joins:
    def __init__(self, parts: ShardParts, rebalance: Rebalance) -> None:
        self._groups = parts.groups
        self._config = parts.config
        self._new_uuid = parts.new_uuid
        self._rebalance = rebalance

    def serve(self, call: JoinCall, step: GroupStep) -> None:
        join = checked_join(call, self._config)
        group = self._groups.get(call.group_id)
        if group is None:
            self.create_group(join, step)
        elif isinstance(group, ClassicGroup):
            self._join(group, join, step)
        else:
            raise InconsistentGroupProtocolException  # a group whose members do not speak the classic protocol

    def create_group(self, join: Join, step: GroupStep) -> None:
        """Creates a group with its first member. Refuses a JoinGroup with a member id, because a group that does not
        exist has no members."""
        group_id = join.request.group_id
        if join.request.member_id:
            raise UnknownMemberIdException
        group = self._groups[group_id] = ClassicGroup(group_id, step.now_ms)
        self._join(group, join, step)
        if not any(isinstance(record, GroupRecord) for record in step.records):
            # With this record, the next coordinator knows the group too.
            newborn = GroupMetadataValue(
                protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms
            )
            step.append(GroupRecord(group_id, newborn))

    def _join(self, group: ClassicGroup, join: Join, step: GroupStep) -> None:
        member_id = join.request.member_id
        if not self._accepts(group, member_id):
            waiting = group.members.get(member_id)
            if waiting is not None:
                self._rebalance.remove_member(group, waiting, step)
            group.remove(member_id)
            _refuse(join, ErrorCode.GROUP_MAX_SIZE_REACHED, "", step)
        elif group.state is GroupState.DEAD:
            _refuse(join, ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, step)
        elif not group.supports_protocols(join.request.protocol_type, join.protocols):
            _refuse(join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id, step)
        elif not member_id:
            self._join_new(group, join, step)
        else:
            self._join_known(group, join, step)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group has room for a member (KIP-389). In the join phase, only the members that have already
        joined again are counted. So if the limit was lowered, the members that join last are refused."""
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                waits = member is not None and member.join_token is not None
                return waits or group.awaiting_join_count < self._config.max_size
            case _:
                return member is not None or len(group.members) < self._config.max_size

    # A member without an id

    def _join_new(self, group: ClassicGroup, join: Join, step: GroupStep) -> None:
        request = join.request
        instance_id = request.group_instance_id
        prefix = join.caller.client_id if instance_id is None else instance_id
        new_id = f"{prefix}-{self._new_uuid()}"
        replaced_id = group.static_member_id(instance_id)
        if replaced_id is not None:
            assert instance_id is not None
            self._replace_static(group, join, instance_id, replaced_id, new_id, step)
        # If a client lost the answer to its first JoinGroup, it would join again as another member. So it gets its id
        # before it is a member, and repeats the request with this id (KIP-394).
        elif instance_id is None and join.caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
            group.pending_joins[new_id] = None
            self._rebalance.schedule_session(group, new_id, step.now_ms + request.session_timeout_ms)
            _refuse(join, ErrorCode.MEMBER_ID_REQUIRED, new_id, step)
        else:
            self._add(group, join, new_id, step)

    def _add(self, group: ClassicGroup, join: Join, member_id: str, step: GroupStep) -> None:
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=join.request.group_instance_id,
            client_id=join.caller.client_id,
            client_host=join.caller.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.request.session_timeout_ms,
            protocols=join.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True  # prolongs the initial delay
        group.add(member, join.request.protocol_type, join.token)
        # A new member sends no heartbeat before it has the answer to its JoinGroup, so its session time does not apply
        # yet.
        self._rebalance.schedule_session(group, member_id, step.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance.rebalance_or_complete_join(group, f"adding new member {member_id}{join.why}", step)

    # A static member that came back without its id

    def _replace_static(
        self, group: ClassicGroup, join: Join, instance_id: str, old_id: str, new_id: str, step: GroupStep
    ) -> None:
        old_leader = group.leader_id or ""
        member = group.members[old_id]
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        # Two processes may have the same instance id by mistake. The older one gets an error, so that only one process
        # reads the partitions (KIP-345).
        self._rebalance.fail_waiting(group, member, ErrorCode.FENCED_INSTANCE_ID, old_id, step)
        self._rebalance.cancel_session(group, old_id)
        group.rename_static(instance_id, old_id, new_id)
        self._update(group, member, join, step)
        self._rebalance.restart_session(group, member, step.now_ms)
        match group.state:
            # The member has its old assignment again, so its restart causes no rebalance (KIP-345). The write makes the
            # new member id known to the next coordinator.
            case GroupState.STABLE if group.select_protocol() == group.protocol_name:
                step.append(GroupRecord(group.group_id, group.to_metadata(_assignments(group))))
                step.when_written(
                    lambda code, then: self._static_written(
                        group, join, member, old_leader, old_id, before, code, then
                    )
                )
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                # In CompletingRebalance the leader may already have assigned partitions to the old member id. So a new
                # rebalance is necessary.
                self._rebalance.prepare(
                    group, f"static member {instance_id} returned as {new_id}{join.why}", step
                )
            case GroupState.PREPARING_REBALANCE:
                self._rebalance.maybe_complete_join(group, step)
            case _:
                raise AssertionError(f"{group.state} group {group.group_id!r} has a static member")

    def _static_written(
        self,
        group: ClassicGroup,
        join: Join,
        member: ClassicMember,
        old_leader: str,
        old_id: str,
        before: tuple[Protocols, int, int],
        code: ErrorCode,
        step: GroupStep,
    ) -> None:
        """Answers a returning static member after the write of its new member id. If the write failed, the old member
        id is restored."""
        if member.join_token is not join.token:
            # The request was already answered, because the member left or joined again, or a rebalance ended. In the
            # last case, the member knows its new id, so unlike in Kafka, this id stays valid if the write failed.
            return
        if code is not ErrorCode.NONE:
            protocols, rebalance_timeout_ms, session_timeout_ms = before
            self._rebalance.fail_waiting(group, member, write_error(code), "", step)
            self._rebalance.cancel_session(group, member.member_id)
            group.update(
                member,
                protocols,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
            )
            assert member.group_instance_id is not None
            group.rename_static(member.group_instance_id, member.member_id, old_id)
            self._rebalance.restart_session(group, member, step.now_ms)
            return
        group.await_join(member, None)
        self._rebalance.restart_session(group, member, step.now_ms)
        step.reply(join.token, self._returning_static(group, join, member, old_leader))

    def _returning_static(
        self, group: ClassicGroup, join: Join, member: ClassicMember, old_leader: str
    ) -> JoinGroupResponse:
        leads = group.leader_id == member.member_id
        skips = join.caller.api_version >= SKIP_ASSIGNMENT_VERSION
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            # An old client does not know the field skipAssignment. The answer to this client names its former member id
            # as the leader, so the client does not compute an assignment.
            leader=(group.leader_id or "") if skips else old_leader,
            skip_assignment=skips and leads,
            member_id=member.member_id,
            members=group.joined_members() if skips and leads else (),
        )

    # A member with an id

    def _join_known(self, group: ClassicGroup, join: Join, step: GroupStep) -> None:
        request = join.request
        if request.member_id in group.pending_joins:
            if request.group_instance_id is not None:
                # Only dynamic members get a member id before they join.
                _refuse(join, ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id, step)
            else:
                self._add(group, join, request.member_id, step)
            return
        code = group.validate_member(request.member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            _refuse(join, code, request.member_id, step)
            return
        member = group.members[request.member_id]
        if self._changes_nothing(group, member, join.protocols):
            # Most likely the member never received the answer to its last JoinGroup.
            with_members = group.state is GroupState.COMPLETING_REBALANCE
            response = self._rebalance.current_generation(group, member, with_members=with_members)
            step.reply(join.token, response)
            return
        self._update(group, member, join, step)
        reason = f"member {member.member_id} rejoining{join.why}"
        self._rebalance.rebalance_or_complete_join(group, reason, step)

    def _changes_nothing(self, group: ClassicGroup, member: ClassicMember, protocols: Protocols) -> bool:
        match group.state:
            case GroupState.COMPLETING_REBALANCE:
                return member.protocols == protocols
            case GroupState.STABLE:
                # The leader joins again if it wants a new assignment, because its topics have changed.
                return group.leader_id != member.member_id and member.protocols == protocols
            case _:
                return False

    def _update(self, group: ClassicGroup, member: ClassicMember, join: Join, step: GroupStep) -> None:
        group.update(
            member,
            join.protocols,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.request.session_timeout_ms,
        )
        superseded = group.await_join(member, join.token)
        if superseded is not None:
            # An older request of the same member still waits. The member most likely closed the connection of that
            # request.
            code = ErrorCode.REBALANCE_IN_PROGRESS
            step.reply(superseded, JoinGroupResponse(error_code=code, member_id=member.member_id))


def _assignments(group: ClassicGroup) -> dict[str, bytes]:
    return {member.member_id: member.assignment for member in group.members.values()}


def _refuse(join: Join, code: ErrorCode, member_id: str, step: GroupStep) -> None:
    step.reply(join.token, JoinGroupResponse(error_code=code, member_id=member_id))
