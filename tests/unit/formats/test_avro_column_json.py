"""The JSON of many Avro values, made by columns, is the JSON of each value."""

from __future__ import annotations

import json
from random import Random

import pytest

from kcli.formats.avro.codec import avro_codec, json_decoder
from kcli.formats.avro.column_json import LineDecoder
from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.avro.numbers import InvalidAvro
from rigs.avro_schemas import SchemaMaker, named, value_of


def schema_of(declared: object) -> AvroSchema:
    return parse(json.dumps(declared), {}, is_new=False)


def record(*types: object) -> AvroSchema:
    fields = [{"name": f"f{nth}", "type": one} for nth, one in enumerate(types)]
    return schema_of({"type": "record", "name": "a.R", "fields": fields})


def test_random_values_of_random_schemas_have_the_same_lines() -> None:
    lines = 0
    for seed in range(150):
        rng = Random(seed)
        schema = schema_of(SchemaMaker(rng, has_logical_types=seed % 2 == 1).record())
        decoder = LineDecoder(schema)
        if not decoder.is_possible:
            continue
        encode, decode, values = avro_codec(schema).encode, json_decoder(schema), []
        for _ in range(5):
            try:
                values.append(encode(named(schema.root, value_of(schema.root, rng))))
            except (ValueError, OverflowError):  # a random value may be out of the range of its logical type
                continue
        for value, line in zip(values, decoder.decode(values), strict=True):
            if line is not None:
                assert line == decode(value)
                lines += 1
    assert lines > 100


@pytest.mark.parametrize("text", ["", "plain ~!", 'quote " \\', "\n\t\x00\x7f", "é€", "😀", "\u2028"])
def test_texts_are_escaped_alike(text: str) -> None:
    schema = record("string", ["null", "string"], {"type": "array", "items": "string"})
    value = avro_codec(schema).encode({"f0": text, "f1": text, "f2": [text, "x"]})
    assert LineDecoder(schema).decode([value, value]) == [json_decoder(schema)(value)] * 2


def test_a_record_in_itself_has_its_own_lines() -> None:
    fields = [{"name": "text", "type": "string"}, {"name": "next", "type": ["null", "R"]}]
    schema = schema_of({"type": "record", "name": "R", "fields": fields})
    value = avro_codec(schema).encode({"text": "é", "next": {"text": "😀\n", "next": None}})
    assert LineDecoder(schema).decode([value] * 2) == [json_decoder(schema)(value)] * 2


def test_numbers_and_times_have_their_stored_values() -> None:
    types = (
        "boolean",
        "int",
        "long",
        "float",
        "double",
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    )
    schema = record(*types)
    plain = record(
        "boolean", "int", "long", "float", "double", "int", "int", "long", "long", ["null", "long"]
    )
    rows = (
        (True, -1, 2**62, 0.1, 1e300, -1, 86_399_999, -1, -1, -1001),
        (False, 0, -(2**63), float("nan"), -0.0, 0, 0, 10**12, 10**18, None),
    )
    values = [avro_codec(plain).encode({f"f{nth}": cell for nth, cell in enumerate(row)}) for row in rows]
    assert LineDecoder(schema).decode(values) == [json_decoder(schema)(value) for value in values]


def test_unions_and_evolution() -> None:
    writer = record(["null", "int", "string"], {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "int")
    fields = [
        {"name": "f2", "type": "long"},
        {"name": "f0", "type": ["null", "string", "int"]},
        {"name": "new", "type": {"type": "array", "items": "int"}, "default": [1]},
    ]
    reader = schema_of({"type": "record", "name": "a.R", "fields": fields})
    encode = avro_codec(writer).encode
    values = [encode({"f0": one, "f1": "A", "f2": 7}) for one in (None, 5, "x")]
    lines = LineDecoder(writer, reader).decode(values)
    assert lines == [json_decoder(writer, reader)(value) for value in values]
    assert lines[1] == '{"f2":7,"f0":{"int":5},"new":[1]}'


def test_a_wrong_value_is_left_to_the_other_decoder() -> None:
    schema = record("int", "string")
    good = avro_codec(schema).encode({"f0": 1, "f1": "x"})
    assert LineDecoder(schema).decode([good, b"\x02", good + b"!"]) == ['{"f0":1,"f1":"x"}', None, None]
    with pytest.raises(InvalidAvro):
        json_decoder(schema)(b"\x02")


@pytest.mark.parametrize(
    "kind", ["bytes", {"type": "map", "values": "int"}, {"type": "fixed", "name": "F", "size": 2}]
)
def test_types_that_the_columns_store_in_another_way_have_no_lines(kind: object) -> None:
    assert not LineDecoder(record(kind)).is_possible
    assert not LineDecoder(record(["null", kind])).is_possible
    assert not LineDecoder(record({"type": "array", "items": kind})).is_possible


def test_a_list_in_a_slice_of_values() -> None:
    schema = record({"type": "array", "items": ["null", "int"]})
    encode = avro_codec(schema).encode
    values = [encode({"f0": [None, nth][: nth % 3]}) for nth in range(7)]
    assert LineDecoder(schema).decode(values) == [json_decoder(schema)(value) for value in values]
