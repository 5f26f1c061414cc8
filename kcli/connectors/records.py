"""Records between connectors, transformations and converters (org.apache.kafka.connect.connector.ConnectRecord).

Code treats a record as a value: a transformation returns another record (`dataclasses.replace`). The classes are not
frozen, because a worker makes one object for each record, and a frozen class takes four times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from kcli.formats.connect.schema import Schema


@dataclass(slots=True)
class Header:
    """A header. Its schema is None if the value has no schema."""

    key: str
    schema: Schema | None
    value: object


class TimestampType(IntEnum):
    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(slots=True)
class SourceRecord:
    """A record that a source task has read. Both maps are JSON-like: text keys, and primitive values.

    `timestamp` is in milliseconds. The producer chooses the partition and the timestamp where they are None.
    """

    source_partition: Mapping[str, object] | None
    source_offset: Mapping[str, object] | None
    topic: str
    value: object = None
    value_schema: Schema | None = None
    key: object = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[Header] = field(default_factory=tuple)


@dataclass(slots=True)
class SinkRecord:
    """A record of a topic for a sink task. The `original_…` fields are those before transformations."""

    topic: str
    partition: int
    offset: int
    value: object = None
    value_schema: Schema | None = None
    key: object = None
    key_schema: Schema | None = None
    timestamp: int | None = None
    timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE
    headers: Sequence[Header] = field(default_factory=tuple)
    original_topic: str = ""
    original_partition: int = -1
    original_offset: int = -1


ConnectRecord = SourceRecord | SinkRecord
