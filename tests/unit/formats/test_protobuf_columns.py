"""Protobuf values as Arrow columns: each kind of field, unusual bytes, invalid values."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

import pyarrow as pa

from kcli.formats.codec import FormatError
from kcli.formats.protobuf import columns as columns_module
from kcli.formats.protobuf.codec import protobuf_codec
from kcli.formats.protobuf.column_types import row_of
from kcli.formats.protobuf.columns import ColumnDecoder
from kcli.formats.protobuf.language import parse
from kcli.formats.protobuf.messages import message_type
from rigs.protobuf_columns import SCHEMA, VALUES, comparable

MESSAGE = message_type(parse(SCHEMA, {}, is_new=True))
CODEC = protobuf_codec(MESSAGE)
DECODER = ColumnDecoder(MESSAGE)
WHOLE = CODEC.encode(VALUES)


@pytest.fixture(autouse=True)
def by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decodes by columns even the few values of a test."""
    monkeypatch.setattr(columns_module, "FEW_VALUES", 0)


def decoded(*payloads: bytes | None, decoder: ColumnDecoder = DECODER, skip: int = 0) -> list[object]:
    """Returns the records of payloads, which must be valid."""
    values = decoder.decode(pa.array(payloads, pa.binary()), skip)
    values.records.validate(full=True)
    assert values.errors.null_count == len(payloads), values.errors
    return [comparable(record) for record in values.records.to_pylist()]


def expected(*payloads: bytes | None, decoder: ColumnDecoder = DECODER) -> list[object]:
    """Returns the records that the Protobuf library reads."""
    rows = [None if payload is None else row_of(decoder.message.FromString(payload)) for payload in payloads]
    return [comparable(record) for record in pa.array(rows, decoder.type).to_pylist()]


def test_every_kind_of_field_becomes_a_column() -> None:
    assert VALUES.keys() | {"y", "on"} == {field.name for field in DECODER.type}
    payloads = (WHOLE, b"", None, CODEC.encode({"y": "text"}), CODEC.encode({"on": {"q": "1"}}), WHOLE)
    assert decoded(*payloads) == expected(*payloads)
    assert decoded() == []


def test_the_library_is_not_needed_for_usual_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("a usual value was left to the library")

    monkeypatch.setattr(columns_module, "row_of", unexpected)
    assert len(decoded(WHOLE, b"", None, CODEC.encode({"y": "text"}))) == 4


@pytest.mark.parametrize("name", VALUES)
def test_each_field_alone_and_beside_rows_without_it(name: str) -> None:
    one = CODEC.encode({name: VALUES[name]})
    assert decoded(b"", one, b"", one) == expected(b"", one, b"", one)


@pytest.mark.parametrize(
    "payload",
    [
        CODEC.encode({"s": "b", "i32": 1})
        + CODEC.encode({"i32": 2, "d": 1.0}),  # again, and in another order
        CODEC.encode({"one": {"q": "a"}}) + CODEC.encode({"one": {"i": 1}}),  # a message in two parts
        CODEC.encode({"on": {"q": "a"}}) + CODEC.encode({"z": 1}) + CODEC.encode({"on": {"i": 2}}),
        CODEC.encode({"z": 1}) + CODEC.encode({"y": "a"}),  # the last field of a oneof counts
        CODEC.encode({"m": [(1, "a")]}) + CODEC.encode({"m": [(1, "b")]}),  # the last value of a key counts
        CODEC.encode({"ri": [1]}) + b"\x88\x01\x05" + CODEC.encode({"ri": [2, 3]}),  # packed and not packed
        b"\x5a\x02\x08\x07",  # a map entry without a value
        b"\xc2\x01\x03\x0a\x01k",  # and with a message as the value
        b"\x60\x63\xd8\x01\x63",  # unknown numbers of an enum
        b"\xd0\x3e\x05\xdd\x3e\x01\x02\x03\x04\xd9\x3e" + bytes(8) + b"\xd2\x3e\x01x",  # unknown fields
        b"\xd3\x3e\x08\x01\xd4\x3e",  # an unknown group
        b"\x35\x01\x02\x03\x04",  # a known number with another wire type
        b"\xf0\x81\x00\x05",  # a tag with more bytes than it needs
        b"\xf0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a number of ten bytes
        b"\xd0\x01\x05",  # a boolean that is not one
    ],
)
def test_unusual_bytes_are_read_as_by_the_library(payload: bytes) -> None:
    assert decoded(payload, WHOLE) == expected(payload, WHOLE)


