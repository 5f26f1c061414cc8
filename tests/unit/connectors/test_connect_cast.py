"""Cast: the casts of Java's numbers, texts and dates."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from kcli.formats.connect.schema import (
    BYTES_SCHEMA,
    DATE_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant, Int8, Int16, Int32
from rigs.transforms import config_refusal, refusal, sink, transformation

LARGEST_LONG = 2**63 - 1


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (300, "int8", Int8(44)),
        (-129, "int8", Int8(127)),
        (70000, "int16", Int16(4464)),
        (5_000_000_000, "int32", Int32(705032704)),
        (-2.5, "int32", Int32(-2)),
        (float("nan"), "int32", Int32(0)),
        (1e300, "int64", LARGEST_LONG),
        (1e10, "int8", Int8(-1)),
        (True, "int64", 1),
        ("+12", "int32", Int32(12)),
        ("-128", "int8", Int8(-128)),
        (0.5, "boolean", False),
        ("TRUE", "boolean", True),
        ("yes", "boolean", False),
        (2**53 + 1, "float64", float(2**53)),
        # The nearest double is in the middle between two floats, and the number is above the middle.
        (2**60 + 2**36 + 1, "float32", Float32(2**60 + 2**37)),
        ("1.00000017881393432617187500001", "float32", Float32.of(1.0000002384185791)),
        (" 12 ", "float64", 12.0),
        (False, "float32", Float32(0)),
        (1e21, "string", "1.0E21"),
        (Float32.of(0.1), "string", "0.1"),
        (True, "string", "true"),
        (b"\x01", "string", "AQ=="),
        (memoryview(b"\x01"), "string", "AQ=="),
        (None, "int8", None),
    ],
)
def test_a_value_without_a_schema_is_cast(value: object, target: str, expected: object) -> None:
    changed = transformation("Cast$Value", spec=target).apply(sink(value))
    assert changed is not None
    assert (changed.value, type(changed.value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("schema", "value", "target", "expected"),
    [
        (TIMESTAMP_SCHEMA, Instant(1_700_000_000_123), "int32", Int32(-807049093)),
        (DATE_SCHEMA, Instant(1_641_600_000_000), "int64", 19000),
        (TIME_SCHEMA, Instant(3_723_004), "int32", Int32(3_723_004)),
        (decimal_schema(2), Decimal("-12.75"), "int8", Int8(-12)),
        (decimal_schema(2), Decimal("12.75"), "float64", 12.75),
        (decimal_schema(2), Decimal("12.50"), "string", "12.50"),
        (decimal_schema(0), Decimal("1e1000"), "int64", 0),
        (BYTES_SCHEMA, b"\x01", "string", "AQ=="),
    ],
)
def test_a_value_of_a_logical_type_is_cast_as_its_stored_number(
    schema: Schema, value: object, target: str, expected: object
) -> None:
    changed = transformation("Cast$Value", spec=target).apply(sink(value, schema))
    assert changed is not None
    assert changed.value == expected
    assert changed.value_schema is not None
    assert (changed.value_schema.type, changed.value_schema.name) == (SchemaType(target), schema.name)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (TIMESTAMP_SCHEMA, 1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (DATE_SCHEMA, 1_641_600_000_000, "2022-01-08"),
        (TIME_SCHEMA, 3_723_004, "01:02:03.004Z"),
    ],
)
def test_a_date_is_cast_to_a_text_in_the_time_zone_of_the_process(
    schema: Schema, value: int, text: str, utc: None
) -> None:
    changed = transformation("Cast$Value", spec="string").apply(sink(Instant(value), schema))
    assert changed is not None
    assert changed.value == text


def test_fields_of_a_struct_are_cast_with_their_defaults() -> None:
    schema = struct_schema(
        {
            "a": Schema(SchemaType.INT32, optional=True, default=300, doc="dropped"),
            "b": INT32_SCHEMA,
        },
        name="S",
        version=2,
        optional=True,
    )
    cast = transformation("Cast$Value", spec="a:int8")
    changed = cast.apply(sink(Struct(schema, {"b": 9}), schema))
    fields = {"a": Schema(SchemaType.INT8, optional=True, default=Int8(44)), "b": INT32_SCHEMA}
    expected = struct_schema(fields, name="S", version=2, optional=True)
    assert changed == sink(Struct(expected, {"a": Int8(44), "b": 9}), expected)
    kept = transformation("Cast$Value", spec="a:int8", replace_null_with_default="false")
    assert kept.apply(sink(Struct(schema, {"b": 9}), schema)) == sink(Struct(expected, {"b": 9}), expected)


def test_fields_of_a_map_are_cast_and_a_missing_field_becomes_null() -> None:
    cast = transformation("Cast$Key", spec="a:int32, b:string")
    changed = cast.apply(sink(key={"a": "1", "c": 2}))
    assert changed == sink(key={"a": Int32(1), "b": None, "c": 2})


def test_the_new_schema_of_a_whole_value_keeps_everything_but_the_type() -> None:
    schema = Schema(SchemaType.INT64, default=70000, name="n", version=3, doc="d", parameters={"p": "1"})
    changed = transformation("Cast$Value", spec="int8").apply(sink(5, schema))
    assert changed is not None
    assert changed.value_schema == replace(schema, type=SchemaType.INT8, default=Int8(112))


@pytest.mark.parametrize(
    ("value", "schema", "target", "chain"),
    [
        (
            "abc",
            None,
            "int32",
            [
                ("DataException", "Value (abc) was out of range for requested data type"),
                ("NumberFormatException", 'For input string: "abc"'),
            ],
        ),
        (
            "300",
            None,
            "int8",
            [
                ("DataException", "Value (300) was out of range for requested data type"),
                ("NumberFormatException", 'Value out of range. Value:"300" Radix:10'),
            ],
        ),
        (
            Instant(1),
            None,
            "int64",
            [
                (
                    "DataException",
                    (
                        "Cast transformation was passed a value of type class java.util.Date which is not supported by"
                        " Connect's data API"
                    ),
                )
            ],
        ),
        (
            [1],
            array_schema(INT64_SCHEMA),
            "string",
            [
                (
                    "DataException",
                    (
                        "Cast transformation does not support casting from ARRAY; supported types are [INT8, INT16,"
                        " INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]"
                    ),
                )
            ],
        ),
        (
            b"x",
            BYTES_SCHEMA,
            "boolean",
            [("DataException", "Unexpected type in Cast transformation: class [B")],
        ),
        (
            Instant(1),
            DATE_SCHEMA,
            "int32",
            [
                (
                    "DataException",
                    "Kafka Connect Date type should not have any time fields set to non-zero values.",
                )
            ],
        ),
        ("x", INT32_SCHEMA, "a:int8", [("DataException", "Cannot list fields on non-struct type")]),
        (
            [],
            None,
            "a:int8",
            [
                (
                    "DataException",
                    "Only Map objects supported in absence of schema for [cast types], found: java.util.ArrayList",
                )
            ],
        ),
    ],
)
def test_a_value_that_cannot_be_cast_is_refused(
    value: object, schema: Schema | None, target: str, chain: list[tuple[str, str]]
) -> None:
    assert refusal("Cast$Value", sink(value, schema), spec=target) == chain


def test_the_error_of_the_first_field_is_reported() -> None:
    schema = struct_schema({"a": INT32_SCHEMA, "b": array_schema(INT64_SCHEMA)})
    chain = [("DataException", 'Invalid value: null used for required field: "a", schema type: INT32')]
    assert refusal("Cast$Value", sink(Struct(schema, {"b": []}), schema), spec="b:int8") == chain


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "Must specify at least one field to cast."),
        ("a:b:c", "Invalid value [a:b:c] for configuration renames: Invalid rename mapping: a:b:c"),
        (
            "a:",
            (
                "Invalid value java.lang.IllegalArgumentException: No enum constant"
                " org.apache.kafka.connect.data.Schema.Type.A for configuration Invalid type found in casting spec: a"
            ),
        ),
        (
            "a:int32,int64",
            (
                "Cast transformations that specify a type to cast the entire value to may only specify a single cast in"
                " their spec"
            ),
        ),
        (
            "a:bytes",
            (
                "Cast transformation does not support casting to BYTES; supported types are [INT8, INT16, INT32, INT64,"
                " FLOAT32, FLOAT64, BOOLEAN, STRING]"
            ),
        ),
    ],
)
def test_an_invalid_spec_is_refused(spec: str, message: str) -> None:
    assert config_refusal("Cast$Value", spec=spec) == message
