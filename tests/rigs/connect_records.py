"""The notation of records in the recordings of Kafka Connect's transformations."""

from __future__ import annotations

from typing import Any

from kcli.connectors.records import ConnectRecord, Header, SinkRecord, SourceRecord, TimestampType
from rigs.connect_notation import read_schema, read_value, written_schema, written_value

Json = dict[str, Any]


def read_record(written: Json) -> ConnectRecord:
    """The record of a notation. Raises DataException if a struct does not take one of its values."""
    key_schema, value_schema = read_schema(written["key_schema"]), read_schema(written["value_schema"])
    key, value = read_value(key_schema, written["key"]), read_value(value_schema, written["value"])
    headers = [_read_header(header) for header in written["headers"]]
    topic, partition, timestamp = written["topic"], written["partition"], written["timestamp"]
    if written["kind"] == "source":
        return SourceRecord(
            {}, {}, topic, value, value_schema, key, key_schema, partition, timestamp, headers
        )
    return SinkRecord(
        topic, partition, written["offset"], value, value_schema, key, key_schema, timestamp,
        TimestampType.CREATE_TIME, headers, topic, partition, written["offset"],
    )  # fmt: skip


def _read_header(written: Json) -> Header:
    schema = read_schema(written["schema"])
    return Header(written["key"], schema, read_value(schema, written["value"]))


def written_record(record: ConnectRecord) -> Json:
    headers = [
        {
            "key": header.key,
            "schema": written_schema(header.schema),
            "value": written_value(header.schema, header.value),
        }
        for header in record.headers
    ]
    is_sink = isinstance(record, SinkRecord)
    return {
        "kind": "sink" if is_sink else "source",
        "topic": record.topic,
        "partition": record.partition,
        **({"offset": record.offset} if isinstance(record, SinkRecord) else {}),
        "key_schema": written_schema(record.key_schema),
        "key": written_value(record.key_schema, record.key),
        "value_schema": written_schema(record.value_schema),
        "value": written_value(record.value_schema, record.value),
        "timestamp": record.timestamp,
        "headers": headers,
    }
