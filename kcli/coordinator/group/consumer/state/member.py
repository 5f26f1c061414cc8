"""A member of a consumer group (KIP-848), with the values of its two records: its metadata and its assignment.

A member is an immutable value. Every change makes a new value and writes a record of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from kcli.coordinator.group.consumer.state.assignment import NOTHING, Assignment, assignment
from kcli.protocol.records.consumer_offsets import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The member epoch of a static member that left and may come back within its session timeout."""


class MemberState(IntEnum):
    """The state of a member. The values are the numbers in the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member must still give up the partitions that are pending revocation."""
    UNRELEASED_PARTITIONS = 2
    """The member is at its target epoch, but other members have not given up all partitions of its target yet."""
    UNKNOWN = 127
    """A state that a newer Kafka wrote, and that this version does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member. `classic` is the metadata of a member of the classic protocol, and None for a member of the consumer
    protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """The topics to which the member subscribes by name, sorted and without repetitions."""
    topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    # To and from the log

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=sorted_names(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def metadata(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=self.topic_names,
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_state(value.state),
            assigned=_assignment(value.assigned_partitions),
            pending_revocation=_assignment(value.partitions_pending_revocation),
        )

    def without_current(self) -> ConsumerMember:
        """The member without its assignment. A first tombstone removes the assignment of a member, and a second
        tombstone removes the member."""
        return replace(
            self,
            epoch=LEAVE_EPOCH,
            previous_epoch=LEAVE_EPOCH,
            assigned=NOTHING,
            pending_revocation=NOTHING,
        )

    def current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_listed(self.assigned),
            partitions_pending_revocation=_listed(self.pending_revocation),
        )


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(names)))


def _state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def _assignment(listed: Iterable[CurrentTopicPartitions]) -> Assignment:
    return assignment((topic.topic_id, topic.partitions) for topic in listed)


def _listed(of: Mapping[uuid.UUID, frozenset[int]]) -> tuple[CurrentTopicPartitions, ...]:
    return tuple(
        CurrentTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in of.items()
    )
