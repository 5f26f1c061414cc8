"""JSON Schemas with random content: what a comparison accepts can be read, and the two decoders of rows agree."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.codec import decoded
from kcli.formats.json_schema.columns import column_decoder
from kcli.formats.json_schema.comparison import differences
from kcli.formats.json_schema.kinds import LENIENT, STRICT
from kcli.formats.json_schema.language import JsonSchema, parse
from kcli.formats.json_schema.validation import InvalidValueError, value_validator
from kcli.formats.schemas import CompatibilityPolicy

Schema = dict[str, Any] | bool

MODERN = "https://json-schema.org/draft/2020-12/schema"

NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(0, 3)
# The values with which schemas are compared. They are small, so that many of them are valid.
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    1.5,
    0.5,
    -1,
    "",
    "a",
    "ab",
    "abc",
    [],
    [1],
    ["a"],
    [1, "a"],
    [1, 1],
]
VALUES += [
    {},
    {"a": 1},
    {"a": "ab"},
    {"b": None},
    {"a": 1, "b": 2},
    {"a": "a", "b": [1]},
    {"c": {"a": 1}},
    [{"a": 1}],
]
VALUES += [
    {"a": 1, "b": "a", "c": True},
    [[1], ["a"]],
    {"a": {"b": 1}},
    {"a": [1, "a"], "c": 0.5},
    [1, "a", None],
]


@st.composite
def with_keywords(
    draw: st.DrawFn, base: dict[str, Any], keywords: dict[str, st.SearchStrategy[Any]]
) -> Schema:
    """A schema with some of the keywords."""
    chosen = draw(st.sets(st.sampled_from(sorted(keywords)), max_size=3))
    return base | {name: draw(keywords[name]) for name in sorted(chosen)}


def texts() -> st.SearchStrategy[Schema]:
    return with_keywords({"type": "string"}, {"minLength": SMALL, "maxLength": SMALL})


def numbers() -> st.SearchStrategy[Schema]:
    keywords = {
        "minimum": SMALL,
        "maximum": SMALL,
        "exclusiveMinimum": SMALL,
        "exclusiveMaximum": SMALL,
        "multipleOf": st.sampled_from([0.5, 1, 2, 3]),
    }
    return st.sampled_from(["number", "integer"]).flatmap(
        lambda kind: with_keywords({"type": kind}, keywords)
    )


def requirable(properties: dict[str, Schema]) -> list[str]:
    """The properties that may be required. Confluent's registry accepts a new required property of any value."""
    return sorted(name for name, schema in properties.items() if schema not in ({}, True))


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(NAMES, inner, max_size=3))
    may_be_required = requirable(properties)
    required = sorted(draw(st.sets(st.sampled_from(may_be_required)))) if may_be_required else []
    base = {"type": "object", "properties": properties, "required": required}
    keywords = {
        "additionalProperties": st.booleans() | inner,
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "dependencies": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True) | inner, max_size=2),
    }
    return draw(with_keywords(base, keywords))


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "items": inner,
    }
    base: dict[str, Any] = {"type": "array"}
    if draw(st.booleans()):
        # Confluent's registry compares additionalItems also without a list of items, where it has no meaning.
        base["items"] = draw(st.lists(inner, min_size=1, max_size=2))
        del keywords["items"]
        keywords["additionalItems"] = st.booleans() | inner
    return draw(with_keywords(base, keywords))


def compound(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    members = st.lists(inner, min_size=1, max_size=3)
    combined = st.sampled_from(["anyOf", "allOf"]).flatmap(
        lambda name: members.map(lambda found: {name: found})
    )
    return objects(inner) | arrays(inner) | combined | inner.map(lambda schema: {"not": schema})


def schemas() -> st.SearchStrategy[Schema]:
    """Schemas of the keywords with which a comparison is exact.

    Like Confluent's registry, it ignores a few keywords, and a new member of `oneOf` may exclude old values. Keywords
    for strings beside another type become a member of `allOf`, which a schema of strings may then replace.
    """
    enums = st.lists(st.sampled_from([None, True, 1, 2, "a", "ab"]), min_size=1, unique_by=repr)
    types = st.lists(st.sampled_from(["string", "null", "integer", "boolean"]), min_size=1, unique=True)
    plain = (
        texts()
        | numbers()
        | st.booleans()
        | st.sampled_from([{}, {"type": "boolean"}, {"type": "null"}, {"const": 1}])
        | enums.map(lambda values: {"enum": values})
        | types.map(lambda names: {"type": names, **({"maxLength": 1} if "string" in names else {})})
    )
    return st.recursive(plain, compound, max_leaves=6)


SCHEMAS = schemas()


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """The schema with some keywords or members left out, added or replaced."""
    if isinstance(schema, list):
        return [draw(changed(item)) for item in schema]
    if draw(st.integers(0, 7)) == 0:
        return draw(SCHEMAS)
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "dependencies"):
            kept = {key: item for key, item in value.items() if draw(st.integers(0, 4))}
            result[name] = {
                key: item if isinstance(item, list) else draw(changed(item)) for key, item in kept.items()
            }
        elif name in ("anyOf", "allOf", "not", "additionalProperties", "additionalItems", "items"):
            result[name] = draw(changed(value))
        elif name in ("type", "const", "enum") or draw(st.integers(0, 2)):
            result[name] = value
    if "required" in result:
        result["required"] = sorted({*result["required"]} & {*requirable(result.get("properties", {}))})
    if "items" not in result:
        result.pop("additionalItems", None)
    return result


def parsed(schema: Any) -> JsonSchema:
    return parse(json.dumps(schema), {}, is_new=False)


