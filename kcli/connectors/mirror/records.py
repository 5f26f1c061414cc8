"""The records of MirrorMaker's internal topics: offset syncs, checkpoints and heartbeats, byte for byte.

Each record has a key and a value. Texts begin with their length in two bytes, and numbers are big endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from kcli.model.topic_partition import TopicPartition

VERSION = 0
"""The version of checkpoints and heartbeats."""
TEXT_BYTES_MAX = 2**15 - 1
"""The length of a text is a signed number of two bytes."""

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class InvalidMirrorRecord(ValueError):
    """Raised if the bytes of a key or a value do not have the expected form."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream_offset` of the source is the record at `downstream_offset` of the target.

    `partition` is the partition in the source.
    """

    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        return _text(self.partition.topic) + _INT.pack(self.partition.partition)

    def value(self) -> bytes:
        return _LONG.pack(self.upstream_offset) + _LONG.pack(self.downstream_offset)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises InvalidMirrorRecord."""
        key_fields, value_fields = _Fields(key), _Fields(value)
        sync = cls(key_fields.partition(), value_fields.number(_LONG), value_fields.number(_LONG))
        key_fields.end()
        value_fields.end()
        return sync

    def __str__(self) -> str:
        return (
            f"OffsetSync{{topicPartition={self.partition}, upstreamOffset={self.upstream_offset}, "
            f"downstreamOffset={self.downstream_offset}}}"
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A committed offset of a group, in the source (upstream) and in the target (downstream).

    `partition` is the partition in the target.
    """

    group: str
    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        return _text(self.group) + _text(self.partition.topic) + _INT.pack(self.partition.partition)

    def value(self) -> bytes:
        offsets = _LONG.pack(self.upstream_offset) + _LONG.pack(self.downstream_offset)
        return _SHORT.pack(VERSION) + offsets + _text(self.metadata)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises InvalidMirrorRecord."""
        key_fields, value_fields = _Fields(key), _Fields(value)
        group, partition = key_fields.text(), key_fields.partition()
        value_fields.version()
        upstream, downstream = value_fields.number(_LONG), value_fields.number(_LONG)
        checkpoint = cls(group, partition, upstream, downstream, value_fields.text())
        key_fields.end()
        value_fields.end()
        return checkpoint

    def __str__(self) -> str:
        return (
            f"Checkpoint{{consumerGroupId={self.group}, topicPartition={self.partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}, "
            f"metadata={self.metadata}}}"
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign that the flow between two clusters is alive."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        return _SHORT.pack(VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises InvalidMirrorRecord."""
        key_fields, value_fields = _Fields(key), _Fields(value)
        value_fields.version()
        heartbeat = cls(key_fields.text(), key_fields.text(), value_fields.number(_LONG))
        key_fields.end()
        value_fields.end()
        return heartbeat

    def __str__(self) -> str:
        return (
            f"Heartbeat{{sourceClusterAlias={self.source}, targetClusterAlias={self.target}, "
            f"timestamp={self.timestamp_ms}}}"
        )


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > TEXT_BYTES_MAX:
        raise InvalidMirrorRecord(f"a text has {len(encoded)} bytes: expected at most {TEXT_BYTES_MAX}")
    return _SHORT.pack(len(encoded)) + encoded


class _Fields:
    """Reads fields from the beginning of a key or a value."""

    def __init__(self, content: bytes | None) -> None:
        if content is None:
            raise InvalidMirrorRecord("the key or the value is null")
        self._content = content
        self._position = 0

    def number(self, kind: struct.Struct) -> int:
        number: int = kind.unpack(self._take(kind.size))[0]
        return number

    def text(self) -> str:
        size = self.number(_SHORT)
        if size < 0:
            raise InvalidMirrorRecord(f"a text has the length {size}")
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise InvalidMirrorRecord("a text is not UTF-8") from None

    def partition(self) -> TopicPartition:
        topic, number = self.text(), self.number(_INT)
        if number < 0:
            raise InvalidMirrorRecord(f"the partition is {number}")
        return TopicPartition(topic, number)

    def version(self) -> None:
        version = self.number(_SHORT)
        if version != VERSION:
            raise InvalidMirrorRecord(f"the version is {version}: expected {VERSION}")

    def end(self) -> None:
        rest = len(self._content) - self._position
        if rest:
            raise InvalidMirrorRecord(f"{rest} bytes follow the last field")

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise InvalidMirrorRecord(f"the bytes end after {len(self._content)}: expected {end}")
        taken = self._content[self._position : end]
        self._position = end
        return taken
