"""The topics that the cluster has promised to its clients.

A topic whose creation was acknowledged exists, with its id and at least the promised number of partitions. A topic
whose deletion was acknowledged never comes back.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kcli.metadata.image import MetadataImage


@dataclass(slots=True)
class PromisedTopic:
    topic_id: uuid.UUID
    partitions: int
    may_be_deleted: bool = False
    """Whether a client has asked for the deletion. After the request, it is unknown whether the topic exists."""


class TopicLedger:
    """Clients report each answer about a topic. Call `check` when no client changes topics and the cluster is calm."""

    def __init__(self) -> None:
        self.topics: dict[str, PromisedTopic] = {}
        self.deleted: dict[uuid.UUID, str] = {}
        self.acknowledged = 0
        """The number of acknowledged creations."""

    def created(self, name: str, topic_id: uuid.UUID, partitions: int) -> None:
        self.acknowledged += 1
        self.topics[name] = PromisedTopic(topic_id, partitions)

    def grown(self, name: str, partitions: int) -> None:
        self.topics[name].partitions = max(self.topics[name].partitions, partitions)

    def is_unknown(self, name: str) -> None:
        """The controller does not know the topic, after a request for its deletion. A former controller that does not
        know that it was replaced may not know a topic that exists."""
        self.topics.pop(name, None)

    def is_deleted(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.deleted[topic.topic_id] = name

    def check(self, image: MetadataImage) -> None:
        """Checks the metadata of a node."""
        for name, topic in self.topics.items():
            if topic.may_be_deleted:
                continue
            known = image.topics.topic(name)
            assert known is not None, f"topic {name} was created and is gone"
            assert known.topic_id == topic.topic_id, f"topic {name} has another id"
            assert len(known.partitions) >= topic.partitions, f"topic {name} has lost partitions"
        for topic_id, name in self.deleted.items():
            assert image.topics.topic_by_id(topic_id) is None, f"topic {name} was deleted and is back"
