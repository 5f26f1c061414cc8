"""Avro values as Arrow columns: the types, the errors of single values, evolution, and hostile values."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow")

from kcli.formats.avro import column_decoding, column_lists, columns  # noqa: E402
from kcli.formats.avro.codec import avro_codec, avro_schema  # noqa: E402
from kcli.formats.avro.column_rows import row_encoder  # noqa: E402
from kcli.formats.avro.columns import ColumnDecoder, DecodedColumn  # noqa: E402
from kcli.formats.avro.language import AvroSchema  # noqa: E402
from kcli.formats.avro.numbers import InvalidAvro  # noqa: E402
from kcli.formats.codec import FormatError  # noqa: E402
from rigs.avro_schemas import column_values  # noqa: E402


def schema(declared: Any) -> AvroSchema:
    return avro_schema(json.dumps(declared))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: Any, name: str, **more: Any) -> Any:
    return (kind if isinstance(kind, dict) else {"type": kind}) | {"logicalType": name} | more


def fixed(size: int, name: str = "F") -> Any:
    return {"type": "fixed", "name": name, "size": size}


def decoded(writer: Any, values: list[Any], reader: Any = None) -> DecodedColumn:
    """Encodes values of the schema of a field, decodes them together, and returns the column of the field."""
    one = schema(record(field("x", writer)))
    other = None if reader is None else schema(record(field("x", reader)))
    codec = avro_codec(one)
    raw = [None if value is None else codec.encode({"x": value}) for value in values]
    column = ColumnDecoder(one, other).decode(pa.array(raw, pa.binary()))
    column.values.validate(full=True)
    return DecodedColumn(column.values.flatten()[0], column.errors)


UTC = dt.UTC
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
PRICES = [Decimal("12.34"), Decimal("-0.01"), Decimal("0.00"), Decimal("9999999.99")]
TYPES: list[tuple[Any, Any, list[Any], list[Any] | None]] = [
    # The Avro type, the Arrow type, the values, and the values of the column if they are different.
    ("boolean", pa.bool_(), [True, False], None),
    ("int", pa.int32(), [0, -1, 2**31 - 1, -(2**31)], None),
    ("long", pa.int64(), [0, 64, -(2**63), 2**63 - 1, 2**55], None),
    ("float", pa.float32(), [0.5, -2.0], None),
    ("double", pa.float64(), [0.1, 1e300], None),
    ("bytes", pa.binary(), [b"", b"\xff" * 300], None),
    ("string", pa.string(), ["", "é", "x" * 300], None),
    (fixed(3), pa.binary(), [b"abc", b"def"], None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), ["B", "A"], None),
    (["null", "long"], pa.int64(), [("null", None), 5, 2**40], [None, 5, 2**40]),
    (["string", "null"], pa.string(), ["a", ("null", None)], ["a", None]),
    ({"type": "array", "items": "long"}, pa.list_(pa.int64()), [[], [1], [2, 3, 4]], None),
    ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32()), [{}, {"a": 1, "b": 2}], None),
    (record(name="E"), pa.struct([]), [{}, {}], None),
    (logical("int", "date"), pa.date32(), [dt.date(1969, 12, 31)], None),
    (logical("int", "time-millis"), pa.int32(), [dt.time(23, 59, 59, 999000)], [86_399_999]),
    (logical("long", "time-micros"), pa.int64(), [dt.time(0, 0, 0, 1)], [1]),
    (logical("long", "timestamp-millis"), pa.timestamp("us", tz="UTC"), [MOMENT], None),
    (logical("long", "timestamp-micros"), pa.timestamp("us", tz="UTC"), [MOMENT], None),
    (logical("long", "timestamp-nanos"), pa.int64(), [1000], None),
    (logical("long", "local-timestamp-millis"), pa.timestamp("us"), [MOMENT.replace(tzinfo=None)], None),
    (logical("string", "uuid"), pa.string(), [UUID(int=5)], [str(UUID(int=5))]),
    (logical(fixed(16), "uuid"), pa.string(), [UUID(int=5)], [str(UUID(int=5))]),
    (logical("bytes", "decimal", precision=9, scale=2), pa.decimal128(9, 2), PRICES, None),
    (logical("bytes", "decimal", precision=38), pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38)], None),
    (logical("bytes", "decimal", precision=50, scale=1), pa.string(), [Decimal("-12.5")], ["-12.5"]),
    (logical(fixed(4), "decimal", precision=9, scale=2), pa.decimal128(9, 2), [Decimal("-1.25")], None),
    (logical("bytes", "big-decimal"), pa.string(), [Decimal("-12.345")], ["-12.345"]),
    (logical(fixed(12), "duration"), None, [{"months": 1, "days": 2, "milliseconds": 2**32 - 1}], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "kind", "values", "expected"), TYPES, ids=[str(row[0])[:50] for row in TYPES]
)
def test_each_type_has_a_column(
    declared: Any, kind: Any, values: list[Any], expected: list[Any] | None
) -> None:
    column = decoded(declared, values)
    assert column.errors.null_count == len(values)
    assert kind is None or column.values.type == kind
    result = column.values.to_pylist()
    assert [dict(value) if pa.types.is_map(column.values.type) else value for value in result] == (
        expected or values
    )


@pytest.mark.parametrize(
    ("declared", "values"), [(row[0], row[2]) for row in TYPES], ids=[str(row[0])[:50] for row in TYPES]
)
def test_rows_of_columns_are_encoded_again(declared: Any, values: list[Any]) -> None:
    one = schema(record(field("x", declared)))
    raws = [avro_codec(one).encode({"x": value}) for value in values]
    rows = ColumnDecoder(one).decode(pa.array(raws)).values.to_pylist()
    assert [row_encoder(one)(row) for row in rows] == raws


def test_rows_with_branches_and_recursion_are_encoded_again() -> None:
    inner = record(
        field("u", ["null", "string", {"type": "map", "values": "n.X"}]),
        field("r", ["null", "n.X"]),
        name="n.X",
    )
    one = schema(
        record(field("x", ["null", "long", inner]), field("d", ["null", logical("long", "timestamp-millis")]))
    )
    values = [
        {"x": None, "d": None},
        {"x": 5, "d": MOMENT},
        {"x": {"u": "s", "r": {"u": "t", "r": None}}, "d": None},
        {"x": {"u": {"k": {"u": None, "r": None}}, "r": None}, "d": None},
    ]
    raws = [avro_codec(one).encode(value) for value in values]
    rows = ColumnDecoder(one).decode(pa.array(raws)).values.to_pylist()
    assert rows[2]["x"]["X"]["r"] == '{"u":{"string":"t"},"r":null}'
    assert [row_encoder(one)(row) for row in rows] == raws


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (["int", "string"], {"int": 1, "string": "x"}),
        (["int", "string"], {"long": 1}),
        (["int", "string"], {}),
        (logical("bytes", "big-decimal"), "x"),
        (logical(fixed(16), "uuid"), "x"),
        (["null", "R"], {"x": "{"}),
        (["null", "R"], {"x": '{"x":null} 1'}),
        (["null", "R"], {"x": '{"y":1}'}),
    ],
)
def test_rows_that_do_not_fit_are_refused(declared: Any, value: Any) -> None:
    with pytest.raises(InvalidAvro):
        row_encoder(schema(record(field("x", declared))))({"x": value})


def test_a_union_of_several_types_is_a_struct_of_its_branches() -> None:
    union = [
        "null",
        "string",
        "long",
        record(field("a", "int"), name="n.X"),
        {"type": "array", "items": "int"},
    ]
    column = decoded(union, ["s", 2**40, ("null", None), {"a": 1}, [1, 2]]).values
    assert [member.name for member in column.type] == ["string", "long", "X", "array"]
    assert column.to_pylist() == [
        {"string": "s", "long": None, "X": None, "array": None},
        {"string": None, "long": 2**40, "X": None, "array": None},
        None,
        {"string": None, "long": None, "X": {"a": 1}, "array": None},
        {"string": None, "long": None, "X": None, "array": [1, 2]},
    ]
    same_names = [record(name="n.X"), record(name="m.X")]
    assert [member.name for member in decoded(same_names, [("n.X", {})]).values.type] == ["n_X", "m_X"]


def test_a_record_in_itself_is_json() -> None:
    tree = record(field("v", "int"), field("inner", {"type": "array", "items": "R"}))
    one = schema(tree)
    raw = avro_codec(one).encode(
        {"v": 1, "inner": [{"v": 2, "inner": []}, {"v": 3, "inner": [{"v": 4, "inner": []}]}]}
    )
    column = ColumnDecoder(one).decode(pa.array([raw]))
    assert column.values.to_pylist() == [
        {"v": 1, "inner": ['{"v":2,"inner":[]}', '{"v":3,"inner":[{"v":4,"inner":[]}]}']}
    ]


def test_wrong_values_are_null_and_do_not_affect_the_others() -> None:
    one = schema(
        record(field("a", "int"), field("s", "string"), field("b", {"type": "array", "items": "boolean"}))
    )
    good = avro_codec(one).encode({"a": 1, "s": "é", "b": [True]})
    wrong = {
        b"": "the value ends too early",
        good[:-1]: "the value ends too early",
        good + b"x": "bytes are left over",
        b"\xff\xff\xff\xff\x1f\x00\x00": "a number is not an int",
        b"\xff" * 9 + b"\x02\x00\x00": "a number has more than 64 bits",
        b"\x80" * 12: "a number has more than 64 bits",
        b"\x02\x01\x00": "the value ends too early",
        b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00": "the value ends too early",
        b"\x02\x02\xff\x00": "a text is not UTF-8",
        b"\x02\x00\xfe\xff\xff\xff\x0f": "a block of elements is too long",
        b"\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00": "a block of elements is too long",
        b"\x02\x00\x02\x07\x00": "a boolean",
    }
    values = [good, *(value for bad in wrong for value in (bad, None, good))]
    for copies in (1, 70):  # few values, and enough for numpy
        column = ColumnDecoder(one).decode(pa.array(values * copies))
        column.values.validate(full=True)
        for value, result, error in zip(
            values * copies, column.values.to_pylist(), column.errors.to_pylist(), strict=True
        ):
            if value in wrong:
                assert result is None and error.startswith(wrong[value]), value
            else:
                assert error is None and (result is None) == (value is None)


@pytest.mark.parametrize(
    ("declared", "raw", "error"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "the enum E has no such symbol"),
        ({"type": "enum", "name": "E", "symbols": []}, b"\x00", "the enum E has no such symbol"),
        (["null", "int"], b"\x04", "the union has no such branch"),
        (["null", "int"], b"\x01", "the union has no such branch"),
        (logical("long", "timestamp-millis"), b"\xfe" + b"\xff" * 8 + b"\x01", "a timestamp is too large"),
        (logical("bytes", "decimal", precision=2), b"\x02\x64", "a number does not fit decimal(2, 0)"),
        (logical("bytes", "decimal", precision=2), b"\x02\x9c", "a number does not fit decimal(2, 0)"),
        (logical("bytes", "decimal", precision=2), b"\x22\x01" + b"\x00" * 16, "a number does not fit decimal(2, 0)"),
        (logical("bytes", "decimal", precision=50), b"\x46" + b"\x7f" * 35, "a number does not fit decimal(50, 0)"),
        (logical("bytes", "big-decimal"), b"\x02\x02", "index out of range"),
        (fixed(3), b"ab", "the value ends too early"),
        ({"type": "array", "items": "null"}, b"\x16\x00", "a block of elements is too long"),
        (record(field("n", ["null", "R"]), name="R2"), b"\x02", ""),
    ],
)  # fmt: skip
def test_wrong_values_of_a_type_have_an_error(declared: Any, raw: bytes, error: str) -> None:
    if "R2" in str(declared):
        declared = record(field("n", ["null", "R2"]), name="R2")
        raw, error = b"\x02" * 5000, "the value is nested too deeply"
    column = ColumnDecoder(schema(record(field("x", declared)))).decode(pa.array([raw, raw]))
    assert column.values.null_count == 2 and column.errors.to_pylist() == [error, error]


def test_more_bytes_than_a_decimal_needs_are_accepted() -> None:
    declared = schema(record(field("x", logical("bytes", "decimal", precision=9, scale=2))))
    raws = [b"\x28" + sign * 18 + b"\x04\xd2" for sign in (b"\x00", b"\xff")]
    values = ColumnDecoder(declared).decode(pa.array([*raws, b"\x00"])).values.to_pylist()
    assert [value["x"] for value in values] == [Decimal("12.34"), Decimal("-643.02"), Decimal("0.00")]


def test_the_prefix_of_a_registry_is_skipped() -> None:
    one = schema("string")
    column = ColumnDecoder(one).decode(pa.array([b"\x00\x00\x00\x00\x01\x02a", b"\x00\x00", b"", None]), 5)
    assert column.values.to_pylist() == ["a", None, None, None]
    assert column.errors.to_pylist() == [None, "the value ends too early", "the value ends too early", None]
    assert ColumnDecoder(schema("bytes")).decode(pa.array([b"12345ab", b"12345"]), 5).values.to_pylist() == [
        b"ab",
        b"",
    ]


def test_slices_and_other_binary_columns_are_decoded() -> None:
    decoder = ColumnDecoder(schema("string"))
    values = pa.array([b"\x02a", b"\x02b", None, b"\x02d"])
    assert decoder.decode(values[1:]).values.to_pylist() == ["b", None, "d"]
    assert decoder.decode(values.cast(pa.large_binary())).values.to_pylist() == ["a", "b", None, "d"]
    assert decoder.decode(values[:0]).values.to_pylist() == []
    assert decoder.decode(pa.nulls(2, pa.binary())).values.to_pylist() == [None, None]


def test_very_many_bytes_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BATCH_MAX_BYTES", 40)
    decoder = ColumnDecoder(schema("string"))
    column = decoder.decode(pa.array([b"\x02a", b"x", b"\x02c"] * 5))
    assert column.values.to_pylist() == ["a", None, "c"] * 5 and column.errors.null_count == 10


def test_a_reader_gets_its_own_columns() -> None:
    writer = schema(
        record(
            field("gone", {"type": "array", "items": "string"}),
            field("a", "int"),
            field("old", "string"),
            field("n", ["null", "int"]),
            field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        )
    )
    reader = schema(
        record(
            field("new", ["null", "string"], default=None),
            field("b", "bytes", aliases=["old"]),
            field("a", "double"),
            field("d", logical("long", "timestamp-millis"), default=1000),
            field("n", ["string", "long", "null"]),
            field("e", {"type": "enum", "name": "E", "symbols": ["A", "X"], "default": "X"}),
            field("m", {"type": "map", "values": "int"}, default={"k": 1}),
        )
    )
    raws = [
        avro_codec(writer).encode(
            {"gone": ["a"] * nth, "a": nth, "old": "o", "n": nth or None, "e": "AB"[nth]}
        )
        for nth in range(2)
    ]
    column = ColumnDecoder(writer, reader).decode(pa.array(raws))
    second = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    rest = {"new": None, "b": b"o", "d": second, "m": [("k", 1)]}
    assert column.values.to_pylist() == [
        rest | {"a": 0.0, "n": None, "e": "A"},
        rest | {"a": 1.0, "n": {"string": None, "long": 1}, "e": "X"},
    ]
    assert list(column.values.to_pylist()[0]) == ["new", "b", "a", "d", "n", "e", "m"]


def test_values_that_a_reader_lacks_are_errors() -> None:
    column = decoded(["int", "string", "null"], [5, "x", ("null", None)], "long")
    assert column.values.to_pylist() == [5, None, None]
    assert column.errors.to_pylist() == [
        None,
        "the writer's string cannot be read as long",
        "the writer's null cannot be read as long",
    ]
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    assert decoded(enum, ["A", "B"], enum | {"symbols": ["A"]}).errors.to_pylist() == [
        None,
        "a symbol of E is unknown to the reader",
    ]
    assert decoded("int", [1], [logical("int", "date"), "null"]).values.to_pylist() == [dt.date(1970, 1, 2)]
    assert decoded("int", [1], ["string", "int"]).values.to_pylist() == [{"string": None, "int": 1}]
    assert decoded("int", [1], ["string", "null"]).errors.to_pylist() == [
        "the writer's int cannot be read as union"
    ]
    assert decoded(["bytes"], [b"a\xff"], "string").values.to_pylist() == ["a\ufffd"]
    writer, reader = schema(record(field("a", "int"))), schema(record(field("b", "int")))
    column = ColumnDecoder(writer, reader).decode(pa.array([b"\x02"]))
    assert column.errors.to_pylist() == ["the field b of R has no default, and is missing"]


@pytest.mark.parametrize(
    ("kind", "default", "error"),
    [
        (logical("long", "timestamp-millis"), 2**62, "the default of the field b has no column value"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "X", "Unknown symbol in enum X"),
    ],
)
def test_a_wrong_default_is_an_error_of_the_values(kind: Any, default: Any, error: str) -> None:
    writer, reader = schema(record(field("a", "int"))), schema(record(field("b", kind, default=default)))
    column = ColumnDecoder(writer, reader).decode(pa.array([b"\x02", b"\x04"]))
    assert column.values.null_count == 2 and column.errors.to_pylist() == [error, error]


@pytest.mark.parametrize("few", [1, 5, 10_000])
def test_arrays_are_decoded_by_numpy_and_one_by_one(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_lists, "FEW_ROWS", few)
    items = record(field("s", "string"), field("u", ["null", "int"]), name="I")
    values = [
        [{"s": f"{nth}.{item}", "u": item if item % 3 else None} for item in range(nth % 13)]
        for nth in range(60)
    ]
    values.append([{"s": "long", "u": 1}] * 300)
    assert column_values(decoded({"type": "array", "items": items}, values).values) == values
    union = {"type": "array", "items": ["null", "int", "string"]}
    column = decoded(union, [[None, 1, "a"]] * 70).values
    branches = [None, {"int": 1, "string": None}, {"int": None, "string": "a"}]
    assert column_values(column) == [branches] * 70
    maps = [{f"k{item}": item for item in range(nth % 7)} for nth in range(60)]
    assert column_values(decoded({"type": "map", "values": "long"}, maps).values) == maps


@pytest.mark.parametrize("few", [1, 10_000])
def test_blocks_of_arrays_may_have_sizes(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_lists, "FEW_ROWS", few)
    decoder = ColumnDecoder(schema({"type": "array", "items": "int"}))
    raws = [b"\x03\x04\x02\x04\x02\x06\x00", b"\x00", b"\x01\x02\x08\x01\x02\x0a\x00", b"\x01\x02\x08"]
    assert decoder.decode(pa.array(raws)).values.to_pylist() == [[1, 2, 3], [], [4, 5], None]


def test_pairs_of_schemas_that_are_too_complex_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_decoding, "READS_MAX", 100)
    branches = [record(name=f"T{nth}") for nth in range(10)]
    fields = [field(f"f{nth}", "int", default=1) for nth in range(10)]
    with pytest.raises(FormatError, match="too complex to decode"):
        ColumnDecoder(schema(branches), schema(record(*fields)))


def test_a_schema_with_too_many_columns_is_refused() -> None:
    records = [
        record(field("l", f"T{nth - 1}"), field("r", f"T{nth - 1}"), name=f"T{nth}") for nth in range(1, 30)
    ]
    with pytest.raises(FormatError, match="more than 20000 columns"):
        ColumnDecoder(schema([record(field("a", "int"), name="T0"), *records]))
