"""Collects the topics that were removed, from the metadata log and from older metadata of the node.

If a disk has a partition whose topic is not in the image, the topic may have been deleted. But the disk may also come
from another cluster, or the metadata log may have been lost. Only a removal of the topic in the metadata log of this
cluster shows that the partition's records are no longer needed.

A snapshot of the leader replaces the log of a node that was off for long, and the log of the leader may lack the
removal too. Then the older metadata of the node shows that the topic was in this cluster. If the snapshot lacks the
topic, the topic was removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kcli.metadata.image import Topics
from kcli.protocol.records.framing import framed_key
from kcli.protocol.records.metadata import RemoveTopicRecord, TopicRecord, decode_metadata_record
from kcli.protocol.records.schema import schema_of

_KEYS = {schema_of(kind).key for kind in (TopicRecord, RemoveTopicRecord)}


class RemovedTopics:
    """Collects the topics that the log removes. Call `replay` with the records of the log in order, then call `has`."""

    def __init__(self) -> None:
        self._ids: set[uuid.UUID] = set()
        self._names: set[str] = set()
        self._created: dict[uuid.UUID, str] = {}

    def replay(self, values: Iterable[bytes]) -> None:
        for value in values:
            if framed_key(value) not in _KEYS:
                continue
            match decode_metadata_record(value)[0]:
                case TopicRecord(name=name, topic_id=topic_id):
                    self._created[topic_id] = name
                case RemoveTopicRecord(topic_id=topic_id):
                    self._ids.add(topic_id)
                    self._names.add(self._created.pop(topic_id, ""))

    def add_missing(self, before: Topics, now: Topics) -> None:
        """Adds the topics that are in the older metadata `before`, or that the log creates, and that are missing in the
        newer metadata `now`.

        The creation of a topic in the log may be uncommitted. But a broker makes the logs of a topic only after the
        commit, so such a topic has no logs.
        """
        known = {topic_id: topic.name for topic_id, topic in before.by_id.items()} | self._created
        for topic_id, name in known.items():
            if topic_id not in now.by_id:
                self._ids.add(topic_id)
                self._names.add(name)
        # The removal of a topic in the log may be uncommitted too.
        self._ids -= now.by_id.keys()
        self._created.clear()

    def add_all(self, other: RemovedTopics) -> None:
        """Adds the removed topics of another collection."""
        self._ids |= other._ids
        self._names |= other._names

    def has(self, topic: str, topic_id: uuid.UUID | None) -> bool:
        """Whether the topic of a log on disk has been removed.

        A log has no topic id if the broker crashed soon after it made the log. No record of such a log was flushed, so
        no flushed record is lost if the log is deleted. So the log counts as removed if any topic with this name was
        created and removed.
        """
        return topic in self._names if topic_id is None else topic_id in self._ids
