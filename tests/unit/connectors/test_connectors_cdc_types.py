"""Values of PostgreSQL as values of Connect, from the texts that PostgreSQL sends."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from kcli.connectors.cdc.field_types import value_type
from kcli.connectors.cdc.nested_text import array_items, hstore_json
from kcli.connectors.cdc.times import (
    clock_us,
    date_text,
    days,
    interval,
    moment_us,
    zoned_clock,
    zoned_moment,
)
from kcli.connectors.cdc.value_types import DOMAIN, ENUM, Modes, TypeInfo
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import SchemaType, check_value
from kcli.formats.connect.structs import Struct

NUMERIC_7_2 = (7 << 16 | 2) + 4
NUMERIC_3_MINUS_2 = (3 << 16 | (-2 & 0x7FF)) + 4

CASES = [
    ("bool", -1, "t", "boolean", True),
    ("int2", -1, "-7", "int16", -7),
    ("int4", -1, "7", "int32", 7),
    ("int8", -1, "5000000000", "int64", 5_000_000_000),
    ("oid", -1, "4294967295", "int64", 4_294_967_295),
    ("float4", -1, "1.1", "float32", 1.100000023841858),
    ("float8", -1, "-Infinity", "float64", float("-inf")),
    ("text", -1, "ä", "string", "ä"),
    ("bpchar", 7, "x  ", "string", "x  "),
    ("inet", -1, "10.0.0.1/8", "string", "10.0.0.1/8"),
    ("box", -1, "(1,2),(0,0)", "string", "(1,2),(0,0)"),
    ("jsonb", -1, '{"a": 1}', "io.debezium.data.Json", '{"a": 1}'),
    ("uuid", -1, "6f1e", "io.debezium.data.Uuid", "6f1e"),
    ("xml", -1, "<a/>", "io.debezium.data.Xml", "<a/>"),
    ("hstore", -1, '"a"=>"1", "b"=>NULL', "io.debezium.data.Json", '{"a":"1","b":null}'),
    ("numeric", NUMERIC_7_2, "-1.50", "org.apache.kafka.connect.data.Decimal", Decimal("-1.50")),
    ("numeric", NUMERIC_3_MINUS_2, "12300", "org.apache.kafka.connect.data.Decimal", Decimal("1.23E+4")),
    ("money", -1, "-$1,234.50", "org.apache.kafka.connect.data.Decimal", Decimal("-1234.50")),
    ("bytea", -1, "\\x00ff", "bytes", b"\x00\xff"),
    ("bit", 1, "1", "boolean", True),
    ("bit", 10, "1000000001", "io.debezium.data.Bits", b"\x01\x02"),
    ("date", -1, "2024-02-29", "io.debezium.time.Date", 19_782),
    ("time", 3, "10:00:01.5", "io.debezium.time.Time", 36_001_500),
    ("time", -1, "24:00:00", "io.debezium.time.MicroTime", 86_400_000_000),
    ("timetz", -1, "01:00:00.25+02", "io.debezium.time.ZonedTime", "23:00:00.25Z"),
    ("timestamp", 3, "2024-02-29 10:00:01.25", "io.debezium.time.Timestamp", 1_709_200_801_250),
    ("timestamp", -1, "2024-02-29 10:00:01.25", "io.debezium.time.MicroTimestamp", 1_709_200_801_250_000),
    ("timestamptz", 3, "2024-02-29 10:00:01.25+00", "io.debezium.time.ZonedTimestamp", "2024-02-29T10:00:01.250Z"),
    ("timestamptz", 0, "2024-02-29 10:00:01+00", "io.debezium.time.ZonedTimestamp", "2024-02-29T10:00:01Z"),
    ("interval", -1, "P1DT2H", "io.debezium.time.MicroDuration", 93_600_000_000),
]  # fmt: skip


@pytest.mark.parametrize(("name", "modifier", "text", "kind", "expected"), CASES)
def test_a_text_becomes_a_value_of_its_field(
    name: str, modifier: int, text: str, kind: str, expected: object
) -> None:
    type = value_type(TypeInfo(name), modifier, Modes())
    value = type.value(type.schema, text)
    assert value == expected
    assert kind in (type.schema.name, type.schema.type)
    assert check_value(type.schema, value) == value
    check_value(type.schema, type.fallback)
    if type.unavailable is not None:
        check_value(type.schema, type.unavailable)


def test_a_numeric_without_a_scale_carries_its_scale() -> None:
    type = value_type(TypeInfo("numeric"), -1, Modes())
    for schema in (type.schema, type.optional_schema):
        value = type.value(schema, "123.4500")
        assert isinstance(value, Struct)
        assert (value.get("scale"), value.get("value")) == (2, (12_345).to_bytes(2))
        assert check_value(schema, value) is value


def test_the_modes_choose_the_form() -> None:
    modes = Modes("string", "connect", "base64", "string")
    forms = {
        ("numeric", "NaN"): "NaN",
        ("money", "$1,234.50"): "1234.50",
        ("date", "2024-02-29"): 1_709_164_800_000,
        ("time", "00:00:01.5"): 1500,
        ("timestamp", "2024-02-29 10:00:01.25"): 1_709_200_801_250,
        ("bytea", "\\x00ff"): "AP8=",
        ("interval", "P1Y-2M3DT-4H5M-6.7S"): "P0Y10M3DT-3H-55M-6.7S",
    }
    for (name, text), expected in forms.items():
        type = value_type(TypeInfo(name), NUMERIC_7_2, modes)
        assert check_value(type.schema, type.value(type.schema, text)) == expected
    assert (
        value_type(TypeInfo("numeric"), -1, replace(modes, decimal_handling="double")).convert("1.5") == 1.5
    )
    hex_type = value_type(TypeInfo("bytea"), -1, replace(modes, binary_handling="hex"))
    assert (hex_type.convert("\\x00ff"), hex_type.schema.type) == ("00ff", SchemaType.STRING)
    micros = value_type(TypeInfo("time"), 3, Modes(time_precision="adaptive_time_microseconds"))
    assert micros.schema.name == "io.debezium.time.MicroTime"


TIMES = {"timestamp": "2020-01-02 03:04:05.678", "date": "2020-01-02", "time": "03:04:05.12"}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("isostring", {
            "timestamp": ("IsoTimestamp", "2020-01-02T03:04:05.678Z"), "date": ("IsoDate", "2020-01-02Z"),
            "time": ("IsoTime", "03:04:05.12Z"),
        }),
        ("microseconds", {
            "timestamp": ("MicroTimestamp", 1_577_934_245_678_000), "date": ("Date", 18_263),
            "time": ("MicroTime", 11_045_120_000),
        }),
        ("nanoseconds", {
            "timestamp": ("NanoTimestamp", 1_577_934_245_678_000_000), "date": ("Date", 18_263),
            "time": ("NanoTime", 11_045_120_000_000),
        }),
        ("adaptive_time_microseconds", {
            "timestamp": ("Timestamp", 1_577_934_245_678), "date": ("Date", 18_263),
            "time": ("MicroTime", 11_045_120_000),
        }),
    ],
)  # fmt: skip
def test_the_precision_of_times_is_chosen(mode: str, expected: dict[str, tuple[str, object]]) -> None:
    for name, text in TIMES.items():
        type = value_type(TypeInfo(name), 3, Modes(time_precision=mode))
        assert (type.schema.name, type.convert(text)) == (
            f"io.debezium.time.{expected[name][0]}",
            expected[name][1],
        )
        assert check_value(type.schema, type.fallback) == type.fallback


def test_ends_of_the_ranges_of_times() -> None:
    iso, nano = Modes(time_precision="isostring"), Modes(time_precision="nanoseconds")
    assert value_type(TypeInfo("time"), -1, iso).convert("24:00:00") == "00:00:00Z"
    assert value_type(TypeInfo("date"), -1, iso).convert("infinity") == "infinity"
    timestamp = value_type(TypeInfo("timestamp"), -1, iso)
    assert timestamp.convert("1969-12-31 23:59:59.999999") == "1969-12-31T23:59:59.999999Z"
    timestamp = value_type(TypeInfo("timestamp"), -1, nano)
    assert timestamp.convert("infinity") == 9_223_372_036_825_200_000
    with pytest.raises(DataException, match="nanoseconds"):
        timestamp.convert("2263-01-01 00:00:00")


def test_an_hstore_is_a_map() -> None:
    type = value_type(TypeInfo("hstore"), -1, Modes(hstore_handling="map", placeholder="?"))
    for value in (type.convert('"a"=>"1", "b"=>NULL'), type.fallback, type.unavailable):
        check_value(type.schema, value)
    assert type.convert('"a"=>"1", "b"=>NULL') == {"a": "1", "b": None}
    assert (type.fallback, type.unavailable) == ({}, {"?": "?"})


def test_enums_domains_and_arrays() -> None:
    mood = TypeInfo("mood", ENUM, labels=("glad", "sad"))
    type = value_type(mood, -1, Modes())
    assert (type.schema.name, type.schema.parameters) == ("io.debezium.data.Enum", {"allowed": "glad,sad"})
    price = TypeInfo("price", DOMAIN, base=TypeInfo("numeric"), base_modifier=NUMERIC_7_2)
    assert value_type(price, -1, Modes()).convert("1.50") == Decimal("1.50")
    numbers = value_type(TypeInfo("_int4", item=TypeInfo("int4")), -1, Modes(placeholder="ab"))
    assert numbers.convert("{1,NULL,-3}") == [1, None, -3]
    assert numbers.unavailable == [97, 98]
    prices = value_type(TypeInfo("_numeric", item=TypeInfo("numeric")), -1, Modes())
    assert check_value(prices.schema, prices.convert("{1.5}")) == prices.convert("{1.5}")
    texts = value_type(TypeInfo("_text", item=TypeInfo("text")), -1, Modes())
    assert texts.unavailable == ["__debezium_unavailable_value"]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{a,NULL,\"NULL\"}", ["a", None, "NULL"]),
        (r'{"a \"b\" \\ {c}, d",""}', [r'a "b" \ {c}, d', ""]),
        ("[0:1]={x,y}", ["x", "y"]),
    ],
)  # fmt: skip
def test_items_of_an_array(text: str, items: list[str | None]) -> None:
    assert array_items(text) == items


@pytest.mark.parametrize("text", ["", "{", "{a", "a}", "{a,}", "{a}b", '{"a}', "{{1},{2}}"])
def test_an_invalid_array_is_refused(text: str) -> None:
    with pytest.raises(DataException):
        array_items(text)


def test_an_hstore_is_a_json_object() -> None:
    assert hstore_json("") == "{}"
    assert hstore_json(r'"a\"b"=>"c\\", "ü"=>"=>"') == r'{"a\"b":"c\\","ü":"=>"}'
    for text in ('"a"', '"a"=>b', '"a"=>"b",'):
        with pytest.raises(DataException):
            hstore_json(text)


def test_dates_beyond_the_years_of_python() -> None:
    assert days("1970-01-01") == 0
    assert days("0001-12-31 BC") == days("0001-01-01") - 1
    assert (days("infinity"), days("-infinity")) == (2**31 - 1, -(2**31))
    for text in ("2024-02-29", "10000-01-01", "1969-12-31", "1600-03-01"):
        assert date_text(days(text)) == text if len(text) == 10 else f"+{text}"
    assert date_text(days("0045-03-15 BC")) == "-0044-03-15"
    assert moment_us("0001-12-31 23:00:00 BC") == days("0001-01-01") * 86_400_000_000 - 3_600_000_000
    assert moment_us("infinity") is None
    assert zoned_moment("12024-01-01 00:00:00+00", 6) == "+12024-01-01T00:00:00.000000Z"
    assert value_type(TypeInfo("timestamp"), 3, Modes()).convert("-infinity") == -9_223_372_036_832_400
    assert zoned_clock("23:30:00-05:30:30") == "05:00:30Z"
    assert clock_us("00:00:00.000001+01") == 1 - 3_600_000_000


def test_intervals_count_months_as_debezium_does() -> None:
    assert interval("P1Y2M").total_us == 14 * 30 * 86_400_000_000 + 14 * 37_800_000_000
    assert interval("PT-0.5S").total_us == -500_000
    assert interval("PT0S").total_us == 0
    assert str(interval("PT100H")) == "P0Y0M0DT100H0M0S"


@pytest.mark.parametrize(
    ("text", "scale", "unscaled"),
    [("0.00", 0, 0), ("-0.10", 1, -1), ("1e3", 0, 1000), ("100000", 0, 100_000)],
)
def test_a_numeric_without_a_scale_has_no_zeros_at_its_end(text: str, scale: int, unscaled: int) -> None:
    value = value_type(TypeInfo("numeric"), -1, Modes()).convert(text)
    assert isinstance(value, Struct)
    data = value.get("value")
    assert isinstance(data, bytes)
    assert (value.get("scale"), int.from_bytes(data, signed=True)) == (scale, unscaled)


@pytest.mark.parametrize("modifier", [-1, NUMERIC_7_2])
@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_null(modifier: int, text: str) -> None:
    assert value_type(TypeInfo("numeric"), modifier, Modes()).convert(text) is None


def test_a_point_has_its_coordinates_and_its_binary_form() -> None:
    value = value_type(TypeInfo("point"), -1, Modes()).convert("(1.5,-2)")
    assert isinstance(value, Struct)
    assert value.schema.name == "io.debezium.data.geometry.Point"
    wkb = bytes.fromhex("0101000000000000000000f83f00000000000000c0")
    assert value.values == [1.5, -2.0, wkb, None]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bool", "true"), ("int4", "x"), ("float8", "x"), ("date", "29.02.2024"), ("time", "1:00"),
        ("timestamp", "now"), ("interval", "1 day"), ("bytea", "abc"), ("bit", "12"), ("numeric", "1,5"),
        ("point", "1"),
    ],
)  # fmt: skip
def test_a_text_in_another_form_is_refused(name: str, text: str) -> None:
    with pytest.raises(DataException):
        value_type(TypeInfo(name), 8 if name == "bit" else NUMERIC_7_2, Modes()).convert(text)
