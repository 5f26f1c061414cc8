"""Values of JSON Schemas: the codec, the validation, and the decoding of many values to columns."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from kcli.formats.codec import FormatError
from kcli.formats.json_schema import columns, validation
from kcli.formats.json_schema.codec import json_codec
from kcli.formats.json_schema.columns import ColumnDecoder, RowError, column_decoder
from kcli.formats.json_schema.language import JsonSchema, parse
from kcli.formats.json_schema.validation import InvalidValueError

MODERN = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def schema(value: Any, **resolved: Any) -> JsonSchema:
    return parse(json.dumps(value), {name: json.dumps(text) for name, text in resolved.items()}, is_new=False)


def check(value: Any, text: str, **resolved: Any) -> None:
    json_codec(schema(value, **resolved), validates=True).decode(text.encode())


def test_numbers_keep_their_digits() -> None:
    codec = json_codec(schema(True))
    text = b'{"a":12345678901234567890,"b":1.10,"c":[null,true,"\xc3\xa9"]}'
    value = codec.decode(text)
    assert value == {"a": 12345678901234567890, "b": Decimal("1.10"), "c": [None, True, "é"]}
    assert codec.encode(value) == text


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":NaN}', b"[" * 1001, b'"\xff"', b"1" * 1001])
def test_a_text_that_is_no_json_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="no valid JSON"):
        json_codec(schema(True)).decode(data)


@pytest.mark.parametrize(
    "value", [b"x", float("nan"), Decimal("Infinity"), datetime.date(2024, 1, 1), ("a", 1)]
)
def test_a_value_that_json_does_not_have_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON has no value such as"):
        json_codec(schema(True)).encode(value)


def test_a_value_that_is_nested_too_deeply_is_an_error() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        json_codec(schema(True)).encode(value)


def test_values_are_validated_only_on_request() -> None:
    text = schema({"type": "string"})
    assert json_codec(text).decode(b"1") == 1
    for run in (json_codec(text, validates=True).decode, json_codec(text, validates=True).encode):
        with pytest.raises(InvalidValueError, match=r"^#: 1 is not of type 'string'$"):
            run(b"1" if run.__name__ == "decode" else 1)


TREE = {"properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}}}
VALID: list[tuple[Any, str]] = [
    ({"type": "integer"}, "1.0"),
    ({"type": "number", "multipleOf": 0.1}, "1.1"),
    ({"type": "number", "multipleOf": 1e-300}, "1e300"),
    ({"const": 1}, "1.0"),
    ({"enum": [{"a": [1]}]}, '{"a":[1.0]}'),
    ({"pattern": "b"}, '"abc"'),
    ({"pattern": "b"}, "1"),
    ({"uniqueItems": True}, "[1,true,0,false]"),
    ({"uniqueItems": False}, "[1,1]"),
    ({"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False}, '{"ab":"x"}'),
    ({"properties": {"a": True}, "additionalProperties": {"type": "null"}}, '{"a":1,"b":null}'),
    (TREE, '{"next":{"next":{"value":1}}}'),
    ({"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {"type": "string"}}}, '"long"'),
    ({"$schema": MODERN, "properties": {"a": True}, "unevaluatedProperties": False}, '{"a":1}'),
    (
        {"$schema": MODERN, "$ref": "#/$defs/a", "unevaluatedProperties": False, "$defs": {"a": TREE}},
        '{"value":1}',
    ),
    ({"$schema": MODERN, "prefixItems": [{"type": "string"}], "items": False}, '["a"]'),
    ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, "1.5"),
    ({"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"minimum": 1}}, "1"),
]
INVALID: list[tuple[Any, str, str]] = [
    (False, "1", "#: False schema does not allow 1"),
    ({"type": "integer"}, "1.5", "#: Decimal"),
    ({"$schema": DRAFT_4, "type": "integer"}, "1.0", "is not of type"),
    ({"type": "integer"}, "true", "is not of type"),
    ({"type": "number", "multipleOf": 0.1}, "1.15", "#: 1.15 is not a multiple of 0.1"),
    ({"pattern": "^b"}, '"abc"', "does not match"),
    ({"uniqueItems": True}, '[{"a":1,"b":2},{"b":2.0,"a":1}]', "the array has an item twice"),
    ({"properties": {"a": {"items": {"type": "null"}}}}, '{"a":[null,1]}', "^#/a/1: 1 is not of type 'null'"),
    ({"patternProperties": {"^a": {"type": "string"}}}, '{"ab":1}', "^#/ab: 1 is not of type"),
    (
        {"properties": {"a": True}, "additionalProperties": False},
        '{"b":1}',
        "the property 'b' is not permitted",
    ),
    ({"additionalProperties": {"type": "null"}}, '{"b":1}', "^#/b: "),
    (TREE, '{"next":{"next":{"value":"x"}}}', "^#/next/next/value: "),
    ({"required": ["a"]}, "{}", "'a' is a required property"),
    (
        {"$schema": MODERN, "properties": {"a": True}, "unevaluatedProperties": False},
        '{"b":1}',
        "Unevaluated",
    ),
    ({"$schema": MODERN, "$ref": "#/$defs/a", "$defs": {"a": False}}, "1", "False schema"),
    ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, "1", "less than or equal"),
    ({"dependencies": {"a": ["b"]}}, '{"a":1}', "'b' is a dependency of 'a'"),
    ({"type": "string", "maxLength": 5}, f'"{"x" * 5000}"', "^.{,310}$"),
]


@pytest.mark.parametrize(("value", "text"), VALID)
def test_a_valid_value_is_accepted(value: Any, text: str) -> None:
    check(value, text)


@pytest.mark.parametrize(("value", "text", "reason"), INVALID)
def test_an_invalid_value_is_refused_with_its_place(value: Any, text: str, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        check(value, text)


def test_values_are_validated_with_referenced_schemas() -> None:
    address = {"properties": {"zip": {"$ref": "zip.json"}}}
    resolved = {"zip.json": {"type": "string"}, "address.json": address}
    person = {"$id": "http://example.com/person.json", "properties": {"home": {"$ref": "address.json"}}}
    check(person, '{"home":{"zip":"1"}}', **resolved)
    with pytest.raises(InvalidValueError, match=r"^#/home/zip: "):
        check(person, '{"home":{"zip":1}}', **resolved)


def test_an_expression_that_would_backtrack_takes_linear_time() -> None:
    with pytest.raises(InvalidValueError, match="does not match"):
        check({"pattern": "^(a+)+$"}, f'"{"a" * 5000}b"')


def test_a_schema_whose_values_cannot_be_validated_is_an_error() -> None:
    both = {"$schema": MODERN, "patternProperties": {"a": True}, "unevaluatedProperties": False}
    with pytest.raises(FormatError, match="are not validated"):
        check(both, "{}")
    for expression in ({"pattern": "(?=a)"}, {"patternProperties": {"(?=a)": True}}):
        with pytest.raises(FormatError, match="look-around"):
            json_codec(schema({"items": expression}), validates=True)


ENDLESS: list[Any] = [
    {"anyOf": [{"$ref": "#"}]},
    {"$schema": MODERN, "$ref": "#", "unevaluatedProperties": False},
    {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"allOf": [{"$ref": "#/definitions/b"}]}, "b": {"$ref": "#"}},
    },
]


@pytest.mark.parametrize("value", ENDLESS)
def test_a_schema_that_applies_itself_without_end_has_no_validation(value: Any) -> None:
    parsed = parse(json.dumps(value).replace('{"$ref": "#"}', '{"not":{"$ref": "#"}}'), {}, is_new=True)
    with pytest.raises(FormatError, match="applies itself to the same value"):
        json_codec(parsed, validates=True)


def test_a_chain_of_schemas_for_one_value_has_a_limit() -> None:
    links = {str(at): {"allOf": [{"$ref": f"#/definitions/{at + 1}"}]} for at in range(60)}
    with pytest.raises(FormatError, match="more than 50 schemas apply within each other"):
        check({"$ref": "#/definitions/0", "definitions": {**links, "60": True}}, "1")


STRANGE: list[tuple[Any, str]] = [
    ({"$schema": DRAFT_4, "items": True}, "[1]"),
    ({"$schema": MODERN, "contains": True, "minContains": "x"}, "[1]"),
    (
        {
            "$schema": MODERN,
            "$ref": "#/$defs/a",
            "$dynamicRef": "#/$defs/a",
            "$defs": {"a": {"type": "null"}},
        },
        "1",
    ),
]


@pytest.mark.parametrize(("value", "text"), STRANGE)
def test_a_schema_that_the_library_does_not_expect_is_an_error_of_the_value(value: Any, text: str) -> None:
    with pytest.raises(InvalidValueError):
        check(value, text)


def test_a_validation_that_repeats_its_work_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "STEPS_AT_LEAST", 1000)
    links = {str(at): {"allOf": [{"$ref": f"#/definitions/{at + 1}"}] * 2} for at in range(15)}
    with pytest.raises(InvalidValueError, match="too many steps"):
        check({"$ref": "#/definitions/0", "definitions": {**links, "15": True}}, "1")
    nested: Any = {}
    for _ in range(40):
        nested = {"anyOf": [nested], "unevaluatedProperties": {"type": "string"}}
    with pytest.raises(InvalidValueError, match="too many steps"):
        check({"$schema": MODERN, **nested}, '{"a":"x"}')


def test_a_value_that_is_deeper_than_the_stack_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="nested too deeply"):
        check({"items": {"$ref": "#"}}, "[" * 900 + "]" * 900)


PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "amount": {"anyOf": [{"type": "null"}, {"type": "number"}]},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "is_new": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/definitions/address"},
    },
    "definitions": {"address": {"type": "object", "properties": {"zip": {"type": "integer"}}}},
}


def decoder(value: Any) -> ColumnDecoder:
    found = column_decoder(schema(value))
    assert found is not None
    return found


def test_an_object_of_simple_types_has_columns() -> None:
    pytest.importorskip("pyarrow")
    assert str(decoder(PERSON).type) == (
        "struct<id: int64, name: string, amount: double, kind: string, is_new: bool, tags: list<item: string>, "
        "home: struct<zip: int64>>"
    )


@pytest.mark.parametrize(
    "value",
    [
        True,
        {"type": "string"},
        {"type": "object"},
        {"properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"enum": ["a"]}}},
        {"type": "object", "properties": {"a": {"minLength": 1}}},
    ],
)
def test_other_schemas_have_no_columns(value: Any) -> None:
    pytest.importorskip("pyarrow")
    assert column_decoder(schema(value)) is None


GOOD = b'{"id":1,"name":"x","other":[{}],"home":{"zip":2,"street":"y"}}'
ROW = {
    "id": 1,
    "name": "x",
    "amount": None,
    "kind": None,
    "is_new": None,
    "tags": None,
    "home": {"zip": 2},
}
SINGLE: list[tuple[bytes | None, dict[str, Any] | None, str | None]] = [
    (GOOD, {}, None),
    (None, None, None),
    (b"null", None, None),
    (b"{}", {"id": None, "name": None, "home": None}, None),
    (b'{"id":2.0,"name":"x","home":{"zip":2}}', {"id": 2}, None),
    (b'{"id":2,"id":3,"name":"x","home":{"zip":2}}', {"id": 3}, None),
    (b'{\n"id":2,\r\n"name":"x","home":{"zip":2}}', {"id": 2}, None),
    (b' {"id":2,"name":"x","home":{"zip":2}}', {"id": 2}, None),
    (b'{"id":1,"name":"x","home":{"zip":2}} trailing', {}, None),
    (b'{"id":1,"name":"x","home":{"zip":2}}{"id":7}', {}, None),
    (
        b'{"id":1,"name":"x","home":{"zip":2},"amount":12345678901234567890}',
        {"amount": 1.2345678901234567e19},
        None,
    ),
    (b'{"id":1', None, "no valid JSON"),
    (b',"id":1}', None, "no valid JSON"),
    (b"", None, "no valid JSON"),
    (b'{"id":"1"}', None, "#/id: expected int64, found 1"),
    (b'{"id":1.5}', None, "#/id: expected int64, found 1.5"),
    (b'{"id":1e900000000}', None, "#/id: expected int64"),
    (b'{"id":9223372036854775808}', None, "#/id: expected int64"),
    (b'{"id":true}', None, "#/id: expected int64, found True"),
    (b'{"amount":NaN}', None, "no valid JSON"),
    (b'{"other":NaN}', None, "no valid JSON"),
    (b'{"other":{"more":[ -Infinity ]}}', None, "no valid JSON"),
    (b'{"id":1,"name":"x","home":{"zip":2},"other":"[NaN]"}', {}, None),
    (b'{"amount":1e400}', None, "#/amount: expected double"),
    (b'{"tags":["a",1]}', None, "#/tags/1: expected string, found 1"),
    (b'{"tags":{}}', None, "#/tags: expected list<item: string>, found an object"),
    (b'{"home":[]}', None, "#/home: expected struct<zip: int64>, found an array"),
    (b'{"name":"\xff"}', None, "no valid JSON"),
    (b"[1]", None, "#: expected struct"),
    (b'{"name":"\\ud800"}', None, "'utf-8' codec can't encode"),
]


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(("data", "changed", "reason"), SINGLE)
def test_each_value_has_its_row_or_its_error(
    data: bytes | None, changed: dict[str, Any] | None, reason: str | None, count: int
) -> None:
    pytest.importorskip("pyarrow")
    values = [GOOD] * (count - 1)
    values.insert(count // 2, data)
    rows = decoder(PERSON).decode(values)
    expected: list[Any] = [ROW] * (count - 1)
    expected.insert(count // 2, None if changed is None else {**ROW, **changed})
    assert rows.array.to_pylist() == expected
    if reason is None:
        assert rows.errors == ()
    else:
        [error] = rows.errors
        assert error.row == count // 2 and error.reason.startswith(reason)


def test_broken_values_do_not_take_parts_of_their_neighbours() -> None:
    pytest.importorskip("pyarrow")
    values = [b'{"id":1}{"id":2}', b'{"id":3', b',"name":"x"}', GOOD]
    rows = decoder(PERSON).decode(values)
    assert [row and row["id"] for row in rows.array.to_pylist()] == [1, None, None, 1]
    assert [error.row for error in rows.errors] == [1, 2]


def test_values_are_decoded_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(columns, "BLOCK_VALUES", 10)
    values = [b'{"id":%d}' % at for at in range(35)]
    values[17] = b"x"
    rows = decoder(PERSON).decode(values)
    assert [row and row["id"] for row in rows.array.to_pylist()] == [*range(17), None, *range(18, 35)]
    [error] = rows.errors
    assert isinstance(error, RowError) and error.row == 17
    assert len(decoder(PERSON).decode([]).array) == 0


def test_rows_are_validated_on_request() -> None:
    pytest.importorskip("pyarrow")
    values: list[bytes | None] = [GOOD, b'{"id":null}', None, b'{"kind":"c"}', b'{"home":{"zip":null}}', GOOD]
    strict = column_decoder(schema(PERSON), validates=True)
    assert strict is not None
    rows = strict.decode(values)
    assert [row and row["id"] for row in rows.array.to_pylist()] == [1, None, None, None, None, 1]
    assert [(error.row, error.reason) for error in rows.errors] == [
        (1, "#/id: None is not of type 'integer'"),
        (3, "#/kind: 'c' is not one of ['a', 'b']"),
        (4, "#/home/zip: None is not of type 'integer'"),
    ]


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}},
    "required": ["a"],
    "additionalProperties": False,
}
CLOSED_ROWS = [
    (b'{"a":1,"b":"x"}', None),
    (b'{"a":1,"b":null}', None),
    (b'{"a":1}', None),
    (b'{"b":"x"}', "#: 'a' is a required property"),
    (b'{"a":1,"b":"x","c":1}', "#: the property 'c' is not permitted"),
    (b'{"a":null,"b":"x"}', "#/a: None is not of type 'integer'"),
    (b'{"a":1.5,"b":"x"}', "#/a: Decimal('1.5') is not of type 'integer'"),
]


@pytest.mark.parametrize(("data", "reason"), CLOSED_ROWS)
@pytest.mark.parametrize("keywords", [{}, {"maxProperties": 3}])
def test_rows_that_the_parser_reads_are_as_valid_as_single_values(
    data: bytes, reason: str | None, keywords: dict[str, Any]
) -> None:
    pytest.importorskip("pyarrow")
    strict = column_decoder(schema({**CLOSED, **keywords}), validates=True)
    assert strict is not None
    rows = strict.decode([b'{"a":1,"b":"x"}'] * 20 + [data])
    assert [(error.row, error.reason) for error in rows.errors] == ([] if reason is None else [(20, reason)])


def test_a_type_with_an_impossible_combination_permits_no_row() -> None:
    pytest.importorskip("pyarrow")
    strict = column_decoder(
        schema({**CLOSED, "anyOf": [{"type": "string"}, {"type": "null"}]}), validates=True
    )
    assert strict is not None
    assert len(strict.decode([b'{"a":1,"b":"x"}'] * 3).errors) == 3
