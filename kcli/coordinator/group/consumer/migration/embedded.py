"""Between the two protocols: what classic consumers embed in their messages, as a consumer group says it.

Classic members name topics, consumer groups their ids; what does not exist is left out either way: a topic, or those of
its partitions that it had before it was deleted and created again.
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
"""Of the embedded protocol."""


def by_id(listed: Iterable[TopicPartitions], topics: TopicsView) -> Assignment:
    found = ((topics.topic(each.topic), each.partitions) for each in listed)
    return assignment(
        (topic.topic_id, (number for number in partitions if 0 <= number < topic.partition_count))
        for topic, partitions in found
        if topic is not None
    )


def assignment_bytes(assigned: Assignment, topics: TopicsView, subscription: bytes) -> bytes:
    """The assignment of a classic member, in the version that it subscribed in."""
    found = ((topics.topic_by_id(topic_id), partitions) for topic_id, partitions in assigned.items())
    listed = tuple(
        TopicPartitions(topic=topic.name, partitions=tuple(sorted(partitions)))
        for topic, partitions in found
        if topic is not None
    )
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=listed), _version(subscription))


def _version(embedded: bytes) -> int:
    """As far as we know versions; whether the rest can be read does not matter here."""
    return min(max(int.from_bytes(embedded[:2], "big", signed=True), 0), NEWEST_VERSION)
