"""Random Avro schemas and values: texts are stable, values come back, and compatible schemas really read old values."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.formats.avro.codec import avro_codec, json_decoder, json_encoder
from kcli.formats.avro.empty_items import empty_parts
from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import Array, Map, Part, Record, Union
from kcli.formats.codec import FormatError
from kcli.formats.schemas import CompatibilityPolicy
from rigs.avro_schemas import SchemaMaker, changed, column_values, named, value_of

rngs = st.integers(0, 2**48).map(Random)


def parsed(declared: Any) -> AvroSchema:
    return parse(json.dumps(declared), {}, is_new=False)


def plain(part: Part, value: Any) -> Any:
    """The value without the numbers of branches, as the decoder returns it."""
    match part:
        case Union():
            return plain(part.branches[value[0]], value[1])
        case Record():
            return {field.name: plain(field.type, value[field.name]) for field in part.fields}
        case Array():
            return [plain(part.items, item) for item in value]
        case Map():
            return {name: plain(part.values, item) for name, item in value.items()}
        case _:
            return value


@given(rngs)
def test_the_texts_of_a_schema_are_stable(rng: Random) -> None:
    schema = parsed(SchemaMaker(rng).record())
    for text in (schema.canonical, schema.in_format("resolved")):
        again = parse(text, {}, is_new=False)
        assert again.canonical == schema.canonical and again.is_equal(schema)
    normal = schema.normalized()
    assert normal.normalized().canonical == normal.canonical
    assert not normal.incompatibilities(schema, CompatibilityPolicy.STRICT)
    assert not schema.incompatibilities(normal, CompatibilityPolicy.STRICT)


@settings(deadline=None)  # the first example pays for imports
@given(rngs)
def test_values_come_back(rng: Random) -> None:
    schema = parsed(SchemaMaker(rng).record())
    codec, value = avro_codec(schema), value_of(schema.root, rng)
    raw = codec.encode(named(schema.root, value))
    assert codec.decode(raw) == plain(schema.root, value)
    text = json_decoder(schema)(raw)
    assert json_decoder(schema)(json_encoder(schema)(text)) == text


@given(rngs)
def test_compatible_schemas_read_old_values(rng: Random) -> None:
    declared = SchemaMaker(rng).record()
    writer, reader = parsed(declared), parsed(changed(declared, rng))
    raw = avro_codec(writer).encode(named(writer.root, value_of(writer.root, rng)))
    try:
        decoded = avro_codec(writer, reader).decode(raw)
    except InvalidAvro:
        assert reader.incompatibilities(writer, CompatibilityPolicy.STRICT)
    else:
        # The value is one of the reader's schema.
        assert isinstance(reader.root, Record) and isinstance(decoded, dict)
        assert list(decoded) == [field.name for field in reader.root.fields]


@given(rngs, st.binary(max_size=40))
def test_hostile_bytes_are_a_value_or_one_error(rng: Random, raw: bytes) -> None:
    codec = avro_codec(parsed(SchemaMaker(rng).record()))
    with contextlib.suppress(InvalidAvro):
        codec.decode(raw)


_members = st.sampled_from(["type", "name", "fields", "items", "symbols", "size", "default"])
_words = st.sampled_from(["record", "enum", "fixed", "array", "map", "int", "R", ""])
_trees = st.recursive(
    st.one_of(st.none(), _words, st.integers()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_members, inner, max_size=4)),
    max_leaves=8,
)


@given(_trees)
def test_hostile_schemas_are_a_schema_or_one_error(declared: Any) -> None:
    for is_new in (True, False):
        with contextlib.suppress(FormatError):
            parse(json.dumps(declared), {}, is_new=is_new)


@settings(deadline=None)
@given(rngs)
def test_columns_have_the_values_that_are_decoded_one_by_one(rng: Random) -> None:
    pa = pytest.importorskip("pyarrow")
    from kcli.formats.avro.column_values import ColumnReaders, value_before
    from kcli.formats.avro.columns import ColumnDecoder

    declared = SchemaMaker(rng, has_logical_types=rng.random() < 0.7).record()
    writer, reader = parsed(declared), parsed(changed(declared, rng)) if rng.random() < 0.6 else None
    target = (reader or writer).root
    raws = list(_damaged(writer, rng))
    decoder = ColumnDecoder(writer, reader)
    read = ColumnReaders(empty_parts(writer.root) | empty_parts(target), ()).of(writer.root, target)
    values: list[Any] = []
    valid: list[bool] = []
    for raw in raws:
        value, is_valid = None, True
        if raw is not None:
            try:
                value, end = value_before(read, raw, 0, len(raw))
                is_valid = end == len(raw)
            except InvalidAvro:
                is_valid = False
        values.append(value if is_valid else None)
        valid.append(is_valid)
    column = decoder.decode(
        pa.array([None if raw is None else b"12345" + raw for raw in raws], pa.binary()), 5
    )
    column.values.validate(full=True)
    assert [error is None for error in column.errors.to_pylist()] == valid
    expected = pa.array(values, decoder.type)
    assert repr(column_values(column.values)) == repr(column_values(expected))  # NaN has a text too


def _damaged(schema: AvroSchema, rng: Random) -> Iterator[bytes | None]:
    """Encoded values, of which some are null, damaged, cut or too long."""
    codec = avro_codec(schema)
    for _ in range(rng.choice((1, 5, 80))):
        raw = codec.encode(named(schema.root, value_of(schema.root, rng)))
        match rng.randrange(20):
            case 0 | 1 if raw:
                place = rng.randrange(len(raw))
                raw = raw[:place] + rng.randbytes(1) + raw[place + 1 :]
            case 2:
                raw = raw[: rng.randrange(len(raw) + 1)]
            case 3:
                raw += b"\0"
            case 4:
                yield None
                continue
        yield raw
