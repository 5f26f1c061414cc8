"""JSON Schemas as texts: the canonical and the normal form, errors, drafts and references."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.formats.codec import FormatError
from kcli.formats.json_schema import builder
from kcli.formats.json_schema.drafts import Draft, draft_of
from kcli.formats.json_schema.language import JsonSchema, parse
from kcli.formats.schemas import CompatibilityPolicy, SchemaType, language_of

MODERN = "https://json-schema.org/draft/2020-12/schema"


def schema(value: Any, **resolved: Any) -> JsonSchema:
    return parse(json.dumps(value), {name: json.dumps(text) for name, text in resolved.items()}, is_new=False)


def is_compatible(original: JsonSchema, update: JsonSchema) -> bool:
    return not update.incompatibilities(original, CompatibilityPolicy.STRICT)


CANONICAL = [
    ('{ "type" : "string" }', '{"type":"string"}'),
    ('{"b":1,"a":2}', '{"b":1,"a":2}'),
    ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
    ('{"a":1.0}', '{"a":1.0}'),
    ('{"a":1.00}', '{"a":1.00}'),
    ('{"a":1e5}', '{"a":1E+5}'),
    ('{"a":1.5e-10}', '{"a":1.5E-10}'),
    ('{"a":0.000001}', '{"a":0.000001}'),
    ('{"a":0.0000001}', '{"a":1E-7}'),
    ('{"a":-0.0}', '{"a":0.0}'),
    ('{"a":-0}', '{"a":0}'),
    ('{"a":123456789012345678901234567890}', '{"a":123456789012345678901234567890}'),
    ('{"a":0.1234567890123456789012345}', '{"a":0.1234567890123456789012345}'),
    ('{"a":"\\u00e9\\/\\u001f\\n\\u007f"}', '{"a":"é/\\u001F\\n\x7f"}'),
    ('{"a":"\\\\u001f"}', '{"a":"\\\\u001f"}'),
    ('{"a":"\\ud83d\\ude00"}', '{"a":"😀"}'),
    ("true", "true"),
    ("false", "false"),
    ("{} trailing", "{}"),
    ('{"a":[null,true,[],{}]}', '{"a":[null,true,[],{}]}'),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_the_canonical_text_is_compact_and_keeps_the_order_of_members(text: str, canonical: str) -> None:
    assert parse(text, {}, is_new=True).canonical == canonical
    assert parse(canonical, {}, is_new=True).canonical == canonical


def test_the_normal_form_sorts_members_as_java_does() -> None:
    text = '{"\\ud83d\\ude00":1,"\\ufb00":[{"z":1.0,"B":2}],"a":"x"}'
    normal = parse(text, {}, is_new=True).normalized()
    # A character over U+FFFF begins with a surrogate, which is before U+FB00 in UTF-16.
    assert normal.canonical == '{"a":"x","😀":1,"ﬀ":[{"B":2,"z":1.0}]}'
    assert normal.normalized().canonical == normal.canonical
    assert normal.is_equal(parse(normal.canonical, {}, is_new=True))
    assert not normal.is_equal(parse(text, {}, is_new=True))
    assert normal.in_format("resolved") == normal.canonical


def test_the_normal_form_keeps_the_references() -> None:
    normal = schema({"$ref": "a.json", "x": 1}, **{"a.json": {"type": "string"}}).normalized()
    assert is_compatible(normal, schema({"type": "string"}))


def test_the_language_has_a_type_and_is_found_by_it() -> None:
    parsed = language_of(SchemaType.JSON).parse('{"type":"string"}', {}, is_new=True)
    assert parsed.type is SchemaType.JSON


BROKEN = [
    ("", "expected an object or boolean at the root, found MISSING"),
    ("null", "found NULL"),
    ("1", "found NUMBER"),
    ('"a"', "found STRING"),
    ("[]", "found ARRAY"),
    ("{", "Invalid JSON schema"),
    ('{"a":NaN}', "Invalid JSON schema"),
    ('{"a":"\\ud800"}', "half of a surrogate pair"),
    ("[" * 2000, "Invalid JSON schema"),
    ('{"not":' * 101 + "{}" + "}" * 101, "more than 100 brackets"),
    ('{"a":' + "9" * 1001 + "}", "Invalid JSON schema"),
    (f'{{"a":"{"x" * 4_200_000}"}}', "expected at most 4194304"),
    ('{"minLength":"1"}', "#/minLength: expected a number, found a text"),
    ('{"minLength":1.5}', "#/minLength: expected an int, found 1.5"),
    ('{"minLength":99999999999}', "#/minLength: expected an int"),
    ('{"maximum":true}', "#/maximum: expected a number, found a boolean"),
    ('{"exclusiveMinimum":true}', "#/exclusiveMinimum: expected a number"),
    ('{"multipleOf":0}', "multipleOf should not be 0"),
    ('{"type":"text"}', "#: unknown type: \\[text\\]"),
    ('{"type":["string","text"]}', "unknown type"),
    ('{"type":1}', "#/type: expected an array, found a number"),
    ('{"type":[1]}', "expected a text, found a number"),
    ('{"properties":[]}', "#/properties: expected an object, found an array"),
    ('{"properties":{"a":1}}', "#/properties/a: expected a boolean or an object, found a number"),
    ('{"properties":{"a":{"items":"x"}}}', "#/properties/a/items: expected a boolean or an object"),
    ('{"required":"a"}', "#/required: expected an array"),
    ('{"required":[1]}', "#/required: expected a text"),
    ('{"required":null}', "#/required: expected an array, found null"),
    ('{"anyOf":{}}', "#/anyOf: expected an array"),
    ('{"enum":1}', "#/enum: expected an array"),
    ('{"uniqueItems":1}', "#/uniqueItems: expected a boolean"),
    ('{"title":1}', "#/title: expected a text"),
    ('{"additionalProperties":1}', "#/additionalProperties: expected a boolean or an object"),
    ('{"dependencies":{"a":1}}', "#/dependencies/a: expected a boolean or an object"),
    ('{"pattern":"("}', "#/pattern: "),
    ('{"patternProperties":{"[":true}}', "#/patternProperties: "),
    ('{"$ref":1}', "#/\\$ref: expected a text"),
    ('{"$ref":"#/definitions/a"}', "could not resolve \\$ref '#/definitions/a'"),
    ('{"$id":"urn:a","$ref":"//["}', "could not resolve"),
    ('{"$id":"//[","$ref":"a"}', "could not resolve"),
    ('{"$ref":"other.json"}', "could not resolve \\$ref 'other.json'"),
    ('{"$ref":"#/title","title":"x"}', "expected a boolean or an object, found a text"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN, ids=[str(at) for at in range(len(BROKEN))])
def test_an_invalid_schema_is_refused_with_the_place_of_the_error(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as raised:
        parse(text, {}, is_new=False)
    assert "\n" not in str(raised.value)


ACCEPTED: list[Any] = [
    {"examples": "no array", "$comment": 1, "format": "unknown"},
    {"minLength": -1, "enum": []},
    {"required": []},
    {"definitions": {"never used": 1}},
    {"pattern": "^(?!x)(?<=a)"},
    {"unknownKeyword": {"$ref": "#/nowhere"}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True, "minimum": 1},
    {"$schema": "http://json-schema.org/draft-03/schema#", "type": "string"},
]


def test_a_reference_to_the_network_is_refused_in_a_new_schema_and_kept_in_a_stored_one() -> None:
    text = '{"properties":{"a":{"$ref":"http://example.com/a.json#/b"}}}'
    reason = r"^Remote schema reference fetching over HTTP\(S\) is disabled: http://example.com/a.json$"
    with pytest.raises(FormatError, match=reason):
        parse(text, {}, is_new=True)
    stored = parse(text, {}, is_new=False)
    assert stored.normalized().canonical == text
    for reader, writer in ((stored, schema(TEXT)), (schema(TEXT), stored)):
        [incompatibility] = reader.incompatibilities(writer, CompatibilityPolicy.STRICT)
        assert incompatibility.message(reader="new", writer="old") == (
            "A previous schema version contains an unsupported external reference"
        )


@pytest.mark.parametrize("value", ACCEPTED)
def test_keywords_that_confluents_registry_does_not_read_are_not_checked(value: Any) -> None:
    schema(value)


def test_a_new_schema_must_not_have_reserved_names() -> None:
    text = '{"type":"object","properties":{"$$a":true}}'
    with pytest.raises(FormatError, match=r"^#: Field names cannot start with \$\$ prefix$"):
        parse(text, {}, is_new=True)
    parse(text, {}, is_new=False)


@pytest.mark.parametrize(
    ("name", "draft"),
    [
        ("http://json-schema.org/draft-04/schema#", Draft.DRAFT_4),
        ("http://json-schema.org/schema", Draft.DRAFT_4),
        ("https://json-schema.org/draft-06/schema", Draft.DRAFT_6),
        ("http://json-schema.org/draft-07/schema#", Draft.DRAFT_7),
        ("https://json-schema.org/draft/2019-09/schema", Draft.DRAFT_2019_09),
        (MODERN, Draft.DRAFT_2020_12),
        ("http://example.com/own", Draft.DRAFT_7),
        (1, Draft.DRAFT_7),
    ],
)
def test_the_draft_is_that_of_the_schema_keyword(name: Any, draft: Draft) -> None:
    assert draft_of({"$schema": name}) is draft


def test_draft_7_is_the_default() -> None:
    assert draft_of({}) is draft_of(True) is Draft.DRAFT_7


def test_draft_4_has_no_keywords_of_later_drafts() -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    assert is_compatible(schema({"$schema": draft, "const": 1}), schema({"$schema": draft, "const": 2}))
    assert not is_compatible(schema({"const": 1}), schema({"const": 2}))


TEXT = {"type": "string"}
REFERENCES = [
    ({"$ref": "#/definitions/a", "definitions": {"a": TEXT}}, {}),
    ({"$ref": "#/$defs/a", "definitions": {"a": TEXT}}, {}),
    ({"$ref": "#/$defs/a", "definitions": {"a": TEXT}, "$defs": {"b": {}}}, {}),
    ({"$ref": "#/definitions/a~1b%25~0", "definitions": {"a/b%~": TEXT}}, {}),
    ({"$ref": "#/anyOf/0", "anyOf": [TEXT]}, {}),
    ({"$ref": "#name", "definitions": {"a": {"$id": "#name", **TEXT}}}, {}),
    ({"$id": "http://x/y.json", "$ref": "z.json", "definitions": {"a": {"$id": "z.json", **TEXT}}}, {}),
    ({"$ref": "other.json"}, {"other.json": TEXT}),
    ({"$ref": "other.json#"}, {"other.json": TEXT}),
    ({"$ref": "./other.json"}, {"other.json": TEXT}),
    ({"$ref": "other.json#/definitions/a"}, {"other.json": {"definitions": {"a": TEXT}}}),
    ({"$ref": "other.json#/$defs/a"}, {"other.json": {"definitions": {"a": TEXT}}}),
    ({"$ref": "http://x/a.json"}, {"http://x/a.json": TEXT}),
    ({"$ref": "http://x/a.json"}, {"name": {"$id": "http://x/a.json", **TEXT}}),
    ({"$id": "http://x/y/z.json", "$ref": "a.json"}, {"a.json": TEXT}),
    ({"$id": "http://x/y/z.json", "$ref": "../a.json"}, {"http://x/a.json": TEXT}),
    ({"$id": "urn:a", "$ref": "#/definitions/b", "definitions": {"b": TEXT}}, {}),
    ({"$ref": "a.json"}, {"b.json": TEXT, "a.json": {"$ref": "b.json"}}),
    ({"$ref": "a.json"}, {"a.json": {"$ref": "#/definitions/b", "definitions": {"b": TEXT}}}),
    ({"$ref": "com.example.A"}, {"com.example.A": TEXT}),
]
MODERN_REFERENCES = [
    ({"$schema": MODERN, "$ref": "#a", "$defs": {"x": {"$anchor": "a", **TEXT}}}, {}),
    ({"$schema": MODERN, "$dynamicRef": "#a", "$defs": {"x": {"$dynamicAnchor": "a", **TEXT}}}, {}),
    (
        {
            "$schema": MODERN,
            "$ref": "x.json",
            "$defs": {"x": {"$id": "x.json", "$ref": "#/$defs/a", "$defs": {"a": TEXT}}},
        },
        {},
    ),
]


@pytest.mark.parametrize(("value", "resolved"), [*REFERENCES, *MODERN_REFERENCES])
def test_references_are_followed(value: Any, resolved: dict[str, Any]) -> None:
    parsed = schema(value, **resolved)
    assert is_compatible(parsed, schema(TEXT)) and is_compatible(schema(TEXT), parsed)
    assert not is_compatible(parsed, schema({"type": "number"}))


def test_the_schema_of_a_draft_is_known_without_the_network() -> None:
    for draft in (
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-04/schema",
        MODERN,
    ):
        assert is_compatible(schema({"$ref": draft}), schema({"$ref": draft}))


def test_siblings_of_a_reference_count_only_in_modern_drafts() -> None:
    old = {"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": TEXT}}
    assert is_compatible(schema({"$ref": "#/definitions/a", "definitions": {"a": TEXT}}), schema(old))
    modern = {"$schema": MODERN, **old}
    assert not is_compatible(schema({"$schema": MODERN, **TEXT}), schema(modern))


LONG = "x" * 1_000_000
HOSTILE: list[tuple[Any, str]] = [
    ({"$id": "x" * 5000}, "a URI has more than 4096 characters"),
    (
        {"$id": f"http://x/{LONG[:3000]}", "a": [{"$id": str(at)} for at in range(20_000)]},
        "more than 10000 names",
    ),
    ({"$ref": f"#/{'a/' * 1500}"}, "could not resolve"),
    ({"type": LONG}, "unknown type"),
    ({"pattern": "(a|b)*" * 2000}, "an expression has more than 10000 characters"),
    ({"properties": {LONG: {"anyOf": [{}] * 20_000 + [1]}}}, "found a number"),
]


@pytest.mark.parametrize(("value", "reason"), HOSTILE, ids=[reason for _, reason in HOSTILE])
def test_a_hostile_schema_has_a_short_error(value: Any, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as raised:
        schema(value)
    assert len(str(raised.value)) <= 1000


def test_the_number_of_schemas_and_the_size_of_references_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builder, "SUBSCHEMAS_MAX", 100)
    with pytest.raises(FormatError, match="more than 100 schemas"):
        schema({"anyOf": [{}] * 100})
    with pytest.raises(FormatError, match="references have"):
        parse("{}", {str(at): f'"{"x" * 1_000_000}"' for at in range(5)}, is_new=False)
