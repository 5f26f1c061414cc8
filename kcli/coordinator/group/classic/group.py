"""A classic group: its members, their protocols, its state, and the legal changes of this state.

The life of a group:

    Empty --first member joins--> PreparingRebalance --all have joined--> CompletingRebalance --leader syncs--> Stable
      ^                              |      ^                                |                                  |
      +--------no member joined------+      +-------a member joins, leaves or times out------------------------+

A group that is deleted becomes Dead, from every state. Every time a group reaches CompletingRebalance, a new generation
begins. This module stores the state, and the modules `rebalance`, `join` and `membership` decide when it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kcli.coordinator.group.classic.records import CLASSIC_NAME
from kcli.coordinator.group.classic.subscription import union_of_topics
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.protocol.messages.describe_groups import DescribedGroupMember
from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.records.consumer_offsets import GroupMetadataValue, MemberMetadata

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols of a member: pairs (name, metadata), the member's preferred protocol first."""


class GroupState(Enum):
    """The states of a classic group. The values are the names on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_CAME_FROM: Mapping[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE, GroupState.DEAD),
    GroupState.PREPARING_REBALANCE: (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}
"""For each state, the states from which a group may move to this state. A Dead group becomes Empty only if the write of
its deletion failed."""


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_token: Token[JoinGroupResponse] | None = None
    """The JoinGroup of this member that waits for the end of the join phase. Only `ClassicGroup.await_join` sets it,
    because the group counts these requests."""
    sync_token: Token[SyncGroupResponse] | None = None
    """The SyncGroup of this member that waits for the leader's assignment."""
    is_new: bool = False
    """Whether the member's first JoinGroup is still unanswered, so that the member cannot send heartbeats yet."""

    def metadata_for(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class ClassicGroup:
    """A classic group. Its members are in the order in which they joined. The next leader and the order of all listings
    follow from this order."""

    __slots__ = (
        "_protocol_counts",
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed",
    )

    group_type = CLASSIC_NAME

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, None] = {}
        """The member ids that were sent with MEMBER_ID_REQUIRED and have not joined yet (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        self.awaiting_join_count = 0
        self.subscribed: dict[str, None] | None = None
        """The topics to which members subscribe. None if they are unknown."""
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self._protocol_counts: dict[str, int] = {}

    # Questions

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        return None if group_instance_id is None else self.static_members.get(group_instance_id)

    @property
    def is_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_joins

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. If a subscription cannot be read, every topic counts as
        subscribed."""
        return self.is_consumer_protocol if self.subscribed is None else topic in self.subscribed

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """The error code for a request of this member. The instance id is checked first, so that a static member that
        was replaced gets FENCED_INSTANCE_ID (KIP-345)."""
        if group_instance_id is not None:
            known_id = self.static_members.get(group_instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join. At least one of these protocols must be supported by all
        other members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts.get(name, 0) == count for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Selects a protocol. Each member votes for the first protocol in its list that all members support. The
        protocol with the most votes is selected."""
        count = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name, _ in member.protocols:
                if self._protocol_counts[name] == count:
                    votes[name] = votes.get(name, 0) + 1
                    break
        assert votes, f"members of group {self.group_id!r} share no protocol"
        return max(votes, key=votes.__getitem__)

    def joined_members(self) -> tuple[JoinGroupResponseMember, ...]:
        """All members, as the JoinGroup response to the leader lists them."""
        name = self.protocol_name
        return tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata_for(name),
            )
            for member in self.members.values()
        )

    def described_members(self) -> tuple[DescribedGroupMember, ...]:
        """All members, as the DescribeGroups response lists them. During a rebalance no protocol is selected, so the
        metadata is empty. The assignments are then the assignments of the last generation."""
        stable = self.state is GroupState.STABLE
        return tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(self.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in self.members.values()
        )

    # Moves

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in _CAME_FROM[state], f"group {self.group_id!r}: {self.state} -> {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_syncs.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def refresh_subscribed(self) -> None:
        if not self.members:
            self.subscribed = {}
        elif self.is_consumer_protocol and self.protocol_name is not None:
            name = self.protocol_name
            self.subscribed = union_of_topics(member.metadata_for(name) for member in self.members.values())
        else:
            self.subscribed = None

    def add(
        self, member: ClassicMember, protocol_type: str, join_token: Token[JoinGroupResponse] | None
    ) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count_protocols(member, 1)
        self.pending_joins.pop(member.member_id, None)
        self.await_join(member, join_token)

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending member id. Its waiting requests must already be answered."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        assert member.sync_token is None and member.join_token is None, f"{member_id!r} leaves while waiting"
        self._count_protocols(member, -1)
        if self.static_member_id(member.group_instance_id) == member_id:
            assert member.group_instance_id is not None
            del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def rename_static(self, group_instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Changes the member id of a static member that has restarted. The member keeps its place, its assignment and
        its leadership (KIP-345)."""
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[group_instance_id] = new_id
        if self.pending_syncs.pop(old_id, 0) is None:
            self.pending_syncs[new_id] = None
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def await_join(
        self, member: ClassicMember, token: Token[JoinGroupResponse] | None
    ) -> Token[JoinGroupResponse] | None:
        """Stores the token of the JoinGroup with which the member waits now, or None if the member does not wait.
        Returns the token that was stored before."""
        before = member.join_token
        member.join_token = token
        self.awaiting_join_count += (token is not None) - (before is not None)
        return before

    def elect_joined_leader(self) -> bool:
        """If the leader has not rejoined, elects another leader among the members that have rejoined. Returns False if
        no member has rejoined."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader_id = member.member_id
                return True
        return False

    def _count_protocols(self, member: ClassicMember, step: int) -> None:
        counts = self._protocol_counts
        for name in dict.fromkeys(name for name, _ in member.protocols):
            counts[name] = counts.get(name, 0) + step

    # To and from the log

    def to_metadata(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata_for(self.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def from_metadata(cls, group_id: str, metadata: GroupMetadataValue) -> ClassicGroup:
        group = cls(group_id, metadata.current_state_timestamp)
        group.protocol_type = metadata.protocol_type or None
        group.protocol_name = metadata.protocol
        group.generation_id = metadata.generation
        for loaded in metadata.members:
            member = ClassicMember(
                member_id=loaded.member_id,
                group_instance_id=loaded.group_instance_id,
                client_id=loaded.client_id,
                client_host=loaded.client_host,
                rebalance_timeout_ms=loaded.rebalance_timeout,
                session_timeout_ms=loaded.session_timeout,
                # Only the selected protocol is in the log. The member sends its other protocols when it joins again.
                protocols=((metadata.protocol or "", loaded.subscription),),
                assignment=loaded.assignment,
            )
            group.add(member, metadata.protocol_type, None)
        group.leader_id = metadata.leader
        if group.members:
            group.state = GroupState.STABLE
        group.refresh_subscribed()
        return group
