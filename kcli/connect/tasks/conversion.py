"""Converts lists of records between Connect's values and bytes.

Most batches have no transformations and no bad record. They are converted in one comprehension each. If that fails, or
if there are transformations, each record is converted alone, so that only the bad record is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from kcli.connect.tasks.plugins import Plugins
from kcli.connect.tasks.tolerance import Skipped, Stage, Tolerance
from kcli.connectors.records import Header, SinkRecord, SourceRecord, TimestampType
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import ConnectException
from kcli.rdkafka.objects import Headers, Message

NO_PARTITION = -1
"""librdkafka then chooses the partition."""

R = TypeVar("R", SourceRecord, SinkRecord)


class Outgoing(NamedTuple):
    """A record for the producer, in the order of the arguments of `produce`."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp: int
    headers: Headers | None


class InvalidRecordException(ConnectException):
    java_class = "org.apache.kafka.common.InvalidRecordException"


class SourceConversion:
    """Converts the records of a source task. A result of None means that the record is left out."""

    def __init__(self, plugins: Plugins, tolerance: Tolerance) -> None:
        self._plugins = plugins
        self._tolerance = tolerance

    def convert(self, records: Sequence[SourceRecord]) -> Iterable[Outgoing | None]:
        """Returns the converted records. With a bad record, they are converted when they are taken, so that the
        records before the bad one can be sent."""
        if not self._plugins.steps:
            with contextlib.suppress(Exception):  # each record alone finds the bad one, and handles the error
                return list(self._all(records))
        return map(self._one, records)

    def _all(self, records: Iterable[SourceRecord]) -> Iterable[Outgoing]:
        key_of, value_of = self._plugins.key.from_connect, self._plugins.value.from_connect
        no_key: dict[str, bytes | None] = {}
        for record in records:
            topic = record.topic
            if record.key is not None or record.key_schema is not None:
                key = key_of(topic, record.key_schema, record.key)
            elif topic in no_key:
                key = no_key[topic]
            else:
                key = no_key[topic] = key_of(topic, None, None)
            yield Outgoing(
                topic,
                value_of(topic, record.value_schema, record.value),
                key,
                NO_PARTITION if record.partition is None else record.partition,
                _timestamp(record.timestamp),
                self._headers(topic, record.headers) if record.headers else None,
            )

    def _one(self, record: SourceRecord) -> Outgoing | None:
        """Transforms and converts one record. The errors of the operations concern the record before transformations,
        as in Java."""
        plugins, run = self._plugins, self._tolerance.run
        try:
            changed = _transformed(plugins, self._tolerance, record, record)
            if changed is None:
                return None
            headers = run(
                record, Stage.HEADER_CONVERTER, plugins.header_name,
                partial(self._headers, changed.topic, changed.headers),
            )  # fmt: skip
            key = run(
                record, Stage.KEY_CONVERTER, plugins.key_name,
                partial(plugins.key.from_connect, changed.topic, changed.key_schema, changed.key),
            )  # fmt: skip
            value = run(
                record, Stage.VALUE_CONVERTER, plugins.value_name,
                partial(plugins.value.from_connect, changed.topic, changed.value_schema, changed.value),
            )  # fmt: skip
        except Skipped:
            return None
        partition = NO_PARTITION if changed.partition is None else changed.partition
        return Outgoing(changed.topic, value, key, partition, _timestamp(changed.timestamp), headers or None)

    def _headers(self, topic: str, headers: Iterable[Header]) -> Headers:
        to_bytes = self._plugins.header.from_connect_header
        return [(header.key, to_bytes(topic, header.key, header.schema, header.value)) for header in headers]


def _timestamp(timestamp: int | None) -> int:
    """The timestamp for librdkafka, for which 0 means now."""
    if timestamp is None or timestamp == -1:
        return 0
    if timestamp < 0:
        raise InvalidRecordException(f"Invalid record timestamp {timestamp}")
    return timestamp


class ReportableRecord(SinkRecord):
    """A record of a sink task that may report it. `message` has its original bytes, for a dead letter."""

    __slots__ = ("message",)
    message: Message


