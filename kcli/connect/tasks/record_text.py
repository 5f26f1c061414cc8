"""The text of a source record in the log, as Java's `SourceRecord.toString` makes it."""

from __future__ import annotations

from kcli.connectors.records import SourceRecord
from kcli.formats.connect.schema import Schema


def source_record_text(record: SourceRecord) -> str:
    headers = ", ".join(
        f"ConnectHeader(key={header.key}, value={_text(header.value)}, schema={_schema_text(header.schema)})"
        for header in record.headers
    )
    return (
        f"SourceRecord{{sourcePartition={_text(record.source_partition)}, sourceOffset={_text(record.source_offset)}}} "
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={_text(record.partition)}, key={_text(record.key)}, "
        f"keySchema={_schema_text(record.key_schema)}, value={_text(record.value)}, "
        f"valueSchema={_schema_text(record.value_schema)}, timestamp={_text(record.timestamp)}, "
        f"headers=ConnectHeaders(headers={headers})}}"
    )


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{_text(key)}={_text(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_text, value)) + "]"
        case _:
            return str(value)


def _schema_text(schema: Schema | None) -> str:
    if schema is None:
        return "null"
    name = f"{schema.name}:" if schema.name is not None else ""
    return f"Schema{{{name}{schema.type.upper()}}}"
