"""Records between connectors, transformations and converters (org.apache.kafka.connect.connector.ConnectRecord).

Code treats a record as a value: a transformation returns another record (`dataclasses.replace`). The classes are not
frozen, because a worker makes one object for each record, and a frozen class takes four times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar, cast

from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.schema import Schema


@dataclass(slots=True)
class Header:
    """A header. Its schema is None if the value has no schema."""

    key: str
    schema: Schema | None
    value: object

    def __str__(self) -> str:
        return f"ConnectHeader(key={self.key}, value={java_string(self.value)}, schema={java_string(self.schema)})"


class TimestampType(IntEnum):
    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    def __str__(self) -> str:
        """Java's name, such as `CreateTime`."""
        return self.name.title().replace("_", "")


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

    def __str__(self) -> str:
        own = f"sourcePartition={java_string(self.source_partition)}, sourceOffset={java_string(self.source_offset)}"
        return f"SourceRecord{{{own}}} {_common_text(self)}"


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

    @property
    def origin(self) -> tuple[str, int, int]:
        """The topic, the partition and the offset where the record stands. They are unique, although a transformation
        may give the records of several topics the same topic."""
        if not self.original_topic:
            return self.topic, self.partition, self.offset
        return self.original_topic, self.original_partition, self.original_offset

    def __str__(self) -> str:
        own = (
            f"kafkaOffset={self.offset}, timestampType={self.timestamp_type}, originalTopic={self.original_topic}, "
            f"originalKafkaPartition={self.original_partition}, originalKafkaOffset={self.original_offset}"
        )
        return f"SinkRecord{{{own}}} {_common_text(self)}"


ConnectRecord = SourceRecord | SinkRecord
R = TypeVar("R", bound=ConnectRecord)


def copied(record: R) -> R:
    """A copy of a record, for a caller that changes some fields of the copy.

    `dataclasses.replace` takes six times as long.
    """
    if isinstance(record, SinkRecord):
        sink = SinkRecord(
            record.topic, record.partition, record.offset, record.value, record.value_schema, record.key,
            record.key_schema, record.timestamp, record.timestamp_type, record.headers, record.original_topic,
            record.original_partition, record.original_offset,
        )  # fmt: skip
        return cast(R, sink)
    assert isinstance(record, SourceRecord)
    source = SourceRecord(
        record.source_partition, record.source_offset, record.topic, record.value, record.value_schema, record.key,
        record.key_schema, record.partition, record.timestamp, record.headers,
    )  # fmt: skip
    return cast(R, source)


def _common_text(record: ConnectRecord) -> str:
    headers = f"[{', '.join(map(str, record.headers))}]" if record.headers else ""
    return (
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={java_string(record.partition)}, "
        f"key={java_string(record.key)}, keySchema={java_string(record.key_schema)}, "
        f"value={java_string(record.value)}, valueSchema={java_string(record.value_schema)}, "
        f"timestamp={java_string(record.timestamp)}, headers=ConnectHeaders(headers={headers})}}"
    )
