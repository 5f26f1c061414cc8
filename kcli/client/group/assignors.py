"""The assignors of consumers in classic groups. Each of them assigns partitions as the assignor with its name in Java.

`range` and `roundrobin` are eager: a member gives up all its partitions before each rebalance. `cooperative-sticky` is
incremental: a partition that moves is assigned only after its owner has given it up (KIP-429).

The racks of members and replicas are ignored (KIP-881), because no program of kcli consumes with these assignors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kcli.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class SubscribedMember:
    """A member of the group, its topics, and the partitions that it owned in its last generation."""

    member_id: str
    group_instance_id: str | None
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1

    @property
    def order(self) -> tuple[bool, str]:
        """The key of Java's order of members: static members come first, in the order of their instance ids."""
        if self.group_instance_id is not None:
            return False, self.group_instance_id
        return True, self.member_id


Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    name: str
    is_cooperative: bool

    def assign(self, members: Sequence[SubscribedMember], partitions: Mapping[str, int]) -> Assignment:
        """Returns the partitions of each member id. `partitions` has the number of partitions of each topic."""
        ...


class RangeAssignor:
    """Gives each member neighbouring partitions of each topic. The first members may get one partition more."""

    name = "range"
    is_cooperative = False

    def assign(self, members: Sequence[SubscribedMember], partitions: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        for topic, count in sorted(partitions.items()):
            subscribed = sorted(
                (candidate for candidate in members if topic in candidate.topics),
                key=lambda candidate: candidate.order,
            )
            start = 0
            for nth, member in enumerate(subscribed):
                share = count // len(subscribed) + (nth < count % len(subscribed))
                assignment[member.member_id] += (
                    TopicPartition(topic, number) for number in range(start, start + share)
                )
                start += share
        return assignment


class RoundRobinAssignor:
    """Deals the partitions of all topics to the members, one at a time."""

    name = "roundrobin"
    is_cooperative = False

    def assign(self, members: Sequence[SubscribedMember], partitions: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        circle = sorted(members, key=lambda member: member.order)
        subscribed = {topic for member in members for topic in member.topics}
        turn = 0
        for topic, count in sorted(partitions.items()):
            if topic not in subscribed:
                continue
            for number in range(count):
                while topic not in circle[turn % len(circle)].topics:
                    turn += 1
                assignment[circle[turn % len(circle)].member_id].append(TopicPartition(topic, number))
                turn += 1
        return assignment


class CooperativeStickyAssignor:
    """Balances the numbers of partitions, and leaves as many partitions as possible with their owners.

    Members have equal numbers, or numbers that differ by one, if their subscriptions allow it.
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Sequence[SubscribedMember], partitions: Mapping[str, int]) -> Assignment:
        ordered = sorted(members, key=lambda member: member.order)
        owners = _owners(ordered, partitions)
        assignment: Assignment = {member.member_id: [] for member in ordered}
        for partition, owner in owners.items():
            assignment[owner].append(partition)
        for topic, count in sorted(partitions.items()):
            subscribed = [candidate.member_id for candidate in ordered if topic in candidate.topics]
            for partition in (TopicPartition(topic, number) for number in range(count)):
                if subscribed and partition not in owners:
                    least = min(subscribed, key=lambda member_id: len(assignment[member_id]))
                    assignment[least].append(partition)
        _balance(ordered, assignment)
        # The leader withholds a partition that moves. Its owner gives it up, and a second rebalance assigns it.
        owned = {member.member_id: frozenset(member.owned) for member in ordered}
        claimed = frozenset().union(*owned.values())
        return {
            member: sorted(
                partition for partition in assigned if partition in owned[member] or partition not in claimed
            )
            for member, assigned in assignment.items()
        }


def _owners(members: Sequence[SubscribedMember], partitions: Mapping[str, int]) -> dict[TopicPartition, str]:
    """Returns the owner of each partition. If two members claim a partition, the later generation owns it."""
    owners: dict[TopicPartition, tuple[int, str]] = {}
    for member in members:
        for partition in member.owned:
            exists = partition.partition < partitions.get(partition.topic, 0)
            if not exists or partition.topic not in member.topics:
                continue
            if partition not in owners or owners[partition][0] < member.generation_id:
                owners[partition] = member.generation_id, member.member_id
    return {partition: owner for partition, (_, owner) in owners.items()}


def _balance(members: Sequence[SubscribedMember], assignment: Assignment) -> None:
    """Moves partitions from members with many partitions to members with at least two fewer.

    Each move makes the sum of the squares smaller, so the moves end.
    """
    topics = {member.member_id: frozenset(member.topics) for member in members}
    while True:
        by_size = sorted(assignment, key=lambda member: len(assignment[member]))
        move = next(
            (
                (partition, giver, taker)
                for giver in reversed(by_size)
                for taker in by_size
                if len(assignment[giver]) - len(assignment[taker]) >= 2
                for partition in reversed(assignment[giver])
                if partition.topic in topics[taker]
            ),
            None,
        )
        if move is None:
            return
        partition, giver, taker = move
        assignment[giver].remove(partition)
        assignment[taker].append(partition)


ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), CooperativeStickyAssignor())
}
