"""The topics whose removal is in the metadata log.

A log directory whose topic is not in the image may be of a deleted topic, of another cluster, or of a metadata log that
was lost. Only a removal in the log of this cluster shows that the records in the directory are not needed any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

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

    def has(self, topic: str, topic_id: uuid.UUID | None) -> bool:
        """Whether the log of `topic` belongs to a removed topic.

        A crash may come before the topic id of a new log is on the device. Then no record was flushed, and the log
        counts as removed if a topic with this name was created and removed.
        """
        return topic in self._names if topic_id is None else topic_id in self._ids
