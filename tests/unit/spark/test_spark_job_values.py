"""Avro and Protobuf values: types, what does not decode, dead letters; no Spark needed."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.spark.jobs.shared.errors import JobError
from rigs.protobuf import descriptors

pa = pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")
pytest.importorskip("pyspark")

from kcli.formats.avro.codec import avro_codec, avro_schema  # noqa: E402
from kcli.spark.jobs.records.bad_input import ERROR_HEADER, dead_letters  # noqa: E402
from kcli.spark.jobs.records.values import ValueSpec, codec_of, decoded_values, record_codec  # noqa: E402

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": "Kind"},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {
            "name": "lines",
            "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": []}},
        },
    ],
}
ORDER: Any = {
    "id": 1 << 40,
    "note": None,
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "day": datetime.date(2026, 1, 2),
    "price": Decimal("12.34"),
    "kind": "A",
    "other": "B",
    "counts": {"x": 1},
    "lines": [],
}


def test_avro_types_there_and_back() -> None:
    codec = record_codec(json.dumps(AVRO).encode(), None)
    assert codec.encode(ORDER) == avro_codec(avro_schema(json.dumps(AVRO))).encode(ORDER)
    decoded = decoded_values(pa.array([codec.encode(ORDER), None]), codec, 0, "avro")
    first, second = decoded.to_pylist()
    assert first["error"] is None
    assert first["record"] | {"counts": dict(first["record"]["counts"])} == ORDER
    assert second == {"error": None, "record": None}  # a tombstone is no error


def test_a_wrong_avro_value_is_an_error_with_its_reason() -> None:
    codec = record_codec(json.dumps(AVRO).encode(), None)
    wrong, right = decoded_values(
        pa.array([b"12345\x02", b"12345" + codec.encode(ORDER)]), codec, 5, "avro"
    ).to_pylist()
    assert wrong == {
        "error": "the value is not avro of the schema (the value ends too early)",
        "record": None,
    }
    assert right["error"] is None and right["record"]["kind"] == "A"


def test_an_avro_value_must_be_a_record() -> None:
    with pytest.raises(JobError, match="must be a record"):
        record_codec(b'"string"', None)


def test_protobuf_values_become_columns() -> None:
    codec = record_codec(descriptors(), "shop.Order")
    written = b"12345" + codec.encode({"id": 7})
    decoded = decoded_values(pa.array([written]), codec, 5, "protobuf").to_pylist()
    assert decoded[0]["record"]["id"] == 7
    assert decoded[0]["record"]["at"] is None


def test_a_protobuf_message_in_itself_becomes_json_text() -> None:
    codec = record_codec(descriptors(), "shop.Loop")
    written = codec.encode({"next": '{"next":{}}'})
    (decoded,) = decoded_values(pa.array([written]), codec, 0, "protobuf").to_pylist()
    assert decoded == {"error": None, "record": {"next": '{"next":{}}'}}


CODECS = (record_codec(json.dumps(AVRO).encode(), None), record_codec(descriptors(), "shop.Order"))


@settings(deadline=None)  # the first example pays for imports
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_hostile_bytes_are_errors_and_nothing_else(values: list[bytes]) -> None:
    for codec in CODECS:
        for value in decoded_values(pa.array(values, pa.binary()), codec, 0, "it").to_pylist():
            assert (value["error"] is None) != (value["record"] is None)


def test_a_dead_letter_is_the_record_and_what_is_wrong() -> None:
    rows = {
        "key": pa.array([b"k", None]),
        "value": pa.array([b"v", b"w"]),
        "headers": pa.array(
            [[{"key": "h", "value": b"1"}], None],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
        ERROR_HEADER: pa.array(["wrong", "worse"]),
        "__connect.errors.offset": pa.array(["7", None]),
    }
    first, second = dead_letters(rows).to_pylist()
    assert (first["key"], first["value"]) == (b"k", b"v")
    assert [(header["key"], header["value"]) for header in first["headers"]] == [
        ("h", b"1"),
        (ERROR_HEADER, b"wrong"),
        ("__connect.errors.offset", b"7"),
    ]
    assert second["headers"][-1] == {"key": "__connect.errors.offset", "value": None}


@pytest.mark.parametrize(
    "spec, said",
    [
        (ValueSpec("csv"), "CSV values need a schema"),
        (ValueSpec("avro"), "avro values need a schema file"),
        (ValueSpec("avro", "/nosuch"), "there is no schema file /nosuch"),
        (ValueSpec("xml"), "value format xml: expected one of raw, json"),
        (ValueSpec("json", skip_bytes=5), "not in json"),
    ],
)
def test_a_format_reports_missing_or_wrong_options(spec: ValueSpec, said: str) -> None:
    with pytest.raises(JobError, match=said):
        spec.check()


def test_a_schema_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_text("{")
    with pytest.raises(JobError, match=r"a\.avsc: the Avro schema is invalid: the text is not JSON"):
        ValueSpec("avro", str(file)).check()
    file.write_text('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "nosuch"}]}')
    with pytest.raises(JobError, match=r"a\.avsc: the Avro schema is invalid"):
        codec_of(ValueSpec("avro", str(file)))
