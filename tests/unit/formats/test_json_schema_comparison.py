"""Differences between two JSON Schemas: every kind, its path, and whether the policies accept it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.formats.codec import FormatError
from kcli.formats.json_schema import comparison
from kcli.formats.json_schema.comparison import differences
from kcli.formats.json_schema.kinds import LENIENT, STRICT
from kcli.formats.json_schema.language import JsonSchema, parse
from kcli.formats.json_schema.matching import maximum_matching
from kcli.formats.schemas import CompatibilityPolicy

MODERN = "https://json-schema.org/draft/2020-12/schema"
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
CLOSED = {"type": "object", "additionalProperties": False}
OPEN = {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def schema(value: Any, draft: str | None = None) -> JsonSchema:
    if draft is not None:
        value = {"$schema": draft, **value}
    return parse(json.dumps(value), {}, is_new=False)


def found(original: Any, update: Any, draft: str | None = None) -> list[str]:
    compared = differences(schema(original, draft).node, schema(update, draft).node, STRICT)
    return [f"{difference.kind} {difference.full_path}" for difference in compared]


def with_property(rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**rules, "properties": {"kept": True, **properties}}


# Each row: the original, the update, and the differences from the original to the update.
BOUNDS = [
    ("string", "maxLength", "MAX_LENGTH"),
    ("string", "minLength", "MIN_LENGTH"),
    ("number", "maximum", "MAXIMUM"),
    ("number", "minimum", "MINIMUM"),
    ("number", "exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
    ("number", "exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ("object", "maxProperties", "MAX_PROPERTIES"),
    ("object", "minProperties", "MIN_PROPERTIES"),
    ("array", "maxItems", "MAX_ITEMS"),
    ("array", "minItems", "MIN_ITEMS"),
]


@pytest.mark.parametrize(("kind", "keyword", "name"), BOUNDS, ids=[row[1] for row in BOUNDS])
@pytest.mark.parametrize("draft", [None, MODERN])
def test_a_bound_is_added_removed_increased_and_decreased(
    kind: str, keyword: str, name: str, draft: str | None
) -> None:
    none, low, high = {"type": kind}, {"type": kind, keyword: 2}, {"type": kind, keyword: 3}
    assert found(none, low, draft) == [f"{name}_ADDED #/{keyword}"]
    assert found(low, none, draft) == [f"{name}_REMOVED #/{keyword}"]
    assert found(low, high, draft) == [f"{name}_INCREASED #/{keyword}"]
    assert found(high, low, draft) == [f"{name}_DECREASED #/{keyword}"]
    assert found(low, {"type": kind, keyword: 2.0}, draft) == []
    widening = (
        f"{name}_INCREASED" if keyword.lower().startswith(("max", "exclusivemax")) else f"{name}_DECREASED"
    )
    assert {f"{name}_REMOVED", widening} <= STRICT
    assert not {f"{name}_ADDED"} & LENIENT


SCALARS = [
    (TEXT, NUMBER, ["TYPE_CHANGED #/"]),
    (INTEGER, NUMBER, ["TYPE_EXTENDED #/"]),
    (NUMBER, INTEGER, ["TYPE_NARROWED #/"]),
    ({"type": "boolean"}, {"type": "null"}, ["TYPE_CHANGED #/"]),
    ({"type": "null"}, {"type": "null"}, []),
    (TEXT, {}, []),
    (TEXT, True, []),
    (False, TEXT, []),
    ({}, TEXT, ["TYPE_CHANGED #/"]),
    (True, TEXT, ["TYPE_CHANGED #/"]),
    (TEXT, False, ["TYPE_CHANGED #/"]),
    (True, {}, []),
    ({**TEXT, "title": "a"}, {**TEXT, "title": "b"}, ["TITLE_CHANGED #/"]),
    ({**TEXT, "description": "a"}, TEXT, ["DESCRIPTION_CHANGED #/"]),
    ({**TEXT, "default": "a"}, {**TEXT, "default": "b"}, ["DEFAULT_CHANGED #/"]),
    ({**TEXT, "default": None}, TEXT, []),
    ({**TEXT, "$id": "a"}, {**TEXT, "$id": "b"}, ["ID_CHANGED #/"]),
    ({**TEXT, "pattern": "a"}, TEXT, ["PATTERN_REMOVED #/pattern"]),
    (TEXT, {**TEXT, "pattern": "a"}, ["PATTERN_ADDED #/pattern"]),
    ({**TEXT, "pattern": "a"}, {**TEXT, "pattern": "b"}, ["PATTERN_CHANGED #/pattern"]),
    (NUMBER, {**NUMBER, "multipleOf": 2}, ["MULTIPLE_OF_ADDED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 2}, NUMBER, ["MULTIPLE_OF_REMOVED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 0.5}, {**NUMBER, "multipleOf": 2}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 6}, {**NUMBER, "multipleOf": 3}, ["MULTIPLE_OF_REDUCED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 6}, ["MULTIPLE_OF_CHANGED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 2.0}, []),
    ({"enum": [1]}, {"enum": [1, 2]}, ["ENUM_ARRAY_EXTENDED #/enum"]),
    ({"enum": [1, 2]}, {"enum": [1]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    ({"enum": [1]}, {"enum": [2]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    ({"enum": [True]}, {"enum": [1]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    ({"enum": [{"a": 1, "b": 2}, 3]}, {"enum": [3, {"b": 2, "a": 1}]}, []),
    ({"const": "a"}, {"const": "a"}, []),
    ({"const": "a"}, {"const": "b"}, ["ENUM_ARRAY_CHANGED #/const"]),
    ({"const": None}, {"const": None}, []),
    ({"if": TEXT, "then": TEXT}, {"if": NUMBER}, []),
    (
        {"type": "string", "connect.type": "bytes"},
        {"type": "number", "connect.type": "bytes"},
        [],
    ),
]

OBJECTS = [
    (
        with_property(OPEN),
        with_property(OPEN, a={}),
        ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (with_property(OPEN), with_property(OPEN, a=TEXT), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (
        with_property(OPEN),
        {**with_property(OPEN, a=TEXT), "required": ["a"]},
        ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (
        with_property(OPEN),
        {**with_property(OPEN, a={**TEXT, "default": ""}), "required": ["a"]},
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (
        with_property(CLOSED),
        with_property(CLOSED, a=TEXT),
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (
        with_property(CLOSED),
        {**with_property(CLOSED, a=TEXT), "required": ["a"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (
        with_property(CLOSED),
        {**with_property(CLOSED, a={**TEXT, "default": ""}), "required": ["a"]},
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (
        with_property(TEXTS),
        with_property(TEXTS, a=TEXT),
        [
            "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        ],
    ),
    (
        with_property(TEXTS),
        with_property(TEXTS, a=NUMBER),
        [
            "TYPE_CHANGED",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        ],
    ),
    (with_property(OPEN, a=TEXT), with_property(OPEN), ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL"]),
    (with_property(CLOSED, a=TEXT), with_property(CLOSED), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (
        with_property(CLOSED, a=False),
        with_property(CLOSED),
        ["PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
    ),
    (
        with_property(TEXTS, a={**TEXT, "maxLength": 1}),
        with_property(TEXTS),
        ["MAX_LENGTH_REMOVED maxLength", "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        with_property(TEXTS, a=NUMBER),
        with_property(TEXTS),
        ["TYPE_CHANGED", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        with_property({**CLOSED, "patternProperties": {"^[a-c]$": TEXT}}),
        with_property({**CLOSED, "patternProperties": {"^[a-c]$": TEXT}}, a=TEXT),
        [
            "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        ],
    ),
    (
        with_property({**CLOSED, "patternProperties": {"^[b-c]$": TEXT}}),
        with_property({**CLOSED, "patternProperties": {"^[b-c]$": TEXT}}, a=TEXT),
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
]

RESTS = [
    (CLOSED, OPEN, ["ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"]),
    (OPEN, CLOSED, ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
    (OPEN, TEXTS, ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"]),
    (TEXTS, OPEN, ["ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"]),
    (TEXTS, {**OPEN, "additionalProperties": NUMBER}, ["TYPE_CHANGED #/additionalProperties"]),
    (
        {**with_property(OPEN, a=TEXT), "required": ["a"]},
        with_property(OPEN, a=TEXT),
        ["REQUIRED_ATTRIBUTE_REMOVED #/required/a"],
    ),
    (
        with_property(OPEN, a=TEXT),
        {**with_property(OPEN, a=TEXT), "required": ["a"]},
        ["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
    ),
    (
        with_property(OPEN, a={**TEXT, "default": "x"}),
        {**with_property(OPEN, a={**TEXT, "default": "x"}), "required": ["a"]},
        ["REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/a"],
    ),
    (
        {**OPEN, "dependencies": {"a": ["b", "c"]}},
        {**OPEN, "dependencies": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_NARROWED #/dependencies/a"],
    ),
    (
        {**OPEN, "dependencies": {"a": ["b"]}},
        {**OPEN, "dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    (
        {**OPEN, "dependencies": {"a": ["b"]}},
        {**OPEN, "dependencies": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    (OPEN, {**OPEN, "dependencies": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"]),
    ({**OPEN, "dependencies": {"a": ["b"]}}, OPEN, ["DEPENDENCY_ARRAY_REMOVED #/dependencies/a"]),
    (OPEN, {**OPEN, "dependencies": {"a": OPEN}}, ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"]),
    ({**OPEN, "dependencies": {"a": OPEN}}, OPEN, ["DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"]),
    (
        {**OPEN, "dependencies": {"a": OPEN}},
        {**OPEN, "dependencies": {"a": {**OPEN, "minProperties": 1}}},
        ["MIN_PROPERTIES_ADDED #/dependencies/a/minProperties"],
    ),
]

ARRAY = {"type": "array"}
TUPLE = {"type": "array", "items": [TEXT]}
ARRAYS = [
    (ARRAY, {**ARRAY, "items": TEXT}, ["SCHEMA_ADDED #/items"]),
    ({**ARRAY, "items": TEXT}, ARRAY, ["SCHEMA_REMOVED #/items"]),
    ({**ARRAY, "items": TEXT}, {**ARRAY, "items": NUMBER}, ["TYPE_CHANGED #/items"]),
    (TUPLE, {**ARRAY, "items": [NUMBER]}, ["TYPE_CHANGED #/items/0"]),
    (
        TUPLE,
        {**ARRAY, "items": [TEXT, True]},
        ["ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (TUPLE, {**ARRAY, "items": [TEXT, TEXT]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
    (
        {**TUPLE, "additionalItems": False},
        {**ARRAY, "items": [TEXT, TEXT], "additionalItems": False},
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {**TUPLE, "additionalItems": TEXT},
        {**ARRAY, "items": [TEXT, TEXT], "additionalItems": TEXT},
        ["ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {**TUPLE, "additionalItems": TEXT},
        {**ARRAY, "items": [TEXT, NUMBER], "additionalItems": TEXT},
        ["TYPE_CHANGED #/items/1", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    ({**ARRAY, "items": [TEXT, TEXT]}, TUPLE, ["ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"]),
    (
        {**ARRAY, "items": [TEXT, TEXT], "additionalItems": False},
        {**TUPLE, "additionalItems": False},
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {**ARRAY, "items": [TEXT, False], "additionalItems": False},
        {**TUPLE, "additionalItems": False},
        ["ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {**ARRAY, "items": [TEXT, TEXT], "additionalItems": TEXT},
        {**TUPLE, "additionalItems": TEXT},
        ["ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {**ARRAY, "items": [TEXT, NUMBER], "additionalItems": TEXT},
        {**TUPLE, "additionalItems": TEXT},
        ["TYPE_CHANGED #/items/1", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    ({**TUPLE, "additionalItems": False}, TUPLE, ["ADDITIONAL_ITEMS_ADDED #/additionalItems"]),
    (TUPLE, {**TUPLE, "additionalItems": False}, ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"]),
    (TUPLE, {**TUPLE, "additionalItems": TEXT}, ["ADDITIONAL_ITEMS_NARROWED #/additionalItems"]),
    ({**TUPLE, "additionalItems": TEXT}, TUPLE, ["ADDITIONAL_ITEMS_EXTENDED #/additionalItems"]),
    (ARRAY, {**ARRAY, "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    ({**ARRAY, "uniqueItems": True}, ARRAY, ["UNIQUE_ITEMS_REMOVED #/uniqueItems"]),
]

ANY = {"anyOf": [TEXT, NUMBER]}
COMBINED = [
    (TEXT, {"anyOf": [TEXT]}, []),
    ({"allOf": [TEXT]}, TEXT, []),
    (TEXT, ANY, ["SUM_TYPE_EXTENDED #/"]),
    (TEXT, {"oneOf": [NUMBER, TEXT]}, ["SUM_TYPE_EXTENDED #/"]),
    (TEXT, {"allOf": [NUMBER, TEXT]}, ["TYPE_CHANGED #/"]),
    ({"type": "boolean"}, ANY, ["TYPE_CHANGED #/"]),
    ({"allOf": [TEXT, {"minLength": 1}]}, TEXT, ["PRODUCT_TYPE_NARROWED #/"]),
    (ANY, TEXT, ["TYPE_CHANGED #/"]),
    (ANY, {"anyOf": [NUMBER, TEXT]}, []),
    (ANY, {"anyOf": [NUMBER, TEXT, {"type": "null"}]}, ["SUM_TYPE_EXTENDED #/"]),
    ({"anyOf": [NUMBER, TEXT, {"type": "null"}]}, ANY, ["SUM_TYPE_NARROWED #/"]),
    ({"allOf": [TEXT, NUMBER]}, {"allOf": [TEXT, NUMBER, OPEN]}, ["PRODUCT_TYPE_EXTENDED #/"]),
    ({"allOf": [TEXT, NUMBER, OPEN]}, {"allOf": [TEXT, NUMBER]}, ["PRODUCT_TYPE_NARROWED #/"]),
    (ANY, {"anyOf": [TEXT, OPEN]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    ({"oneOf": [TEXT, NUMBER]}, ANY, ["COMBINED_TYPE_EXTENDED #/"]),
    ({"allOf": [TEXT, NUMBER]}, ANY, ["COMBINED_TYPE_EXTENDED #/"]),
    (ANY, {"oneOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_CHANGED #/"]),
    ({"anyOf": [TEXT]}, {"oneOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_EXTENDED #/", "SUM_TYPE_EXTENDED #/"]),
    ({"anyOf": [TEXT, TEXT, NUMBER]}, ANY, []),
    (
        {"anyOf": [{**TEXT, "maxLength": 1}, NUMBER]},
        ANY,
        ["MAX_LENGTH_REMOVED #/anyOf/0/maxLength"],
    ),
    ({"type": ["string", "null"]}, {"type": ["null", "string", "number"]}, ["SUM_TYPE_EXTENDED #/"]),
    (TEXT, {"type": ["string", "null"]}, ["SUM_TYPE_EXTENDED #/"]),
    (
        {**TEXT, "enum": ["a"]},
        {**TEXT, "enum": ["a", "b"]},
        ["ENUM_ARRAY_EXTENDED #/allOf/0/enum"],
    ),
    ({"not": {**TEXT, "maxLength": 2}}, {"not": {**TEXT, "maxLength": 1}}, ["NOT_TYPE_NARROWED #/not"]),
    ({"not": {**TEXT, "maxLength": 1}}, {"not": {**TEXT, "maxLength": 2}}, ["NOT_TYPE_EXTENDED #/not"]),
    ({"not": TEXT}, {"not": TEXT}, ["NOT_TYPE_NARROWED #/not"]),
]

ROWS = [*SCALARS, *RESTS, *ARRAYS, *COMBINED]


@pytest.mark.parametrize(("original", "update", "expected"), ROWS)
def test_each_change_has_its_kind_and_path(original: Any, update: Any, expected: list[str]) -> None:
    assert found(original, update) == expected


@pytest.mark.parametrize(("original", "update", "expected"), OBJECTS)
@pytest.mark.parametrize("draft", [None, MODERN])
def test_each_change_of_a_property_has_its_kind(
    original: Any, update: Any, expected: list[str], draft: str | None
) -> None:
    assert found(original, update, draft) == [_placed(change) for change in expected]


def _placed(change: str) -> str:
    kind, _, path = change.partition(" ")
    return f"{kind} #/properties/a" + (f"/{path}" if path else "")


UNEVALUATED = [
    (True, False, "REMOVED"),
    (False, True, "ADDED"),
    (None, False, "REMOVED"),
    (False, None, "ADDED"),
    (None, TEXT, "NARROWED"),
    (TEXT, None, "EXTENDED"),
    (True, TEXT, "NARROWED"),
    (TEXT, True, "EXTENDED"),
]


@pytest.mark.parametrize(("original", "update", "change"), UNEVALUATED)
@pytest.mark.parametrize(
    ("kind", "keyword", "name"),
    [
        ("object", "unevaluatedProperties", "UNEVALUATED_PROPERTIES"),
        ("array", "unevaluatedItems", "UNEVALUATED_ITEMS"),
    ],
)
def test_unevaluated_values_are_compared_in_modern_drafts(
    original: Any, update: Any, change: str, kind: str, keyword: str, name: str
) -> None:
    before = {"type": kind} if original is None else {"type": kind, keyword: original}
    after = {"type": kind} if update is None else {"type": kind, keyword: update}
    assert found(before, after, MODERN) == [f"{name}_{change} #/{keyword}"]
    assert found(before, after) == []


@pytest.mark.parametrize("uncovered", [False, NUMBER])
def test_unevaluated_properties_decide_about_properties_that_are_not_named(uncovered: Any) -> None:
    rules = {**OPEN, "unevaluatedProperties": uncovered, "$defs": {"x": TEXT}}
    kinds = found(with_property(rules), with_property(rules, a=NUMBER), MODERN)
    assert kinds[-1] == "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"


MODERN_ROWS = [
    (ARRAY, {**ARRAY, "contains": TEXT}, ["MIN_CONTAINS_ADDED #/minContains"]),
    (
        {**ARRAY, "contains": TEXT},
        {**ARRAY, "contains": TEXT, "minContains": 2},
        ["MIN_CONTAINS_INCREASED #/minContains"],
    ),
    (
        {**ARRAY, "contains": TEXT, "maxContains": 3},
        {**ARRAY, "contains": TEXT, "maxContains": 2, "minContains": 1},
        ["MAX_CONTAINS_DECREASED #/maxContains"],
    ),
    (
        {**ARRAY, "prefixItems": [TEXT]},
        {**ARRAY, "prefixItems": [TEXT, TEXT]},
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {**ARRAY, "prefixItems": [TEXT], "items": False},
        {**ARRAY, "prefixItems": [TEXT, NUMBER], "items": False},
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {**OPEN, "dependentRequired": {"a": ["b"]}},
        {**OPEN, "dependentRequired": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    (OPEN, {**OPEN, "dependentSchemas": {"a": OPEN}}, ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"]),
    ({"enum": ["a"], **TEXT}, {**TEXT, "enum": ["a", "b"]}, ["ENUM_ARRAY_EXTENDED #/allOf/0/enum"]),
    ({"properties": {}}, {"patternProperties": {}}, []),
]


@pytest.mark.parametrize(("original", "update", "expected"), MODERN_ROWS)
def test_keywords_of_modern_drafts_are_compared(original: Any, update: Any, expected: list[str]) -> None:
    assert found(original, update, MODERN) == expected


def test_additional_items_of_draft_2019_follow_an_array_of_items() -> None:
    draft = "https://json-schema.org/draft/2019-09/schema"
    closed = {**TUPLE, "additionalItems": False}
    assert found(closed, TUPLE, draft) == ["ADDITIONAL_ITEMS_ADDED #/additionalItems"]
    assert found(ARRAY, {**ARRAY, "additionalItems": False}, draft) == []


@pytest.mark.parametrize(
    ("original", "update", "strict", "lenient"),
    [
        (with_property(OPEN), with_property(OPEN, a=TEXT), False, True),
        (with_property(OPEN), {**with_property(OPEN, a=TEXT), "required": ["a"]}, False, False),
        (with_property(CLOSED, a=TEXT), with_property(CLOSED), False, True),
        (OPEN, CLOSED, False, True),
        (OPEN, TEXTS, False, True),
        (NUMBER, INTEGER, False, False),
        (INTEGER, NUMBER, True, True),
        (ANY, {"anyOf": [with_property(OPEN), TEXT]}, False, False),
    ],
)
def test_the_policies_accept_different_changes(
    original: Any, update: Any, strict: bool, lenient: bool
) -> None:
    reader, writer = schema(update), schema(original)
    assert (not reader.incompatibilities(writer, CompatibilityPolicy.STRICT)) is strict
    assert (not reader.incompatibilities(writer, CompatibilityPolicy.LENIENT)) is lenient
    assert reader.incompatibilities(writer, CompatibilityPolicy.LOGICAL) == reader.incompatibilities(
        writer, CompatibilityPolicy.STRICT
    )


MESSAGES = [
    (
        with_property(OPEN),
        with_property(OPEN, x=TEXT),
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        (
            "The new schema has an open content model and has a property or item at path '#/properties/x' which is "
            "missing in the old schema"
        ),
    ),
    (
        TEXT,
        NUMBER,
        "TYPE_CHANGED",
        "A type at path '#/' is different between the new schema and the old schema",
    ),
    (
        TEXT,
        {**TEXT, "maxLength": 1},
        "MAX_LENGTH_ADDED",
        "The keyword at path '#/maxLength' in the new schema is not present in the old schema",
    ),
    (
        {**TEXT, "maxLength": 2},
        {**TEXT, "maxLength": 1},
        "MAX_LENGTH_DECREASED",
        "The value at path '#/maxLength' in the new schema is less than its value in the old schema",
    ),
    (
        {**TEXT, "minLength": 1},
        {**TEXT, "minLength": 2},
        "MIN_LENGTH_INCREASED",
        "The value at path '#/minLength' in the new schema is more than its value in the old schema",
    ),
    (
        {**TEXT, "pattern": "a"},
        {**TEXT, "pattern": "b"},
        "PATTERN_CHANGED",
        "The value at path '#/pattern' is different between the new and old schema",
    ),
    (
        {"enum": [1, 2]},
        {"enum": [1]},
        "ENUM_ARRAY_NARROWED",
        "An array or combined type at path '#/enum' has fewer elements in the new schema than the old schema",
    ),
    (
        {"allOf": [TEXT, NUMBER]},
        {"allOf": [TEXT, NUMBER, OPEN]},
        "PRODUCT_TYPE_EXTENDED",
        "An array or combined type at path '#/' has more elements in the new schema than the old schema",
    ),
    (
        with_property(CLOSED, a=TEXT),
        with_property(CLOSED),
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        (
            "The new has a closed content model and is missing a property or item present at path '#/properties/a' in "
            "the old schema"
        ),
    ),
    (ARRAY, {**ARRAY, "items": TEXT}, "SCHEMA_ADDED", ""),
]


@pytest.mark.parametrize(("original", "update", "kind", "sentence"), MESSAGES)
def test_messages_are_the_sentences_of_confluents_registry(
    original: Any, update: Any, kind: str, sentence: str
) -> None:
    [reason] = schema(update).incompatibilities(schema(original), CompatibilityPolicy.STRICT)
    expected = f'{{errorType:"{kind}", description:"{sentence}\'}}'
    assert (reason.kind, reason.message(reader="new", writer="old")) == (kind, expected)


def recursive(kind: str, *, reference: str = "#/definitions/node") -> dict[str, Any]:
    """A list of nodes, whose values have a type."""
    node = {**OPEN, "properties": {"value": {"type": kind}, "next": {"$ref": reference}}}
    return {"$ref": reference, "definitions": {"node": node}}


def test_recursive_schemas_are_compared_once() -> None:
    assert found(recursive("string"), recursive("string")) == []
    # As in Confluent's registry, the pair inside itself has the differences that the pass before has found.
    assert found(recursive("string"), recursive("number")) == [
        "TYPE_CHANGED #/properties/next/properties/value",
        "TYPE_CHANGED #/properties/value",
    ]
    tree = {"$schema": MODERN, "$ref": "#", "title": "only itself", "maxLength": 1}
    assert found(tree, tree) == []


def test_an_assumption_about_a_recursive_pair_is_checked_again() -> None:
    # The pair of `b` is compared inside the pair of `a`, before the difference in `a` is known.
    def schemas(kind: str) -> dict[str, Any]:
        a = {
            **OPEN,
            "properties": {"other": {"anyOf": [{"$ref": "#/definitions/b"}]}, "value": {"type": kind}},
        }
        b = {**OPEN, "properties": {"other": {"$ref": "#/definitions/a"}}}
        union = [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}]
        return {"properties": {"root": {"oneOf": union}}, "definitions": {"a": a, "b": b}}

    kinds = found(schemas("integer"), schemas("boolean"))
    assert not all(kind.split(" ")[0] in STRICT for kind in kinds)
    assert found(schemas("integer"), schemas("integer")) == []


def test_a_chain_of_references_is_followed_to_its_end() -> None:
    def chain(kind: str, length: int) -> dict[str, Any]:
        links = {str(at): {"$ref": f"#/definitions/{at + 1}"} for at in range(length)}
        return {"$ref": "#/definitions/0", "definitions": {**links, str(length): {"type": kind}}}

    assert found(chain("string", 5), TEXT) == []
    assert found(chain("string", 5), chain("number", 3)) == ["TYPE_CHANGED #/"]
    for endless in (chain("string", 200), {"$ref": "#"}):
        with pytest.raises(FormatError, match="more than 100 references to references"):
            schema(endless)


def test_long_chains_of_nested_schemas_need_no_stack() -> None:
    def chain(kind: str) -> dict[str, Any]:
        links = {
            str(at): {**OPEN, "properties": {"a": {"$ref": f"#/definitions/{at + 1}"}}} for at in range(3000)
        }
        return {"$ref": "#/definitions/0", "definitions": {**links, "3000": {"type": kind}}}

    [change] = found(chain("string"), chain("number"))
    assert change.startswith("TYPE_CHANGED #/properties/a/properties/a") and change.count("/a") == 3000


def test_one_difference_on_very_many_paths_is_listed_a_bounded_number_of_times() -> None:
    def fan(kind: str) -> dict[str, Any]:
        links = {
            str(at): {**OPEN, "properties": {name: {"$ref": f"#/definitions/{at + 1}"} for name in "ab"}}
            for at in range(40)
        }
        return {"$ref": "#/definitions/0", "definitions": {**links, "40": {"type": kind}}}

    assert len(found(fan("string"), fan("number"))) == 1000


def test_very_long_paths_of_very_many_differences_end_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "CHARACTERS_MAX", 10_000_000)

    def chain(kind: str) -> dict[str, Any]:
        links = {
            str(at): {**OPEN, "properties": {"a": {"$ref": f"#/definitions/{at + 1}"}}} for at in range(1500)
        }
        return {"$ref": "#/definitions/0", "definitions": {**links, "1500": {"type": kind}}}

    assert found(chain("string"), chain("string")) == []
    with pytest.raises(FormatError, match="too many differences on long paths"):
        found(chain("string"), chain("number"))


def test_a_comparison_of_too_many_pairs_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "PAIRS_MAX", 1000)
    members = [{"type": "object", "title": str(at)} for at in range(40)]
    writer = schema({"anyOf": members})
    reader = schema({"anyOf": [{**member, "maxProperties": 1} for member in members]})
    with pytest.raises(FormatError, match="too complex: more than 1000 pairs"):
        differences(writer.node, reader.node, STRICT)
    [reason] = reader.incompatibilities(writer, CompatibilityPolicy.LENIENT)
    assert reason.kind == "NOT_COMPARED" and "too complex" in reason.message(reader="new", writer="old")


def test_a_property_pattern_that_would_backtrack_is_searched_in_linear_time() -> None:
    rules = {**CLOSED, "patternProperties": {"^(a+)+$": TEXT}}
    name = "a" * 5000 + "b"
    assert found(with_property(rules), with_property(rules, **{name: TEXT})) == [
        f"OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/{name}"
    ]


def test_a_property_pattern_with_look_around_is_an_error_only_if_it_is_needed() -> None:
    rules = {**CLOSED, "patternProperties": {"^(?!x)": TEXT}}
    assert found(rules, rules) == []
    with pytest.raises(FormatError, match="look-around"):
        found(with_property(rules), with_property(rules, a=TEXT))


def test_numbers_with_huge_exponents_are_compared_at_once() -> None:
    huge = parse('{"type":"number","multipleOf":1e900000000}', {}, is_new=False)
    tiny = parse('{"type":"number","multipleOf":1e-900000000}', {}, is_new=False)
    kinds = [difference.kind for difference in differences(huge.node, tiny.node, STRICT)]
    assert kinds == ["MULTIPLE_OF_CHANGED"]


@pytest.mark.parametrize(
    ("fits", "size"),
    [
        ([], 0),
        ([[]], 0),
        ([[0], [0]], 1),
        ([[0, 1], [0]], 2),
        ([[0, 1], [0, 1], [0, 1]], 2),
        ([[0], [0, 1], [1, 2], [2, 3]], 4),
        ([[1, 2], [0], [0, 1], [3], [3]], 4),
    ],
)
def test_a_matching_has_as_many_pairs_as_possible(fits: list[list[int]], size: int) -> None:
    pairs = maximum_matching(fits)
    assert len(pairs) == size == len(set(pairs.values()))
    assert all(right in fits[left] for left, right in pairs.items())
