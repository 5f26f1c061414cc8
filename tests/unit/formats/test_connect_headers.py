"""The converter of headers: values as text, and the values that texts probably have."""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal

import pytest

from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.header_text import value_text
from kcli.formats.connect.header_values import parse_value
from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from kcli.formats.connect.simple_header import SimpleHeaderConverter
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant, Int8, java_class

DAY_MS = 86_400_000
UNTYPED_ARRAY, UNTYPED_MAP = Schema(SchemaType.ARRAY), Schema(SchemaType.MAP)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


POINT = struct_schema({"x": INT8_SCHEMA, "t": Schema(SchemaType.STRING, default='a"b\\')})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('q"\\', 'q"\\'),
        (True, "true"),
        (Int8(1), "1"),
        (1e10, "1.0E10"),
        (Decimal("1.50"), "1.50"),
        (b"\1\2", "AQI="),
        (memoryview(b"\1"), "AQ=="),
        ([1, "a", None, b"\1", [True]], '[1,"a",null,"AQ==",[true]]'),
        ({"k": "v", 1: 2.5}, '{"k":"v",1:2.5}'),
        (Struct(POINT, {"x": 1}), '{"x":1,"t":"a\\"b\\\\"}'),
        (Instant(3_723_004), "01:02:03.004Z"),
        (Instant(-1), "23:59:59.999Z"),
        (Instant(DAY_MS), "1970-01-02"),
        (Instant(DAY_MS + 1), "1970-01-02T00:00:00.001Z"),
        (dt.date(2024, 2, 29), "2024-02-29"),
    ],
)
def test_a_value_has_a_text(value: object, text: str) -> None:
    assert value_text(value) == text
    assert SimpleHeaderConverter().from_connect_header("t", "h", None, value) == text.encode()


def test_a_value_of_another_class_has_no_text() -> None:
    with pytest.raises(DataException, match=r"unexpected value type java\.util\.UUID: 00000000-0000"):
        value_text(uuid.UUID(int=1))


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("", STRING_SCHEMA, ""),
        (" ", STRING_SCHEMA, " "),
        ("null", None, None),
        (" true ", BOOLEAN_SCHEMA, True),
        ("true}", STRING_SCHEMA, "true}"),
        ("True", STRING_SCHEMA, "True"),
        ("-128", INT8_SCHEMA, -128),
        ("128", INT16_SCHEMA, 128),
        ("32768", INT32_SCHEMA, 32768),
        ("2147483648", INT64_SCHEMA, 2147483648),
        ("9223372036854775808", decimal_schema(0), Decimal(2**63)),
        ("1.0", INT8_SCHEMA, 1),
        ("5.", INT8_SCHEMA, 5),
        (".5", STRING_SCHEMA, ".5"),
        ("+.5", FLOAT32_SCHEMA, 0.5),
        ("1e5", INT32_SCHEMA, 100_000),
        ("0e400", INT8_SCHEMA, 0),
        ("1.1", FLOAT32_SCHEMA, Float32.of(1.1)),
        ("123456789.123456789", FLOAT32_SCHEMA, 123456792.0),
        ("1e300", FLOAT64_SCHEMA, 1e300),
        ("1e400", decimal_schema(-400), Decimal("1e400")),
        ("1e-400", FLOAT32_SCHEMA, 0.0),
        ("1,2", INT8_SCHEMA, 1),
        ("1_000", STRING_SCHEMA, "1_000"),
        ("2024-02-29", DATE_SCHEMA, 1709164800000),
        ("2023-02-29", DATE_SCHEMA, 1677628800000),
        ("01:02:03.004Z", TIME_SCHEMA, 3_723_004),
        ("01:02:03Z", INT8_SCHEMA, 1),
        ("2024-02-29T01:02:03.004Z", TIMESTAMP_SCHEMA, 1709168523004),
        ("2024-02-29T01\\:02\\:03.004Z", TIMESTAMP_SCHEMA, 1709168523004),
        ("2024-02-29T01:02:03.004Z extra", STRING_SCHEMA, "2024-02-29T01:02:03.004Z extra"),
        ("[]", UNTYPED_ARRAY, []),
        ("[1] x", array_schema(INT8_SCHEMA), [1]),
        ("[1,300]", array_schema(INT16_SCHEMA), [1, 300]),
        ("[ 1 , 2.5 ]", array_schema(FLOAT32_SCHEMA), [1.0, 2.5]),
        ("[1,1e300]", array_schema(FLOAT64_SCHEMA), [1.0, 1e300]),
        ('[1,"a"]', UNTYPED_ARRAY, [1, "a"]),
        ('["a",null]', STRING_SCHEMA, '["a",null]'),
        ("[null]", UNTYPED_ARRAY, [None]),
        ("[1,]", array_schema(INT8_SCHEMA), [1]),
        ("[,1]", STRING_SCHEMA, "[,1]"),
        ("[1", STRING_SCHEMA, "[1"),
        ("[a]", STRING_SCHEMA, "[a]"),
        ("[1 2]", STRING_SCHEMA, "[1 2]"),
        ('["1970-01-02",1970-01-02]', array_schema(DATE_SCHEMA), [DAY_MS, DAY_MS]),
        ("[1970-01-02,2]", array_schema(DATE_SCHEMA), [DAY_MS, 2 * DAY_MS]),
        ("[2,01:02:03.004Z]", array_schema(TIME_SCHEMA), [2, 3_723_004]),
        ("[1970-01-02,70000]", STRING_SCHEMA, "[1970-01-02,70000]"),
        ("[1,1970-01-02T00:00:00.001Z]", array_schema(TIMESTAMP_SCHEMA), [1, DAY_MS + 1]),
        ("[[1],[300]]", array_schema(array_schema(INT16_SCHEMA)), [[1], [300]]),
        ('["a\\"b"]', array_schema(STRING_SCHEMA), ['a\\"b']),
        ('["open]', STRING_SCHEMA, '["open]'),
        ("{}", UNTYPED_MAP, {}),
        ('{"a":1,"b":300}', map_schema(STRING_SCHEMA, INT16_SCHEMA), {"a": 1, "b": 300}),
        (' {"a" : 1 , }', map_schema(STRING_SCHEMA, INT8_SCHEMA), {"a": 1}),
        ('{"a":1 "b":2}', map_schema(STRING_SCHEMA, INT8_SCHEMA), {"a": 1, "b": 2}),
        ('{"a":null}', Schema(SchemaType.MAP, key_schema=STRING_SCHEMA), {"a": None}),
        ('{1:2,"a":3}', UNTYPED_MAP, {1: 2, "a": 3}),
        ("{[1]:2}", map_schema(array_schema(INT8_SCHEMA), INT8_SCHEMA), {(1,): 2}),
        ("{null:1}", STRING_SCHEMA, "{null:1}"),
        ('{"a"}', STRING_SCHEMA, '{"a"}'),
        ('{,"a":1}', STRING_SCHEMA, '{,"a":1}'),
        ('{"a":1', STRING_SCHEMA, '{"a":1'),
        ('"quoted"', STRING_SCHEMA, '"quoted"'),
        ("\\", STRING_SCHEMA, "\\"),
        ("a:b", STRING_SCHEMA, "a:b"),
    ],
)
def test_a_text_has_a_value(text: str, schema: Schema | None, value: object) -> None:
    assert parse_value(text) == SchemaAndValue(schema, value)