class SinkConversion:
    """Converts consumed messages to the records of a sink task. Records that must be left out are not in the result."""

    def __init__(self, plugins: Plugins, tolerance: Tolerance, *, reportable: bool) -> None:
        self._plugins = plugins
        self._tolerance = tolerance
        self._reportable = reportable
        self._new: Callable[..., SinkRecord] = ReportableRecord if reportable else SinkRecord

    def convert(self, messages: Sequence[Message]) -> list[SinkRecord]:
        if not self._plugins.steps:
            with contextlib.suppress(Exception):  # each record alone finds the bad one, and handles the error
                return self._all(messages)
        records = map(self._one, messages)
        return [record for record in records if record is not None]

    def _all(self, messages: Iterable[Message]) -> list[SinkRecord]:
        key_of, value_of, new = self._plugins.key.to_connect, self._plugins.value.to_connect, self._new
        no_key: dict[str, SchemaAndValue] = {}
        records: list[SinkRecord] = []
        for message in messages:
            topic, data, partition, offset = (
                message.topic(), message.key(), message.partition(), message.offset()
            )  # fmt: skip
            if data is not None:
                key_schema, key = key_of(topic, data)
            elif topic in no_key:
                key_schema, key = no_key[topic]
            else:
                key_schema, key = no_key[topic] = key_of(topic, None)
            value_schema, value = value_of(topic, message.value())
            kind, timestamp = message.timestamp()
            headers = message.headers()
            records.append(
                new(
                    topic, partition, offset, value, value_schema, key, key_schema,
                    timestamp if kind else None, _TIMESTAMP_TYPES[kind],
                    self._headers(topic, headers) if headers else (),
                    topic, partition, offset,
                )
            )  # fmt: skip
        if self._reportable:
            for record, message in zip(records, messages, strict=True):
                record.message = message  # type: ignore[attr-defined]  # `_new` makes ReportableRecords
        return records

    def _one(self, message: Message) -> SinkRecord | None:
        plugins, run, topic = self._plugins, self._tolerance.run, message.topic()
        try:
            key = run(
                message, Stage.KEY_CONVERTER, plugins.key_name,
                partial(plugins.key.to_connect, topic, message.key()),
            )  # fmt: skip
            value = run(
                message, Stage.VALUE_CONVERTER, plugins.value_name,
                partial(plugins.value.to_connect, topic, message.value()),
            )  # fmt: skip
            headers = run(
                message, Stage.HEADER_CONVERTER, plugins.header_name,
                partial(self._headers, topic, message.headers() or []),
            )  # fmt: skip
            kind, timestamp = message.timestamp()
            place = (topic, message.partition(), message.offset())
            record = self._new(
                *place, value.value, value.schema, key.value, key.schema,
                timestamp if kind else None, _TIMESTAMP_TYPES[kind], headers, *place,
            )  # fmt: skip
            changed = _transformed(plugins, self._tolerance, message, record)
        except Skipped:
            return None
        if changed is not None and self._reportable:
            if not isinstance(changed, ReportableRecord):
                changed = ReportableRecord(*(getattr(changed, name) for name in SinkRecord.__slots__))
            changed.message = message
        return changed

    def _headers(self, topic: str, headers: Headers) -> Sequence[Header]:
        to_connect = self._plugins.header.to_connect_header
        return [Header(name, *to_connect(topic, name, data)) for name, data in headers]


_TIMESTAMP_TYPES = {
    0: TimestampType.NO_TIMESTAMP_TYPE,
    1: TimestampType.CREATE_TIME,
    2: TimestampType.LOG_APPEND_TIME,
}
"""librdkafka's numbers of the types of timestamps."""


def _transformed(plugins: Plugins, tolerance: Tolerance, reported: object, record: R) -> R | None:
    """Applies the chain of transformations. Errors are reported for `reported`."""
    changed: R | None = record
    for step in plugins.steps:
        assert changed is not None
        changed = tolerance.run(reported, Stage.TRANSFORMATION, step.class_name, partial(step.apply, changed))
        if changed is None:
            return None
    return changed
