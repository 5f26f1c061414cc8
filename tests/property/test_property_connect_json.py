"""JSON of Connect: what is written is read again, and the fast reader agrees with the exact reader."""

from __future__ import annotations

import json
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from kcli.formats.connect.errors import ConnectException, java_chain
from kcli.formats.connect.json_converter import JsonConverter
from kcli.formats.connect.schema import (
    DATE_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    SchemaType,
    check_value,
    decimal_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant

# A surrogate may stand alone in JSON, but two of them that stand together come back as one character.
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
DECIMALS = st.builds(lambda unscaled: Decimal(unscaled).scaleb(-2), st.integers(-(10**20), 10**20))
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda number: number != 0)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != 0)


def scalar(schema: Schema, values: st.SearchStrategy[object]) -> tuple[Schema, st.SearchStrategy[object]]:
    return schema, values


SCALARS = [
    scalar(Schema(SchemaType.INT8), st.integers(-(2**7), 2**7 - 1)),
    scalar(Schema(SchemaType.INT16), st.integers(-(2**15), 2**15 - 1)),
    scalar(Schema(SchemaType.INT32), st.integers(-(2**31), 2**31 - 1)),
    scalar(Schema(SchemaType.INT64), st.integers(-(2**63), 2**63 - 1)),
    scalar(Schema(SchemaType.FLOAT32), SINGLES.map(Float32)),
    scalar(Schema(SchemaType.FLOAT64), DOUBLES),
    scalar(Schema(SchemaType.BOOLEAN), st.booleans()),
    scalar(Schema(SchemaType.STRING), TEXTS),
    scalar(Schema(SchemaType.BYTES), st.binary(max_size=5)),
    scalar(decimal_schema(2), DECIMALS),
    scalar(DATE_SCHEMA, st.integers(-(10**6), 10**6).map(lambda days: Instant(days * 86_400_000))),
    scalar(TIME_SCHEMA, st.integers(0, 86_400_000).map(Instant)),
    scalar(TIMESTAMP_SCHEMA, st.integers(-(2**53), 2**53).map(Instant)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, object]:
    """A schema with a value of it."""
    kind = draw(st.sampled_from(("scalar", "array", "map", "struct") if depth else ("scalar",)))
    match kind:
        case "array":
            schema, _ = draw(typed(depth=0))
            values = strategy_of(schema)
            return Schema(SchemaType.ARRAY, value_schema=schema), draw(st.lists(values, max_size=3))
        case "map":
            schema, _ = draw(typed(depth=0))
            made = Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=schema)
            return made, draw(st.dictionaries(TEXTS, strategy_of(schema), max_size=3))
        case "struct":
            parts = draw(st.dictionaries(TEXTS.filter(bool), typed(depth=depth - 1), max_size=4))
            fields = tuple(Field(name, schema) for name, (schema, _) in parts.items())
            made = Schema(SchemaType.STRUCT, fields=fields, name=draw(st.none() | TEXTS))
            return made, Struct(made, {name: value for name, (_, value) in parts.items()})
        case _:
            schema, values = draw(st.sampled_from(SCALARS))
            return schema, draw(values)


def strategy_of(schema: Schema) -> st.SearchStrategy[object]:
    return next(values for own, values in SCALARS if own == schema)


NODES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-300, 300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(["AAE=", "AA", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def converter(**config: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({key.replace("_", "."): value for key, value in config.items()})
    return made


def result(made: JsonConverter, data: bytes) -> object:
    try:
        schema, value = made.to_connect("t", data)
    except ConnectException as error:
        return java_chain(error)
    return schema, value, repr(value)


@given(typed())
def test_a_written_value_is_read_again(pair: tuple[Schema, object]) -> None:
    schema, value = pair
    made = converter()
    data = made.from_connect("t", schema, value)
    assert data is not None
    for _ in range(2):
        assert made.to_connect("t", data) == (schema, value)
    assert json.loads(data).keys() == {"schema", "payload"}
    check_value(schema, made.to_connect("t", data).value)


@given(typed(), NODES)
def test_the_fast_reader_agrees_with_the_exact_reader(pair: tuple[Schema, object], node: object) -> None:
    schema, value = pair
    fast, exact = converter(), converter(schemas_cache_size="0")
    written = fast.from_connect("t", schema, value)
    assert written is not None
    prefix, _, _ = written.partition(b'"payload":')
    fast.to_connect("t", written)
    for payload in (json.dumps(node), json.dumps(node, ensure_ascii=False)):
        data = prefix + b'"payload":' + payload.encode() + b"}"
        assert result(fast, data) == result(exact, data)


@given(NODES)
def test_json_without_a_schema_is_read_as_it_is_with_blanks_around_it(node: object) -> None:
    made = converter(schemas_enable="false")
    data = json.dumps(node).encode()
    # Blanks around a value make the exact reader read it.
    assert result(made, data) == result(made, b" " + data + b" ")