def test_a_value_has_the_java_class_of_its_schema() -> None:
    assert java_class(parse_value("1").value) == "java.lang.Byte"
    items = parse_value("[1,70000]").value
    assert isinstance(items, list) and [java_class(item) for item in items] == ["java.lang.Integer"] * 2
    mixed = parse_value('[1,"a"]').value
    assert isinstance(mixed, list) and java_class(mixed[0]) == "java.lang.Byte"


def test_null_has_no_bytes_and_no_value() -> None:
    converter = SimpleHeaderConverter()
    assert converter.from_connect_header("t", "h", STRING_SCHEMA, None) is None
    assert converter.to_connect_header("t", "h", None) == (None, None)
    assert converter.to_connect_header("t", "h", b"\xff") == (STRING_SCHEMA, "\ufffd")


def test_bytes_that_cannot_be_read_stay_bytes(caplog: pytest.LogCaptureFixture) -> None:
    deep = b"[" * 100_000
    with caplog.at_level(logging.WARNING):
        assert SimpleHeaderConverter().to_connect_header("t", "h", deep) == (BYTES_SCHEMA, deep)
    assert "Failed to deserialize value for header 'h' on topic 't'" in caplog.text


def test_a_date_has_the_zone_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert value_text(Instant(5)) == "19:00:00.005Z"
    assert parse_value("2024-02-29").value == Instant(1709182800000)


def test_a_struct_is_read_back_as_a_map() -> None:
    converter = SimpleHeaderConverter()
    data = converter.from_connect_header("t", "h", POINT, Struct(POINT, {"x": 1}))
    schema, value = converter.to_connect_header("t", "h", data)
    assert schema == Schema(SchemaType.MAP, key_schema=STRING_SCHEMA) and value == {"x": 1, "t": 'a\\"b\\\\'}
