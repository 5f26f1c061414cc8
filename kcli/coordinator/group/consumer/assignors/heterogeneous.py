"""The uniform assignor for a group whose members subscribe to different topics.

Members with different subscriptions have no common quota of partitions, so the assignor balances the group in three
steps:

1. A member keeps the partitions of its present target if it still subscribes to their topics.
2. For each topic, the partitions without an owner are given to the subscribers with the fewest partitions.
3. For each topic, partitions move from the subscribers with the most partitions to the subscribers with the fewest,
   until the numbers differ by at most one. A move for one topic may unbalance another topic. So step 3 is repeated
   until no partition moves, at most `MAX_ROUNDS` times.

In steps 2 and 3, the topics with the most partitions per subscriber come first.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.state.assignment import Assignment, assignment

MAX_ROUNDS = 16
"""The most repetitions of step 3, as in Kafka. Each round about halves the imbalance. Two rounds are enough if any two
members subscribe to the same topics or have no topic in common."""
_NOBODY = -1


def assign_heterogeneous(
    members: Mapping[str, Subscriber], partition_counts: Mapping[uuid.UUID, int]
) -> dict[str, Assignment]:
    work = _Work(members, partition_counts)
    for topic_id in work.topic_order:
        work.assign_free(topic_id)
    work.balance()
    return work.result()


class _Work:
    """The assignment in progress. Members are numbered in the order of the input. `owners` has the owner of each
    partition of each topic. `loads` has the number of partitions of each member."""

    def __init__(self, members: Mapping[str, Subscriber], partition_counts: Mapping[uuid.UUID, int]) -> None:
        self._members = members
        # Few members have a subscription of their own, and a UUID is hashed slowly.
        alike: dict[tuple[uuid.UUID, ...], list[int]] = {}
        by_tuple: dict[int, list[int]] = {}
        for number, member in enumerate(members.values()):
            subscribers = by_tuple.get(id(member.topic_ids))
            if subscribers is None:
                subscribers = by_tuple[id(member.topic_ids)] = alike.setdefault(member.topic_ids, [])
            subscribers.append(number)
        self._subscribers: dict[uuid.UUID, list[int]] = {}
        for topic_ids, numbers in alike.items():
            for topic_id in topic_ids:
                self._subscribers.setdefault(topic_id, []).extend(numbers)
        self.loads = [0] * len(members)
        self.owners = {topic_id: [_NOBODY] * partition_counts[topic_id] for topic_id in self._subscribers}
        listed = list(members.values())
        for topic_ids, numbers in alike.items():
            subscribed = frozenset(topic_ids)
            for number in numbers:
                self._keep(number, listed[number].assigned, subscribed)

        def order(topic_id: uuid.UUID) -> tuple[float, int, uuid.UUID]:
            subscribers = len(self._subscribers[topic_id])
            return (-partition_counts[topic_id] / subscribers, subscribers, topic_id)

        self.topic_order = sorted(self._subscribers, key=order)

    def _keep(self, number: int, assigned: Assignment, subscribed: frozenset[uuid.UUID]) -> None:
        """Lets a member keep the partitions of its present target whose topics it still subscribes to."""
        for topic_id, partitions in assigned.items():
            if topic_id in subscribed:
                self.loads[number] += len(partitions)
                owners = self.owners[topic_id]
                for partition in partitions:
                    owners[partition] = number

    def assign_free(self, topic_id: uuid.UUID) -> None:
        owners = self.owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
        if free:
            takers = _Balancer(self._subscribers[topic_id], self.loads)
            for partition in free:
                self._move(topic_id, partition, takers.next_least_loaded())

    def balance(self) -> None:
        shared = [topic_id for topic_id in self.topic_order if len(self._subscribers[topic_id]) > 1]
        balanced = 0  # consecutive topics in which no partition moved
        for _ in range(MAX_ROUNDS):
            for topic_id in shared:
                balanced = 0 if self._balance_topic(topic_id) else balanced + 1
                if balanced >= len(shared):
                    return

    def _balance_topic(self, topic_id: uuid.UUID) -> bool:
        """Moves partitions of a topic until its subscribers are balanced. Returns whether any partition moved."""
        subscribers = self._subscribers[topic_id]
        loads = [self.loads[number] for number in subscribers]
        if max(loads) - min(loads) <= 1:
            return False
        owned = _by_owner(self.owners[topic_id])
        balancer = _Balancer(subscribers, self.loads)
        moved = False
        while True:
            giver = balancer.next_most_loaded()
            while giver != _NOBODY and not owned.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.next_most_loaded()
            if giver == _NOBODY:
                return moved
            partition = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced:
                return moved
            self._move(topic_id, partition, taker)
            moved = True

    def _move(self, topic_id: uuid.UUID, partition: int, taker: int) -> None:
        owner = self.owners[topic_id][partition]
        if owner != _NOBODY:
            self.loads[owner] -= 1
        self.owners[topic_id][partition] = taker
        self.loads[taker] += 1

    def result(self) -> dict[str, Assignment]:
        results: list[dict[uuid.UUID, list[int]]] = [{} for _ in self.loads]
        for topic_id in self.topic_order:
            for owner, partitions in _by_owner(self.owners[topic_id]).items():
                results[owner][topic_id] = partitions
        return {
            member_id: assignment(partitions.items())
            for member_id, partitions in zip(self._members, results, strict=True)
        }


def _by_owner(owners: Sequence[int]) -> dict[int, list[int]]:
    """The partitions of each owner, in ascending order."""
    owned: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        if owner in owned:
            owned[owner].append(partition)
        else:
            owned[owner] = [partition]
    return owned


class _Balancer:
    """Finds the subscriber of a topic that should get the next partition, and the subscriber that should give one away.
    The subscribers are sorted by load.

    The subscribers with the fewest partitions are a range at the left end of the list. When each subscriber of this
    range has got one partition more, the range grows to the right. The subscribers with the most partitions are a range
    at the right end. When each subscriber of this range has given one partition away, the range grows to the left.
    Subscribers that cannot give a partition are moved out of the right range. The caller must move a partition for
    every pair of subscribers that it gets.
    """

    def __init__(self, members: Sequence[int], loads: Sequence[int]) -> None:
        self._loads = loads
        self._sorted = sorted(members, key=lambda number: (loads[number], number))
        self._least_end = 0
        self._least_level = loads[self._sorted[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._sorted)
        self._most_level = loads[self._sorted[-1]] + 1
        self._next_most = len(self._sorted) - 1

    @property
    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1

    def next_least_loaded(self) -> int:
        if self._next_least >= self._least_end:
            self._least_level += 1
            while (
                self._least_end < len(self._sorted)
                and self._loads[self._sorted[self._least_end]] == self._least_level
            ):
                self._least_end += 1
            self._next_least = 0
        number = self._sorted[self._next_least]
        self._next_least += 1
        return number

    def next_most_loaded(self) -> int:
        """The next subscriber that gives a partition away, or -1 if no subscriber can."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All members of the range were excluded, so the range begins again at the next lower level.
                self._most_level = self._loads[self._sorted[self._most_start - 1]]
            else:
                self._most_level -= 1
            while (
                self._most_start > 0 and self._loads[self._sorted[self._most_start - 1]] == self._most_level
            ):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return _NOBODY
        number = self._sorted[self._next_most]
        self._next_most -= 1
        return number

    def exclude_most_loaded(self) -> None:
        """Excludes the subscriber that `next_most_loaded` returned last, because this subscriber has no partition that
        it can give away."""
        at, last = self._next_most + 1, self._most_end - 1
        self._sorted[at], self._sorted[last] = self._sorted[last], self._sorted[at]
        self._most_end = last
