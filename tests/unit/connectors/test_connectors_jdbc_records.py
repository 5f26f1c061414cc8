"""The records that the JDBC sink refuses, with Java's texts."""

from __future__ import annotations

import pytest

from kcli.connectors.jdbc.sink_keys import SinkSettings
from kcli.connectors.jdbc.target_fields import check_record, target_fields
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import (
    INT32_SCHEMA,
    STRING_SCHEMA,
    Schema,
    array_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

VALUE = struct_schema({"a": INT32_SCHEMA})


def settings(**keys: str) -> SinkSettings:
    config = {"name": "C", "connection.url": "jdbc:sqlite::memory:"}
    return SinkSettings.of(config | {key.replace("_", "."): value for key, value in keys.items()})


def refused(record: SinkRecord, **keys: str) -> str:
    with pytest.raises(ConnectException) as raised:
        check_record(settings(**keys), record)
    return str(raised.value)


def test_a_record_without_a_schema_gets_a_hint() -> None:
    record = SinkRecord("t", 0, 7, {"a": 1}, None, timestamp=1234)
    text, _, hint = refused(record).partition(" Hint: ")
    assert text == (
        "Sink connector 'C' is configured with 'delete.enabled=false' and 'pk.mode=none' and therefore requires"
        " records with a non-null Struct or String value and non-null Struct or String schema, but found record at"
        " (topic='t',partition=0,offset=7,timestamp=1234) with a HashMap value and null value schema."
    )
    assert "value.converter.schemas.enable=true" in hint


@pytest.mark.parametrize(
    ("record", "keys", "end"),
    [
        (SinkRecord("t", 0, 7), {}, "timestamp=null) with a null value and null value schema."),
        (
            SinkRecord("t", 0, 7, None, VALUE),
            {"pk_mode": "kafka"},
            "with a null value and Struct value schema.",
        ),
        (SinkRecord("t", 0, 7, 5, INT32_SCHEMA), {}, "with a Long value and int32 value schema."),
        (
            SinkRecord("t", 0, 7, Struct(VALUE), VALUE),
            {"pk_mode": "record_key"},
            "with a null key and null key schema.",
        ),
        (
            SinkRecord("t", 0, 7, None, None, [1], array_schema(INT32_SCHEMA)),
            {"pk_mode": "record_key", "delete_enabled": "true"},
            "with a ArrayList key and array key schema.",
        ),
    ],
)
def test_keys_and_values_that_the_mode_needs(record: SinkRecord, keys: dict[str, str], end: str) -> None:
    assert refused(record, **keys).endswith(end)


@pytest.mark.parametrize(
    ("keys", "key_schema", "value_schema", "message"),
    [
        ({"pk_mode": "kafka", "pk_fields": "a,b"}, None, VALUE, "or exactly 3, defined fields are: [a, b]"),
        (
            {"pk_mode": "record_key"},
            None,
            VALUE,
            "PK mode for table 'T' is RECORD_KEY, but record key schema is missing",
        ),
        (
            {"pk_mode": "record_key"},
            STRING_SCHEMA,
            VALUE,
            "Need exactly one PK column defined since the key schema",
        ),
        (
            {"pk_mode": "record_key", "pk_fields": "z"},
            VALUE,
            VALUE,
            (
                "PK mode for table 'T' is RECORD_KEY with configured PK fields [z], but record key schema does not"
                " contain field: z"
            ),
        ),
        (
            {"pk_mode": "record_key"},
            array_schema(INT32_SCHEMA),
            VALUE,
            "Key schema must be primitive type or Struct, but is of type: ARRAY",
        ),
        (
            {"pk_mode": "record_value"},
            None,
            STRING_SCHEMA,
            "pk.mode record_value is not supported with String value",
        ),
        ({}, None, INT32_SCHEMA, "Value schema must be of type Struct or String"),
        ({"fields_whitelist": "z"}, None, VALUE, "No fields found using key and value schemas for table: T"),
        (
            {"pk_mode": "record_key", "pk_fields": "record_value"},
            STRING_SCHEMA,
            STRING_SCHEMA,
            "Configured string.output.value.column.name 'record_value' conflicts with a primary key column",
        ),
    ],
)
def test_schemas_that_have_no_columns(
    keys: dict[str, str], key_schema: Schema | None, value_schema: Schema, message: str
) -> None:
    with pytest.raises(ConnectException) as raised:
        target_fields(settings(**keys), "T", key_schema, value_schema)
    assert message in str(raised.value)
