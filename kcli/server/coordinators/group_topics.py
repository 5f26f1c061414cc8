"""The topics of a metadata image in the form that the group coordinator uses."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kcli.coordinator.group.topics import Topic
from kcli.metadata.image import MetadataImage, TopicImage


class ImageTopics:
    """A view of a metadata image. If a topic has not changed since the view `before`, this view reuses the topic object
    of the view `before`."""

    def __init__(self, image: MetadataImage, before: ImageTopics | None = None) -> None:
        self._image = image
        self._seen: dict[uuid.UUID, tuple[TopicImage, Topic]] = {} if before is None else before._seen

    @property
    def version(self) -> int:
        return self._image.offset

    def names(self) -> tuple[str, ...]:
        return self._image.topics.names

    def existing(self, names: Iterable[str]) -> list[str]:
        ids = self._image.topics.ids
        return [name for name in names if name in ids]

    def topic(self, name: str) -> Topic | None:
        return self._topic(self._image.topics.topic(name))

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._topic(self._image.topics.topic_by_id(topic_id))

    def forget(self, topic_id: uuid.UUID) -> None:
        self._seen.pop(topic_id, None)

    def _topic(self, image: TopicImage | None) -> Topic | None:
        if image is None:
            return None
        seen = self._seen.get(image.topic_id)
        if seen is not None and seen[0] is image:
            return seen[1]
        racks = [self._racks(image.partitions[number].replicas) for number in sorted(image.partitions)]
        topic = Topic(image.name, image.topic_id, racks)
        self._seen[image.topic_id] = (image, topic)
        return topic

    def _racks(self, replicas: tuple[int, ...]) -> tuple[str, ...]:
        registered = (self._image.brokers.get(broker_id) for broker_id in replicas)
        return tuple(broker.rack for broker in registered if broker is not None and broker.rack is not None)
