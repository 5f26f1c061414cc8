"""The cluster's topics as group coordination sees them, and the hash that shows whether they have changed.

The hash (KIP-1101) covers name, id, number of partitions and the racks of each partition's replicas. A group keeps the
hash of all it subscribes in its epoch record, so that a coordinator which takes over sees what changed meanwhile.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import Protocol

from xxhash import xxh3_64_intdigest

NO_HASH = 0
"""The hash of a topic that does not exist, and of a group that subscribes no existing topic."""
_VERSION_OF_HASH = 0
_HEAD = struct.Struct("<BQQ")
_INT32 = struct.Struct("<i")
_UINT64 = struct.Struct("<Q")
_LOW_HALF = 0xFFFFFFFFFFFFFFFF


class Topic:
    """`racks`: for each partition, the racks of its replicas."""

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
        """Unsigned; computed when first asked for."""
        if self._hash is None:
            self._hash = xxh3_64_intdigest(self._described())
        return self._hash

    def _described(self) -> bytes:
        """The bytes that hash4j would hash: little-endian, a string as its UTF-16 code units and then their number."""
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
        """The image's offset."""
        ...

    def topic(self, name: str) -> Topic | None: ...
    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None: ...
    def names(self) -> tuple[str, ...]: ...


class NoTopics:
    """Before the first image."""

    version = -1

    def topic(self, name: str) -> Topic | None:
        return None

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return None

    def names(self) -> tuple[str, ...]:
        return ()


def metadata_hash(topics: TopicsView, names: Iterable[str]) -> int:
    """The hash of all these topics, as the signed number in a record; those that do not exist do not count."""
    found = [topic for topic in map(topics.topic, sorted(names)) if topic is not None]
    if not found:
        return NO_HASH
    value = xxh3_64_intdigest(b"".join(_UINT64.pack(topic.hash) for topic in found))
    return value - (1 << 64) if value >> 63 else value


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)
