"""The name of a partition."""

from __future__ import annotations

import uuid
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic. It is equal to the pair `(topic, partition)`. Its text has Kafka's form
    `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic. A later topic of the same name has another id (KIP-516)."""

    topic_id: uuid.UUID
    partition: int
