"""The server-side assignors (KIP-848). An assignor computes the target of each member from the subscriptions.

An assignor is a pure function, and gets every member with the member's present target. The caller lists the members in
the order of Kafka's hash maps. If the partitions cannot be divided equally, the first members in this order get one
partition more. The caller leaves out topics that do not exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.coordinator.group.consumer.assignors.heterogeneous import assign_heterogeneous
from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.assignors.uniform import assign_homogeneous
from kcli.coordinator.group.consumer.state.assignment import Assignment
from kcli.coordinator.hashing import in_hash_order, java_hash

UNIFORM = "uniform"
RANGE = "range"


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The input of an assignor. If `homogeneous` is true, all members have the same subscription."""

    members: Mapping[str, Subscriber]
    partition_counts: Mapping[uuid.UUID, int]
    homogeneous: bool


Assignor = Callable[[GroupSpec], dict[str, Assignment]]


def uniform(spec: GroupSpec) -> dict[str, Assignment]:
    """Gives all members the same number of partitions, or numbers that differ by 1. Moves as few partitions as
    possible."""
    members = {member_id: spec.members[member_id] for member_id in in_hash_order(spec.members, java_hash)}
    assign = assign_homogeneous if spec.homogeneous else assign_heterogeneous
    return assign(members, spec.partition_counts)


def range_(spec: GroupSpec) -> dict[str, Assignment]:
    """Gives each subscriber a contiguous range of each topic. So partitions with the same number in several topics go
    to the same member. This member can then join the records of these partitions."""

    def order(member_id: str) -> tuple[bool, str]:
        instance_id = spec.members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    ordered = sorted(spec.members, key=order)
    subscribers: dict[uuid.UUID, int] = {}
    for member_id in ordered:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    served = dict.fromkeys(subscribers, 0)
    assigned: dict[str, Assignment] = {}
    for member_id in ordered:
        ranges = {}
        for topic_id in spec.members[member_id].topic_ids:
            quota, extra = divmod(spec.partition_counts[topic_id], subscribers[topic_id])
            nth = served[topic_id]
            served[topic_id] = nth + 1
            start = nth * quota + min(nth, extra)
            partitions = frozenset(range(start, start + quota + (nth < extra)))
            if partitions:
                ranges[topic_id] = partitions
        assigned[member_id] = ranges
    return assigned


ASSIGNORS: Mapping[str, Assignor] = {UNIFORM: uniform, RANGE: range_}
