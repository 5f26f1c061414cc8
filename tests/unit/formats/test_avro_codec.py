"""Avro values: there and back, by a reader's schema, as JSON, and bytes that are not of the schema."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from kcli.formats.avro import decoding
from kcli.formats.avro.codec import avro_codec, avro_schema, json_decoder, json_encoder
from kcli.formats.avro.language import AvroSchema
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.codec import FormatError


def schema(declared: Any) -> AvroSchema:
    return avro_schema(json.dumps(declared))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: Any, name: str, **more: Any) -> Any:
    declared = kind if isinstance(kind, dict) else {"type": kind}
    return declared | {"logicalType": name} | more


def fixed(size: int, name: str = "F") -> Any:
    return {"type": "fixed", "name": name, "size": size}


UTC = dt.UTC
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 6000)
VALUES: list[tuple[Any, Any]] = [
    ("null", None),
    ("boolean", True),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 1.5),
    ("double", 0.1),
    ("string", "é😀"),
    (fixed(3), b"abc"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "array", "items": "int"}, [1, 2, 3]),
    ({"type": "map", "values": ["null", "long"]}, {"a": 1, "b": None}),
    (["null", "string", "int", {"type": "array", "items": "int"}], [7]),
    (logical("int", "date"), dt.date(1969, 12, 31)),
    (logical("int", "time-millis"), dt.time(23, 59, 59, 999000)),
    (logical("long", "time-micros"), dt.time(0, 0, 0, 1)),
    (logical("long", "timestamp-millis"), MOMENT.replace(tzinfo=UTC)),
    (logical("long", "timestamp-micros"), dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    (logical("long", "timestamp-nanos"), 1_767_323_045_000_000_001),
    (logical("long", "local-timestamp-millis"), MOMENT),
    (logical("long", "local-timestamp-micros"), MOMENT),
    (logical("string", "uuid"), UUID(int=5)),
    (logical(fixed(16), "uuid"), UUID(int=2**127)),
    (
        logical("bytes", "decimal", precision=40, scale=3),
        Decimal("-1234567890123456789012345678901234567.125"),
    ),
    (logical(fixed(8), "decimal", precision=10, scale=2), Decimal("99999999.99")),
    (logical("bytes", "big-decimal"), Decimal("-12.345")),
    (logical(fixed(12), "duration"), {"months": 1, "days": 2, "milliseconds": 3}),
    (record(field("next", ["null", "R"]), field("v", "int")), {"next": {"next": None, "v": 2}, "v": 1}),
]


@pytest.mark.parametrize(
    ("declared", "value"), VALUES, ids=[json.dumps(declared)[:60] for declared, _ in VALUES]
)
def test_values_come_back_as_they_were(declared: Any, value: Any) -> None:
    codec = avro_codec(schema(record(field("x", declared, default=None), name="Outer")))
    decoded = codec.decode(codec.encode({"x": value}))
    assert decoded == {"x": value}
    assert isinstance(decoded, dict) and type(decoded["x"]) is type(value)


def test_fastavro_reads_and_writes_the_same_bytes() -> None:
    fastavro = pytest.importorskip("fastavro")
    known = [(declared, value) for declared, value in VALUES if "nanos" not in str(declared)]
    known = [
        pair
        for pair in known
        if not any(name in str(pair[0]) for name in ("duration", "big-dec", "16, 'logic"))
    ]
    assert len(known) > 20
    for inner, plain in known:
        declared, value = record(field("x", inner), name="Outer"), {"x": plain}
        parsed = fastavro.parse_schema(declared)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        codec = avro_codec(schema(declared))
        assert codec.encode(value) == out.getvalue()
        assert codec.decode(out.getvalue()) == value


def test_a_value_of_the_schema_bytes_has_no_length() -> None:
    codec = avro_codec(schema("bytes"))
    assert codec.encode(b"ab") == b"ab" and codec.decode(b"ab") == b"ab"
    assert json_decoder(schema({"type": "bytes"}))(b"a\xff") == '"aÿ"'
    assert json_encoder(schema("bytes"))('"aÿ"') == b"a\xff"
    with pytest.raises(InvalidAvro, match="expected bytes"):
        codec.encode("text")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "string"), (7, "int"), (2**40, "long"), (1.5, "double"), (None, "null"), (True, "boolean")],
)
def test_a_value_of_a_union_takes_the_branch_of_its_type(value: Any, expected: str) -> None:
    union = ["null", "double", "boolean", "int", "long", "string"]
    raw = avro_codec(schema(union)).encode(value)
    assert union[raw[0] >> 1] == expected


def test_a_pair_names_the_branch_of_a_union() -> None:
    first, second = record(field("a", "int"), name="n.A"), record(field("a", "int"), name="n.B")
    codec = avro_codec(schema(["int", "long", first, second]))
    assert codec.encode(("long", 1)) == b"\x02\x02"
    assert codec.encode({"a": 1}) == b"\x04\x02"
    assert codec.encode(("n.B", {"a": 1})) == b"\x06\x02"
    with pytest.raises(InvalidAvro, match="Unknown union branch B"):
        codec.encode(("B", {"a": 1}))
    with pytest.raises(InvalidAvro, match=r"expected one of the types int, long, n\.A, n\.B, found 'x'"):
        codec.encode("x")


def test_a_logical_value_takes_its_branch_of_a_union() -> None:
    union = [
        logical("int", "date"),
        logical("long", "timestamp-millis"),
        logical("string", "uuid"),
        fixed(2),
        "bytes",
    ]
    codec = avro_codec(schema(union))
    for value in (dt.date(2026, 1, 2), MOMENT.replace(tzinfo=UTC), UUID(int=1), b"ab", b"abc"):
        assert codec.decode(codec.encode(value)) == value
    assert codec.encode(5) == b"\x00\x0a"  # a stored value is accepted too


def test_a_missing_field_has_its_default() -> None:
    inner = record(field("y", "bytes", default="ÿ"), name="I")
    codec = avro_codec(
        schema(
            record(
                field("a", "int"), field("b", ["string", "null"], default="d"), field("i", inner, default={})
            )
        )
    )
    assert codec.decode(codec.encode({"a": 1})) == {"a": 1, "b": "d", "i": {"y": b"\xff"}}
    with pytest.raises(InvalidAvro, match="record R has no field a"):
        codec.encode({})


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("int", 2**31), ("int", True), ("int", "1"), ("long", 2**63), ("long", 1.0), ("float", 1e300), ("float", "x"),
        ("double", None), ("string", b"x"), ("boolean", 1), ("null", 0), (fixed(2), b"abc"), (fixed(2), "ab"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"), ({"type": "array", "items": "int"}, (1,)),
        ({"type": "map", "values": "int"}, {1: 1}), ({"type": "map", "values": "int"}, [1]), (record(), []),
        (logical("bytes", "decimal", precision=3, scale=1), Decimal("1.25")),
        (logical("bytes", "decimal", precision=3, scale=1), Decimal(1000)),
        (logical("bytes", "decimal", precision=3, scale=1), Decimal("1e999999")),
        (logical("bytes", "decimal", precision=3, scale=1), Decimal("NaN")),
        (logical(fixed(12), "duration"), {"months": 1}),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(declared: Any, value: Any) -> None:
    with pytest.raises(InvalidAvro):
        avro_codec(schema(declared)).encode(value)


# Evolution.


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": list(symbols)} | more


ONE, TWO = record(field("a", "int"), name="O"), record(field("b", "int"), name="T")


def evolved(writer: Any, reader: Any, value: Any) -> Any:
    one, other = schema(writer), schema(reader)
    return avro_codec(one, other).decode(avro_codec(one).encode(value))


def test_a_reader_gets_its_own_fields_in_its_own_order() -> None:
    writer = record(
        field("gone", {"type": "array", "items": "string"}), field("a", "int"), field("old", "string")
    )
    reader = record(
        field("new", ["null", "string"], default=None),
        field("b", "string", aliases=["x", "old"]),
        field("a", "double"),
        field("m", {"type": "map", "values": "bytes"}, default={"k": "ÿ"}),
        field("d", logical("int", "date"), default=1),
    )
    value = evolved(writer, reader, {"gone": ["a", "b"], "a": 5, "old": "o"})
    assert value == {"new": None, "b": "o", "a": 5.0, "m": {"k": b"\xff"}, "d": dt.date(1970, 1, 2)}
    assert list(value) == ["new", "b", "a", "m", "d"] and type(value["a"]) is float


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", 5, 5),
        ("int", "float", 16777217, 16777216.0),
        ("long", "double", 2**53, float(2**53)),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", b"\xc3\xa9"),
        (["bytes"], "string", b"a\xff", "a\ufffd"),
        ("int", ["null", "string", "long"], 5, 5),
        (["null", "int"], "int", 5, 5),
        (["null", "int"], ["double", "null"], 5, 5.0),
        (["string", "int"], ["int", "string"], "x", "x"),
        (enum("A", "B"), enum("A", default="A"), "B", "A"),
        (fixed(2, "n.F"), fixed(2, "m.F"), b"ab", b"ab"),
        (fixed(2, "n.F"), fixed(2, "G") | {"aliases": ["n.F"]}, b"ab", b"ab"),
        ("long", logical("long", "timestamp-millis"), 0, dt.datetime(1970, 1, 1, tzinfo=UTC)),
        (logical("long", "timestamp-millis"), "long", MOMENT.replace(tzinfo=UTC), 1767323045006),
        ([ONE, record(*ONE["fields"], TWO["fields"][0], name="T")], [TWO, ONE], {"a": 1, "b": 2}, {"b": 2}),
    ],
)  # fmt: skip
def test_types_are_promoted_to_those_of_the_reader(
    writer: Any, reader: Any, value: Any, expected: Any
) -> None:
    decoded = evolved(writer, reader, value)
    assert decoded == expected and type(decoded) is type(expected)


def test_a_branch_that_the_reader_lacks_is_an_error_only_for_its_values() -> None:
    assert evolved(["int", "string"], "long", 5) == 5
    with pytest.raises(InvalidAvro, match="the writer's string cannot be read as long"):
        evolved(["int", "string"], "long", "x")
    with pytest.raises(InvalidAvro, match="No match for B"):
        evolved(
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"]},
            "B",
        )
    with pytest.raises(InvalidAvro, match="the field b of R has no default, and is missing"):
        evolved(record(field("a", "int")), record(field("b", "int")), {"a": 1})


def test_recursive_types_evolve() -> None:
    writer = record(field("next", ["null", "R"]), field("v", "int"))
    reader = record(field("v", "long"), field("w", "string", default="w"), field("next", ["R", "null"]))
    value = evolved(writer, reader, {"next": {"next": None, "v": 2}, "v": 1})
    assert value == {"v": 1, "w": "w", "next": {"v": 2, "w": "w", "next": None}}


# JSON.

X = record(field("f", "float"), name="n.X")
MIXED = record(
    field("u", ["null", "string", "int", {"type": "array", "items": ["null", "n.X"]}, X]),
    field("b", "bytes"),
    field("t", logical("long", "timestamp-millis")),
)  # fmt: skip


def test_json_names_the_branches_of_unions() -> None:
    declared = schema(MIXED)
    codec, to_json, from_json = avro_codec(declared), json_decoder(declared), json_encoder(declared)
    for inner, text in (
        (None, "null"),
        ("😀", '{"string":"\\uD83D\\uDE00"}'),
        (5, '{"int":5}'),
        ([None, {"f": 0.1}], '{"array":[null,{"n.X":{"f":0.10000000149011612}}]}'),
        ({"f": math.inf}, '{"n.X":{"f":"Infinity"}}'),
    ):
        raw = codec.encode({"u": inner, "b": b"\x00a\xff", "t": MOMENT.replace(tzinfo=UTC)})
        line = f'{{"u":{text},"b":"\\u0000aÿ","t":1767323045006}}'
        assert to_json(raw) == line
        assert from_json(line) == raw


def test_a_whole_number_in_json_may_be_a_fraction() -> None:
    declared = schema(record(field("a", "double"), field("b", "float")))
    to_json, from_json = json_decoder(declared), json_encoder(declared)
    assert to_json(from_json('{"a":1,"b":"-Infinity"}')) == '{"a":1.0,"b":"-Infinity"}'
    assert to_json(from_json(f'{{"a":1{"0" * 400},"b":1}}')) == '{"a":"Infinity","b":1.0}'


def test_json_without_names_of_branches_is_accepted_if_one_fits() -> None:
    from_json = json_encoder(schema(MIXED))
    for plain, named in (
        ('"x"', '{"string":"x"}'),
        ("5", '{"int":5}'),
        ('{"f":1}', '{"n.X":{"f":1}}'),
        ("[null]", '{"array":[null]}'),
    ):
        rest = '"b":"","t":0'
        assert from_json(f'{{"u":{plain},{rest}}}') == from_json(f'{{"u":{named},{rest}}}')


@pytest.mark.parametrize(
    ("declared", "text", "error"),
    [
        ("int", '"x"', "Expected int. Got VALUE_STRING"),
        ("int", "1.0", "Expected int. Got VALUE_NUMBER_FLOAT"),
        ("long", "true", "Expected long. Got VALUE_TRUE"),
        ("string", "null", "Expected string. Got VALUE_NULL"),
        ("int", "5 6", "expected one JSON value"),
        ("int", "", "expected one JSON value"),
        ("int", "{", "the text is not JSON"),
        ("null", "false", "Expected null. Got VALUE_FALSE"),
        (["null", "string"], "5", "Expected start-union. Got VALUE_NUMBER_INT"),
        (["int", "long"], "5", 'the value fits int, long: write {"int": value} for the first of them'),
        (["null", "int"], '{"int":"x"}', "Expected int. Got VALUE_STRING"),
        (record(field("a", "int")), "{}", "Expected field name not found: a"),
        (record(field("a", "int")), '{"a":1,"b":2}', "the record R has no field b"),
        (record(field("a", "int")), "[]", "Expected record-start. Got START_ARRAY"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '"B"', "Unknown symbol in enum B"),
        ({"type": "array", "items": "int"}, "{}", "Expected array-start. Got START_OBJECT"),
        ({"type": "map", "values": "int"}, "1", "Expected map-start. Got VALUE_NUMBER_INT"),
        (fixed(2), '"abc"', "Expected fixed length 2, but got 3"),
        ({"type": "array", "items": "bytes"}, '["Ā"]', "expected bytes as text with characters up to U\\+00FF"),
    ],
)  # fmt: skip
def test_json_that_does_not_fit_is_refused(declared: Any, text: str, error: str) -> None:
    with pytest.raises(InvalidAvro, match=error):
        json_encoder(schema(declared))(text)


# Hostile bytes.


@pytest.mark.parametrize(
    ("declared", "raw"),
    [
        ("string", b"\x02ab"), ("string", b""), ("string", b"\x0a"), ("string", b"\x01"), ("string", b"\x02\xff"),
        ("string", b"\xff" * 9 + b"\x01"), ("long", b"\xff" * 9 + b"\x02"), ("long", b"\x80" * 11),
        ("int", b"\xff\xff\xff\xff\x1f"), ("boolean", b"\x02"), ("float", b"\x00"), ("double", b"\x00" * 7),
        (["null", "int"], b"\x04"), (["null", "int"], b"\x01"), (fixed(3), b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
        (logical("int", "date"), b"\xfe\xff\xff\xff\x0f"), (logical("int", "time-millis"), b"\xfe\xff\xff\xff\x0f"),
        (logical("string", "uuid"), b"\x02a"), (logical("bytes", "big-decimal"), b"\x02a"),
        (record(field("r", "R")), b""),
        (record(field("next", ["null", "R"])), b"\x02" * 1_000_000),
    ],
)  # fmt: skip
def test_bytes_that_are_not_of_the_schema_are_an_error(declared: Any, raw: bytes) -> None:
    parsed = schema(record(field("x", declared), name="Outer"))
    for decode in (avro_codec(parsed).decode, avro_codec(parsed, schema(record(name="Outer"))).decode):
        with pytest.raises(InvalidAvro):
            decode(raw)


def test_an_array_whose_elements_have_no_bytes_is_short() -> None:
    empty = record(field("x", "null"), name="a.E")
    hostile = (
        "null",
        fixed(0),
        record(field("x", empty), field("y", "a.E"), name="F"),
    )
    for items in hostile:
        declared = record(field("a", {"type": "array", "items": items}))
        codec = avro_codec(schema(declared))
        for raw in (b"\x14" + b"\x00", b"\x13\x00" + b"\x00"):
            value = codec.decode(raw)
            assert isinstance(value, dict) and len(value["a"]) == 10
        with pytest.raises(InvalidAvro, match="a block of 11 elements is too long"):
            codec.decode(b"\x16\x00")
        evolved = avro_codec(schema(declared), schema(record(field("b", "int", default=1))))
        with pytest.raises(InvalidAvro, match="too long"):
            evolved.decode(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00")


def test_pairs_of_schemas_that_are_too_complex_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "READS_MAX", 100)
    branches = [record(name=f"T{nth}") for nth in range(10)]
    fields = [field(f"f{nth}", "int", default=1) for nth in range(10)]
    with pytest.raises(FormatError, match="too complex to decode"):
        avro_codec(schema(branches), schema(record(*fields)))


def test_a_schema_file_must_be_json_in_utf_8() -> None:
    assert avro_schema(b'{"type": "string"}').canonical == '"string"'
    for text in (b"{", b"\xff", b'{"type": "nosuch"}'):
        with pytest.raises(FormatError, match="the Avro schema is invalid"):
            avro_schema(text)
