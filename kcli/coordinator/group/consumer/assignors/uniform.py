"""The uniform assignor for a group whose members all subscribe to the same topics.

For P partitions and M members, the quota of a member is P div M partitions. The first P mod M members have a quota of
one partition more. A member keeps partitions up to its quota, so that no more partitions move than necessary. The
other partitions go to the members below their quota, in order.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter

from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.state.assignment import NOTHING, Assignment, assignment, size
from kcli.coordinator.hashing import in_hash_order, uuid_hash
from kcli.model.topic_partition import TopicIdPartition


def assign_homogeneous(
    members: Mapping[str, Subscriber], partition_counts: Mapping[uuid.UUID, int]
) -> dict[str, Assignment]:
    first = next(iter(members.values()), None)
    if first is None or not first.topic_ids:
        return dict.fromkeys(members, NOTHING)
    topic_ids = in_hash_order(first.topic_ids, uuid_hash)
    quota, extra = divmod(sum(partition_counts[topic_id] for topic_id in topic_ids), len(members))
    free = _never_assigned(members, topic_ids, partition_counts)
    retained: dict[str, Assignment] = {}
    below: list[tuple[str, int]] = []
    for nth, (member_id, member) in enumerate(members.items()):
        retained[member_id], room = _keep(member.assigned, partition_counts, quota + (nth < extra), free)
        if room:
            below.append((member_id, room))
    _hand_out(free, below, retained)
    return retained


def _never_assigned(
    members: Mapping[str, Subscriber], topic_ids: list[uuid.UUID], partition_counts: Mapping[uuid.UUID, int]
) -> list[TopicIdPartition]:
    taken: dict[uuid.UUID, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in members.values():
        for topic_id, partitions in member.assigned.items():
            of_topic = taken.get(topic_id)
            if of_topic is not None:
                of_topic.update(partitions)
    return [
        TopicIdPartition(topic_id, partition)
        for topic_id, of_topic in taken.items()
        for partition in range(partition_counts[topic_id])
        if partition not in of_topic
    ]


def _keep(
    assigned: Assignment, partition_counts: Mapping[uuid.UUID, int], quota: int, free: list[TopicIdPartition]
) -> tuple[Assignment, int]:
    """The partitions that a member keeps, and how many more it may get. Partitions beyond the member's quota become
    free."""
    count = size(assigned)
    if count <= quota and assigned.keys() <= partition_counts.keys():
        return assigned, quota - count  # nearly always
    retained: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id, partitions in assigned.items():
        if topic_id not in partition_counts:
            continue  # not subscribed any more, or deleted
        if len(partitions) <= quota:
            quota -= len(partitions)
            retained[topic_id] = partitions
            continue
        ordered = sorted(partitions)
        if quota:
            retained[topic_id] = frozenset(ordered[:quota])
        free.extend(TopicIdPartition(topic_id, partition) for partition in ordered[quota:])
        quota = 0
    return retained, quota


def _hand_out(
    free: list[TopicIdPartition], below: list[tuple[str, int]], retained: dict[str, Assignment]
) -> None:
    at = 0
    for member_id, room in below:
        taken = free[at : at + room]
        at += len(taken)
        if taken:
            by_topic: dict[uuid.UUID, list[int]] = {}
            # One look-up for each run of partitions of a topic, because a UUID is hashed slowly.
            for topic_id, run in groupby(taken, key=itemgetter(0)):
                by_topic.setdefault(topic_id, []).extend([partition for _, partition in run])
            retained[member_id] = assignment((*retained[member_id].items(), *by_topic.items()))
    assert at == len(free), f"{len(free) - at} partitions have no taker"
