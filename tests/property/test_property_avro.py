"""Random Avro schemas and values: texts are stable, values come back, and compatible schemas really read old values."""

from __future__ import annotations

import contextlib
import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.formats.avro.codec import avro_codec, json_decoder, json_encoder
from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import Array, Map, Part, Record, Union, branch_name
from kcli.formats.codec import FormatError
from kcli.formats.schemas import CompatibilityPolicy
from rigs.avro_schemas import SchemaMaker, changed, value_of

rngs = st.integers(0, 2**48).map(Random)


def parsed(declared: Any) -> AvroSchema:
    return parse(json.dumps(declared), {}, is_new=False)


def named(part: Part, value: Any) -> Any:
    """The value with the names of branches, as the encoder accepts it."""
    match part:
        case Union():
            branch = part.branches[value[0]]
            return branch_name(branch), named(branch, value[1])
        case Record():
            return {field.name: named(field.type, value[field.name]) for field in part.fields}
        case Array():
            return [named(part.items, item) for item in value]
        case Map():
            return {name: named(part.values, item) for name, item in value.items()}
        case _:
            return value


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
