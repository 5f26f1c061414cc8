"""Avro values: there and back, schemas that are not valid, bytes that are not of the schema."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("fastavro")

from kcli.formats.avro import AvroSchema, avro_codec, avro_schema
from kcli.formats.codec import FormatError

ORDER: AvroSchema = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "note", "type": ["null", "string", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


def test_a_record_comes_back_as_it_was() -> None:
    codec = avro_codec(ORDER)
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    for note in (None, "n", 7):
        order: Any = {"note": note, "at": at, "price": Decimal("12.34")}
        assert codec.decode(codec.encode(order)) == order


def test_a_value_need_not_be_a_record() -> None:
    codec = avro_codec("string")
    assert codec.encode("a") == b"\x02a"
    assert codec.decode(b"\x02a") == "a"


def test_bytes_after_the_value_are_an_error() -> None:
    with pytest.raises(ValueError, match="1 bytes are left over"):
        avro_codec("string").decode(b"\x02ab")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "nosuch"}]},
        {"type": "enum"},
        "nosuch",
    ],
)
def test_a_schema_that_is_not_valid_is_refused(schema: AvroSchema) -> None:
    with pytest.raises(FormatError, match="the Avro schema is invalid"):
        avro_codec(schema)


def test_a_schema_file_must_be_json() -> None:
    assert avro_schema(b'{"type": "string"}') == {"type": "string"}
    for text in ("{", b"\xff"):
        with pytest.raises(FormatError, match="the Avro schema is not JSON"):
            avro_schema(text)


@settings(deadline=None)  # the first example pays for imports
@given(st.binary(max_size=60))
def test_a_decoded_value_encodes_to_the_same_value(value: bytes) -> None:
    codec = avro_codec("string")
    try:
        text = codec.decode(value)
    except Exception:  # hostile bytes: any error, but no wrong value
        return
    assert codec.decode(codec.encode(text)) == text