@pytest.mark.parametrize(
    "payload",
    [
        WHOLE[:-1],
        b"\x00",
        b"\xff\xff",
        b"\xf0\x01",
        b"\xf0\x01" + b"\xff" * 10 + b"\x01",
        b"\xa2\x02\x01\xff",  # a string that is not UTF-8
        b"\xa2\x02\x01\xff\xa2\x02\x01a",  # such a string before another one, which would count
        b"\xa2\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # the longest span
        b"\x8a\x01\x01\xff",  # packed numbers that end early
        b"\xba\x01\x03abc",
        b"\x72\x02\x0a\x05",  # a broken message in a list
        b"\x0a\x0a\x08" + b"\xff" * 8 + b"\x7f",  # a time in the far future
        b"\x1a\x02\x0a\x05",
        b"\xd3\x3e",
        b"\xd0\xbb\x80\x80\x80\x00\x05",  # a tag of an unknown field with six bytes
        b"\xd0\xbb" + b"\x80" * 9 + b"\x01\x05",
    ],
)
def test_an_invalid_value_is_a_null_row_with_an_error(payload: bytes) -> None:
    values = DECODER.decode(pa.array([WHOLE, payload, b""]))
    assert [comparable(record) for record in values.records.to_pylist()] == [
        *expected(WHOLE),
        None,
        *expected(b""),
    ]
    first, error, last = values.errors.to_pylist()
    assert (first, last) == (None, None) and error


def test_bytes_in_front_of_a_value_are_skipped() -> None:
    assert decoded(b"12345" + WHOLE, b"123", skip=5) == expected(WHOLE, b"")
    skips = pa.array([0, 2]).to_numpy()
    records = DECODER.decode(pa.array([WHOLE, b"12" + WHOLE]), skips).records.to_pylist()
    assert [comparable(record) for record in records] == expected(WHOLE, WHOLE)


def test_few_values_are_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "FEW_VALUES", 3)
    monkeypatch.setattr(columns_module, "_columns", None)
    assert decoded(WHOLE, None) == expected(WHOLE, None)
    (error,) = DECODER.decode(pa.array([b"\xff"])).errors.to_pylist()
    assert error and error.startswith("DecodeError: ")


def test_a_time_span_that_arrow_does_not_have_is_an_error_of_its_row() -> None:
    hostile = MESSAGE()
    hostile.span.seconds = 80_000_000_000_000
    values = DECODER.decode(pa.array([hostile.SerializeToString(), WHOLE + WHOLE]))
    assert [error is None for error in values.errors.to_pylist()] == [False, True]


def test_slices_and_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "MAX_BATCH_BYTES", len(WHOLE) * 2)
    payloads = [WHOLE, b"", CODEC.encode({"i32": 5}), WHOLE, WHOLE, WHOLE * 0, None, WHOLE]
    array = pa.array(payloads, pa.binary()).slice(1, 6)
    records = DECODER.decode(array).records.to_pylist()
    assert [comparable(record) for record in records] == expected(*payloads[1:7])


def test_a_list_of_one_row_with_many_elements() -> None:
    long = CODEC.encode({"rs": [str(nth) for nth in range(1000)]})
    assert decoded(long, WHOLE, b"") == expected(long, WHOLE, b"")


def test_an_any_of_an_unknown_type_shows_its_fields() -> None:
    payload = CODEC.encode({"any": {"type_url": "x/nosuch", "value": b"\x01"}})
    (record,) = decoded(payload)
    assert isinstance(record, dict) and record["any"] == '{"typeUrl":"x/nosuch","value":"01"}'


PROTO2 = ColumnDecoder(
    message_type(
        parse(
            """message M {
              optional int32 a = 1 [default = 5]; required string b = 2; optional E e = 3; optional group G = 4 {
                optional int32 x = 5; } repeated int32 many = 6; optional bytes raw = 7;
              enum E { ONE = 1; TWO = 2; } }""",
            {},
            is_new=True,
        )
    )
)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x08\x01\x12\x01x",
        b"\x18\x02",
        b"\x18\x09",
        b"\x23\x28\x01\x24",
        b"\x30\x01\x30\x02",
        b"\x3a\x01\xff",
    ],
)
def test_values_of_proto2(payload: bytes) -> None:
    assert decoded(payload, b"\x08\x01", decoder=PROTO2) == expected(payload, b"\x08\x01", decoder=PROTO2)


def test_rows_are_encoded_again() -> None:
    codec = DECODER.row_codec
    (row,) = DECODER.decode(pa.array([WHOLE])).records.to_pylist()
    assert MESSAGE.FromString(codec.encode(row)) == MESSAGE.FromString(WHOLE)
    assert codec.decode(WHOLE) == row_of(MESSAGE.FromString(WHOLE))
    with pytest.raises(ValueError):
        codec.encode({"plain": "["})


def test_a_long_chain_of_messages_ends_in_json_text() -> None:
    levels = "".join(f"message L{n} {{ L{n + 1} a = 1; }}" for n in range(500))
    schema = parse(f'syntax = "proto3"; {levels} message L500 {{ int32 x = 1; }}', {}, is_new=True)
    decoder = ColumnDecoder(message_type(schema))
    payload = b""
    for _ in range(60):
        payload = b"\x0a" + bytes([len(payload)]) + payload
    assert decoded(payload, b"", decoder=decoder) == expected(payload, b"", decoder=decoder)


def test_a_schema_of_a_billion_columns_is_refused_at_once() -> None:
    levels = "".join(f"message L{n} {{ L{n + 1} a = 1; L{n + 1} b = 2; }}" for n in range(30))
    schema = parse(f'syntax = "proto3"; {levels} message L30 {{ int32 x = 1; }}', {}, is_new=True)
    with pytest.raises(FormatError, match="more than 10000 columns"):
        ColumnDecoder(message_type(schema))
