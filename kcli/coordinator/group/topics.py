"""The properties of topics that the group coordinator uses, and a hash that shows whether topics have changed.

The hash (KIP-1101) covers the name, id and number of partitions of a topic, and the racks of each partition's replicas.
The record of a group's epoch contains the hash of all topics to which the group subscribes. A broker that becomes the
coordinator of the group computes the hash again. If the two hashes differ, the topics have changed.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import Protocol

from xxhash import xxh3_64_intdigest

from kcli.model.pace import Pace

NO_HASH = 0
"""The hash of a topic that does not exist, and of a group that subscribes to no existing topic."""
_VERSION_OF_HASH = 0
_HEAD = struct.Struct("<BQQ")
_INT32 = struct.Struct("<i")
_UINT64 = struct.Struct("<Q")
_LOW_HALF = 0xFFFFFFFFFFFFFFFF


VisibleTopics = Callable[[Iterable[str], Pace], Awaitable[Container[str]]]
"""A function that returns those names of topics that a client may describe."""


class Topic:
    """A topic. `racks` has, for each partition, the racks of its replicas."""

    __slots__ = ("_hash", "name", "racks", "topic_id")

    def __init__(self, name: str, topic_id: uuid.UUID, racks: Sequence[tuple[str, ...]]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.racks = racks
        self._hash: int | None = None

    @property
    def partition_count(self) -> int:
        return len(self.racks)

    @property
    def hash(self) -> int:
        """The metadata hash of the topic as an unsigned number. The hash is computed when it is first used."""
        if self._hash is None:
            self._hash = xxh3_64_intdigest(self._described())
        return self._hash

    def _described(self) -> bytes:
        """The bytes that Kafka's library hash4j hashes: little-endian numbers, and strings as their UTF-16 code units
        followed by the number of these units."""
        topic_id = self.topic_id.int
        parts = [
            _HEAD.pack(_VERSION_OF_HASH, topic_id >> 64, topic_id & _LOW_HALF),
            _string(self.name),
            _INT32.pack(len(self.racks)),
        ]
        for partition, racks in enumerate(self.racks):
            parts.append(_INT32.pack(partition))
            for rack in sorted(racks):
                encoded = _string(rack)
                parts += (encoded[-_INT32.size :], encoded)
        return b"".join(parts)


class TopicsView(Protocol):
    """The topics of one metadata image."""

    @property
    def version(self) -> int:
        """The version of the topics: the offset of the image."""
        ...

    def topic(self, name: str) -> Topic | None: ...
    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None: ...
    def names(self) -> tuple[str, ...]: ...
    def existing(self, names: Iterable[str]) -> list[str]:
        """The names of topics that exist, in the same order. A member may subscribe to thousands of other names."""
        ...


class NoTopics:
    """The topics before the broker has its first metadata image. There are no topics."""

    version = -1

    def topic(self, name: str) -> Topic | None:
        return None

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return None

    def names(self) -> tuple[str, ...]:
        return ()

    def existing(self, names: Iterable[str]) -> list[str]:
        return []


def metadata_hash(topics: TopicsView, names: Iterable[str]) -> int:
    """The hash of all these topics, as the signed number in a record. Topics that do not exist are left out."""
    existing = [topic for topic in map(topics.topic, sorted(topics.existing(names))) if topic is not None]
    if not existing:
        return NO_HASH
    value = xxh3_64_intdigest(b"".join(_UINT64.pack(topic.hash) for topic in existing))
    return value - (1 << 64) if value >> 63 else value


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)