def valid_values(schema: JsonSchema) -> list[str]:
    validator = value_validator(schema.documents)
    valid = []
    for value in VALUES:
        text = json.dumps(value)
        try:
            validator.check(decoded(text.encode()), len(text))
        except InvalidValueError:
            continue
        valid.append(text)
    return valid


@given(st.data())
def test_the_reader_of_an_accepted_schema_reads_old_values(data: st.DataObject) -> None:
    original = data.draw(SCHEMAS)
    update = data.draw(changed(original))
    writer, reader = parsed(original), parsed(update)
    found = differences(writer.node, reader.node, STRICT)
    assume(all(difference.kind in STRICT for difference in found))
    old = valid_values(writer)
    event(f"{min(len(old), 5)} old values, schema changed: {original != update}")
    assert set(old) <= set(valid_values(reader))


@given(SCHEMAS)
def test_a_schema_is_compatible_with_itself(schema: Schema) -> None:
    found = differences(parsed(schema).node, parsed(schema).node, STRICT)
    assert {difference.kind for difference in found} <= {"NOT_TYPE_NARROWED"}


@given(SCHEMAS, SCHEMAS)
def test_the_lenient_policy_accepts_what_the_strict_policy_accepts(original: Schema, update: Schema) -> None:
    writer, reader = parsed(original), parsed(update)
    strict = differences(writer.node, reader.node, STRICT)
    lenient = differences(writer.node, reader.node, LENIENT)
    if all(difference.kind in STRICT for difference in strict):
        assert all(difference.kind in LENIENT for difference in lenient)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, SCHEMAS)
def test_the_canonical_and_the_normal_form_do_not_change_again(value: Any, schema: Schema) -> None:
    first = parsed({"x": value, "definitions": {"b": schema, "a": value}})
    assert parse(first.canonical, {}, is_new=False).canonical == first.canonical
    normal = first.normalized()
    assert normal.normalized().canonical == normal.canonical
    assert parse(normal.canonical, {}, is_new=False).is_equal(normal)
    assert json.loads(normal.canonical) == json.loads(first.canonical)


KEYWORDS = st.sampled_from(
    [
        *(
            "$schema",
            "$id",
            "$ref",
            "$dynamicRef",
            "$defs",
            "definitions",
            "title",
            "default",
            "type",
            "enum",
            "const",
        ),
        *(
            "properties",
            "patternProperties",
            "additionalProperties",
            "required",
            "dependencies",
            "items",
            "contains",
        ),
        *(
            "prefixItems",
            "minItems",
            "uniqueItems",
            "maxLength",
            "pattern",
            "multipleOf",
            "exclusiveMinimum",
            "a",
        ),
        *("allOf", "anyOf", "not", "if", "then", "unevaluatedProperties", "minContains", "dependentSchemas"),
    ]
)
WORDS = st.sampled_from(
    ["", "a", "#", "#/definitions/a", "//[", "http://x/a", "string", "object", "(", "urn:a:b"]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, -1, 2.5, 10**30]) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(KEYWORDS, JUNK, max_size=6),
    st.sampled_from([None, "http://json-schema.org/draft-04/schema", MODERN]),
)
def test_any_document_is_a_schema_or_has_an_error(document: dict[str, Any], draft: str | None) -> None:
    try:
        schema = parsed(document if draft is None else {"$schema": draft, **document})
    except FormatError:
        return
    event("a schema")
    assert not schema.incompatibilities(schema, CompatibilityPolicy.STRICT) or schema.node is None
    try:
        validator = value_validator(schema.documents)
    except FormatError:
        return
    for value in VALUES:
        with contextlib.suppress(InvalidValueError):
            validator.check(decoded(json.dumps(value).encode()), 10)


ROW = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string"},
        "c": {"type": "number"},
        "d": {"type": "array", "items": {"type": "boolean"}},
        "e": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
FIELDS = {
    "a": st.integers(-(2**65), 2**65) | st.sampled_from([1.0, 1e3, 1.5, "1", True, None]),
    "b": st.text(max_size=5) | st.sampled_from([1, None, [], "\x00", "\ud7ff"]),
    "c": st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.sampled_from([None, "1", False]),
    "d": st.lists(st.booleans() | st.none(), max_size=3) | st.sampled_from([None, {}, [1]]),
    "e": st.sampled_from([None, {}, [], {"a": 1}, {"a": None, "b": 1}, {"a": "x"}]),
    "f": JSON,
}
TEXTS = st.fixed_dictionaries({}, optional=FIELDS).map(lambda row: json.dumps(row).encode())


@st.composite
def damaged(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> bytes:
    """A text that is sometimes cut or changed at one place."""
    text = draw(texts)
    if draw(st.integers(0, 3)):
        return text
    at = draw(st.integers(0, len(text)))
    return (
        text[:at]
        + draw(st.sampled_from([b"", b"}", b"{", b",", b'"', b"\n", b"\xff", b"null", b"1e5"]))
        + text[at:]
    )


@given(st.lists(damaged(TEXTS) | st.none(), max_size=12), st.booleans(), st.booleans())
def test_rows_are_the_same_in_a_block_and_one_by_one(
    values: list[bytes | None], validates: bool, is_closed: bool
) -> None:
    pytest.importorskip("pyarrow")
    schema = {**ROW, "required": ["a"], "additionalProperties": not is_closed}
    decoder = column_decoder(parsed(schema), validates=validates)
    assert decoder is not None
    rows = decoder.decode(values)
    single = [decoder.decode_singly([value]) for value in values]
    assert rows.array.to_pylist() == [row for part in single for row in part.array.to_pylist()]
    assert [error.reason for error in rows.errors] == [
        error.reason for part in single for error in part.errors
    ]
