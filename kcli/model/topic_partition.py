"""The name of a partition."""

from __future__ import annotations

import uuid
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic by name; equal to the pair `(topic, partition)`. Prints as Kafka prints it: `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition of a topic by the topic's id, which no later topic of the same name has (KIP-516)."""

    topic_id: uuid.UUID
    partition: int
