"""Converts the subscriptions and assignments of classic consumers to the form of a consumer group, and back.

Classic consumers use topic names, while consumer groups use topic ids. Topics and partitions that do not exist are left
out in both directions. For example, a topic may have been deleted and created again with fewer partitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.coordinator.group.consumer.state.assignment import Assignment, assignment
from kcli.coordinator.group.topics import TopicsView
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    encode_assignment,
)

NEWEST_VERSION = 3
"""The newest version of ConsumerProtocolSubscription and ConsumerProtocolAssignment."""


def by_id(listed: Iterable[TopicPartitions], topics: TopicsView) -> Assignment:
    known = ((topics.topic(topic.topic), topic.partitions) for topic in listed)
    return assignment(
        (topic.topic_id, (number for number in partitions if 0 <= number < topic.partition_count))
        for topic, partitions in known
        if topic is not None
    )


def assignment_bytes(assigned: Assignment, topics: TopicsView, subscription: bytes) -> bytes:
    """Encodes the assignment of a classic member, in the version of the member's subscription."""
    known = ((topics.topic_by_id(topic_id), partitions) for topic_id, partitions in assigned.items())
    listed = tuple(
        TopicPartitions(topic=topic.name, partitions=tuple(sorted(partitions)))
        for topic, partitions in known
        if topic is not None
    )
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=listed), _version(subscription))


def _version(embedded: bytes) -> int:
    """Reads the version of a subscription or assignment. If the bytes have a newer version than this code knows,
    returns the newest known version."""
    return min(max(int.from_bytes(embedded[:2], "big", signed=True), 0), NEWEST_VERSION)
