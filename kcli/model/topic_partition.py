"""Types that identify a partition, by the name or by the id of its topic."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic and its number. A `TopicPartition` is equal to the pair `(topic,
    partition)`. Its text is `orders-0`, as in Kafka."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic and its number. A later topic of the same name has another id (KIP-516)."""

    topic_id: uuid.UUID
    partition: int


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Returns the partition numbers of each topic, in the order of `partitions`."""
    numbers_of: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers_of.setdefault(topic, []).append(partition)
    return {topic: tuple(numbers) for topic, numbers in numbers_of.items()}


def missing_partition(partition: TopicPartition, count: int) -> str:
    """Returns the message about a partition that an existing topic with `count` partitions does not have."""
    topic, number = partition
    has = "1 partition, number 0" if count == 1 else f"{count} partitions, numbers 0 to {count - 1}"
    return f"Partition {topic}-{number} does not exist: topic {topic} has {has}"
