"""The mapping between Connect's data model and JSON Schema, as Confluent's JsonSchemaConverter makes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.json_typed.converter import JsonSchemaConverter
from kcli.formats.connect.json_typed.settings import ENUM, ID, ONE_OF
from kcli.formats.connect.recursive import RecursiveSchema
from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant, Int8
from rigs.schema_registry import MemoryRegistry, memory_registry

DATA = "org.apache.kafka.connect.data."


@pytest.fixture(scope="module")
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as memory:
        yield memory


def converter(registry: MemoryRegistry, **config: str) -> JsonSchemaConverter:
    made = JsonSchemaConverter()
    keys = {name.replace("_", "."): text for name, text in config.items()}
    made.configure({"schema.registry.url": registry.url, **keys}, is_key=False)
    return made


def written(registry: MemoryRegistry, schema: Schema, value: object, **config: str) -> tuple[str, str]:
    """Returns the text of the schema and the text of the value."""
    made = converter(registry, **config)
    data = made.from_connect("t", schema, value)
    assert data is not None and data[0] == 0
    return made.definition(schema).text, data[5:].decode()


def read(
    registry: MemoryRegistry, text: str, payload: str = "null", topic: str = "r", **config: str
) -> tuple[Schema, object]:
    number = registry.put(f"{topic}-value", text, "JSON")
    schema, value = converter(registry, **config).to_connect(
        topic, b"\0" + number.to_bytes(4, "big") + payload.encode()
    )
    assert schema is not None
    return replace(schema, version=None) if not isinstance(schema, RecursiveSchema) else schema, value


def logical(name: str, kind: str, json_type: str = "integer") -> str:
    return f'{{"type":"{json_type}","title":"{DATA}{name}","connect.version":1,"connect.type":"{kind}"}}'


PLAIN = [
    (INT8_SCHEMA, Int8(-3), '{"type":"integer","connect.type":"int8"}', "-3"),
    (INT16_SCHEMA, 3, '{"type":"integer","connect.type":"int16"}', "3"),
    (INT32_SCHEMA, 3, '{"type":"integer","connect.type":"int32"}', "3"),
    (INT64_SCHEMA, 1 << 40, '{"type":"integer","connect.type":"int64"}', "1099511627776"),
    (FLOAT32_SCHEMA, Float32(1.5), '{"type":"number","connect.type":"float32"}', "1.5"),
    (FLOAT64_SCHEMA, 1e10, '{"type":"number","connect.type":"float64"}', "1.0E10"),
    (BOOLEAN_SCHEMA, True, '{"type":"boolean"}', "true"),
    (STRING_SCHEMA, 'é"', '{"type":"string"}', '"é\\""'),
    (BYTES_SCHEMA, b"\0\1", '{"type":"string","connect.type":"bytes"}', '"AAE="'),
    (
        OPTIONAL_INT64_SCHEMA, None,
        '{"oneOf":[{"type":"null"},{"type":"integer","connect.type":"int64"}]}', "null",
    ),
    (
        Schema(SchemaType.STRING, name="n", version=2, doc="d", parameters={"a": "1"}, default="x"), "y",
        ('{"type":"string","title":"n","description":"d","default":"x","connect.version":2,'
        '"connect.parameters":{"a":"1"}}'), '"y"',
    ),
    (DATE_SCHEMA, Instant(86_400_000), logical("Date", "int32"), "1"),
    (TIME_SCHEMA, Instant(5), logical("Time", "int32"), "5"),
    (TIMESTAMP_SCHEMA, Instant(-5), logical("Timestamp", "int64"), "-5"),
    (array_schema(STRING_SCHEMA), ["a"], '{"type":"array","items":{"type":"string"}}', '["a"]'),
    (
        map_schema(STRING_SCHEMA, BOOLEAN_SCHEMA), {"a": True},
        '{"type":"object","connect.type":"map","additionalProperties":{"type":"boolean"}}', '{"a":true}',
    ),
    (
        map_schema(INT32_SCHEMA, STRING_SCHEMA), {1: "a"},
        ('{"type":"array","connect.type":"map","items":{"type":"object","properties":'
        '{"value":{"type":"string","connect.index":1},'
        '"key":{"type":"integer","connect.type":"int32","connect.index":0}}}}'), '[{"key":1,"value":"a"}]',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "text", "payload"), PLAIN)
def test_a_schema_and_a_value_are_mapped_in_both_directions(
    registry: MemoryRegistry, schema: Schema, value: object, text: str, payload: str
) -> None:
    shown, shown_payload = written(registry, schema, value)
    assert (json.loads(shown), shown_payload) == (json.loads(text), payload)
    assert shown.startswith(text[:15])
    read_schema, read_value = read(registry, text, payload)
    assert read_value == value
    assert read_schema == replace(schema, version=None) or schema.version is not None


INNER = struct_schema({"n": INT64_SCHEMA}, name="s.Inner")
OUTER = struct_schema({
    "b": OPTIONAL_STRING_SCHEMA,
    "a": Schema(SchemaType.INT32, default=3),
    "s": struct_schema({"n": INT64_SCHEMA}, name="s.Inner", optional=True),
    "c": INNER,
}, name="s.Outer")  # fmt: skip


def test_a_struct_keeps_the_order_of_its_fields(registry: MemoryRegistry) -> None:
    value = Struct(OUTER, {"c": Struct(INNER, {"n": 2})})
    text, payload = written(registry, OUTER, value)
    tree = json.loads(text)
    assert (tree["type"], tree["title"], [*tree["properties"]]) == ("object", "s.Outer", ["a", "b", "s", "c"])
    assert tree["properties"]["s"] == {
        "connect.index": 2,
        "oneOf": [{"type": "null"}, {"type": "object", "title": "s.Inner", "properties": {
            "n": {"type": "integer", "connect.index": 0, "connect.type": "int64"}}}],
    }  # fmt: skip
    assert payload == '{"b":null,"a":3,"s":null,"c":{"n":2}}'
    schema, read_value = read(registry, text, payload)
    assert schema == OUTER and isinstance(read_value, Struct)
    assert read_value.values[:3] == [None, 3, None]
    schema, missing = read(registry, text, '{"c":{"n":2},"more":1}')
    assert isinstance(missing, Struct) and missing.values[1] == 3 and schema == OUTER


def test_a_required_field_without_a_value_is_left_out(registry: MemoryRegistry) -> None:
    assert written(registry, INNER, Struct(INNER))[1] == "{}"


def test_settings_change_the_schema_and_the_values(registry: MemoryRegistry) -> None:
    closed = json.loads(
        written(registry, INNER, Struct(INNER, {"n": 1}), object_additional_properties="false")[0]
    )
    assert closed["additionalProperties"] is False
    text, payload = written(registry, decimal_schema(2), Decimal("1.50"), decimal_format="numeric")
    assert (json.loads(text)["type"], payload) == ("number", "1.50")
    assert read(registry, text, "1.50")[1] == Decimal("1.50")
    assert written(registry, decimal_schema(2), Decimal("1.50"))[1] == '"AJY="'
    default = struct_schema({"a": Schema(SchemaType.INT32, True, 3)}, name="D")
    assert written(registry, default, Struct(default), ignore_default_for_nullables="true")[1] == '{"a":null}'
    loose = '{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"integer"}},"required":["y"]}'
    assert [item.schema.optional for item in read(registry, loose, "{}")[0].fields] == [False, False]
    schema, value = read(registry, loose, '{"y":1}', use_optional_for_nonrequired="true")
    assert [(item.name, item.schema.optional) for item in schema.fields] == [("x", True), ("y", False)]
    assert isinstance(value, Struct) and value.values == [None, 1]


def test_an_enum_is_a_text_with_parameters(registry: MemoryRegistry) -> None:
    schema = Schema(SchemaType.STRING, parameters={ENUM: "", f"{ENUM}.A": "A", f"{ENUM}.B": "B"})
    assert written(registry, schema, "A") == ('{"enum":["A","B"]}', '"A"')
    assert read(registry, '{"enum":["A","B"]}', '"B"') == (schema, "B")
    general, _ = read(registry, '{"enum":["A",null]}', '"A"', generalized_sum_type_support="true")
    assert general.parameters == {f"{DATA}Enum": "", f"{DATA}Enum.A": "0", f"{DATA}Enum.<NULL>": "1"}


UNION = (
    '{"oneOf":[{"type":"null"},{"type":"integer"},{"type":"object","properties":{"n":{"type":"integer"}}}]}'
)


def test_a_combination_is_a_struct(registry: MemoryRegistry) -> None:
    schema, value = read(registry, UNION, "7")
    assert (schema.name, schema.optional) == (ONE_OF, True)
    assert [item.name for item in schema.fields] == [f"{ONE_OF}.field.0", f"{ONE_OF}.field.1"]
    assert isinstance(value, Struct) and value.values == [7, None]
    _, inner = read(registry, UNION, '{"n":8}')
    assert isinstance(inner, Struct) and isinstance(inner.values[1], Struct) and inner.values[1].values == [8]
    assert read(registry, UNION, "null")[1] is None
    text, payload = written(registry, value.schema, value)
    assert payload == "7" and [*json.loads(text)] == ["oneOf"] and len(json.loads(text)["oneOf"]) == 3
    general, _ = read(registry, UNION, "7", generalized_sum_type_support="true")
    assert (general.name, general.fields[0].name) == ("connect_union_0", "connect_union_field_0")
    with pytest.raises(DataException, match="Did not find matching oneof field"):
        read(registry, UNION, '"x"')


@pytest.mark.parametrize(
    ("text", "kind", "optional"),
    [
        ('{"oneOf":[{"type":"string"}]}', SchemaType.STRING, False),
        ('{"anyOf":[{"type":"null"},{"type":"number"}]}', SchemaType.FLOAT64, True),
        ('{"type":["null","string"]}', SchemaType.STRING, True),
        ('{"allOf":[{"type":"string"},{"const":"x"}]}', SchemaType.STRING, False),
        ('{"type":"string","enum":["a"]}', SchemaType.STRING, False),
        ('{"type":"integer","enum":[1]}', SchemaType.INT64, False),
        ('{"$ref":"#/definitions/a","definitions":{"a":{"type":"boolean"}}}', SchemaType.BOOLEAN, False),
    ],
)
def test_a_combination_of_one_schema_is_this_schema(
    registry: MemoryRegistry, text: str, kind: SchemaType, optional: bool
) -> None:
    payload = {SchemaType.STRING: '"a"', SchemaType.BOOLEAN: "true"}.get(kind, "1")
    schema, _ = read(registry, text, payload)
    assert (schema.type, schema.optional) == (kind, optional)


def test_the_properties_of_all_parts_are_fields(registry: MemoryRegistry) -> None:
    text = (
        '{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"$ref":"#/definitions/b"}],'
        '"definitions":{"b":{"type":"object","properties":{"b":{"type":"number"}},"required":["b"]}}}'
    )
    schema, value = read(registry, text, '{"a":"x","b":1.5}', use_optional_for_nonrequired="true")
    assert schema == struct_schema({"a": OPTIONAL_STRING_SCHEMA, "b": FLOAT64_SCHEMA})
    assert isinstance(value, Struct) and value.values == ["x", 1.5]


def test_a_schema_may_contain_itself(registry: MemoryRegistry) -> None:
    text = (
        '{"type":"object","title":"Node","properties":{"n":{"type":"integer"},'
        '"next":{"oneOf":[{"type":"null"},{"$ref":"#"}]}}}'
    )
    schema, value = read(registry, text, '{"n":1,"next":{"n":2,"next":null}}')
    after = schema.field("next")
    assert after is not None and isinstance(after.schema, RecursiveSchema) and after.schema.optional
    assert schema.parameters == {ID: "#id1"}
    assert isinstance(value, Struct)
    inner = value.get("next")
    assert isinstance(inner, Struct) and inner.get("n") == 2 and inner.get("next") is None


WRONG = [
    ('{"type":"integer"}', '"x"', "Invalid type for INT64: STRING"),
    ('{"type":"string"}', "1", "Invalid type for STRING: NUMBER"),
    ('{"type":"integer"}', "1e999999999", "Invalid type for INT64: a number of more than 100 digits"),
    ('{"type":"boolean"}', "[]", "Invalid type for BOOLEAN: ARRAY"),
    ('{"type":"integer"}', "null", "Invalid null value for required INT64 field"),
    ('{"type":"object","properties":{"a":{"type":"string"}}}', "[]", "Structs should be encoded as JSON objects"),
    ('{"type":"string","connect.type":"bytes"}', '"?"', "Invalid bytes field"),
    (logical("Date", "int32"), '"x"', "Invalid type for Date"),
    ('{"type":"integer"}', "{", "Converting byte"),
    ('{"type":"integer"}', "NaN", "Converting byte"),
    ('{"type":"array"}', "[]", "Array schema did not specify the items type"),
    ('{"type":"integer","connect.type":"int99"}', "1", "Unsupported type int99"),
    ("{}", "1", "Unsupported schema type"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "payload", "reason"), WRONG)
def test_values_that_do_not_fit_are_refused(
    registry: MemoryRegistry, text: str, payload: str, reason: str
) -> None:
    with pytest.raises(DataException, match=reason):
        read(registry, text, payload, topic=f"wrong{WRONG.index((text, payload, reason))}")


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (INT32_SCHEMA, "x", r"Invalid type for INT32: class java\.lang\.String"),
        (STRING_SCHEMA, 1, r"Invalid type for STRING: class java\.lang\.Long"),
        (decimal_schema(0), 1, "Invalid type for Decimal"),
        (DATE_SCHEMA, 1, "Invalid type for Date"),
        (INNER, Struct(OUTER), "Mismatching schema"),
        (array_schema(INT32_SCHEMA), [None], "Found null value"),
        (None, 1, "values without a schema"),
    ],
)
def test_a_value_that_does_not_fit_is_not_written(
    registry: MemoryRegistry, schema: Schema | None, value: object, reason: str
) -> None:
    with pytest.raises(DataException, match=reason):
        converter(registry).from_connect("t", schema, value)


def test_values_are_validated_on_request(registry: MemoryRegistry) -> None:
    text = '{"type":"object","properties":{"a":{"type":"string","maxLength":1}}}'
    assert isinstance(read(registry, text, '{"a":"xx"}', topic="v")[1], Struct)
    with pytest.raises(DataException, match="Converting byte"):
        read(registry, text, '{"a":"xx"}', topic="v", json_fail_invalid_schema="true")


def test_nulls_are_those_of_java(registry: MemoryRegistry) -> None:
    made = converter(registry)
    assert made.from_connect("t", None, None) is None
    assert made.from_connect("t", STRING_SCHEMA, None) is None
    optional = made.from_connect("t", OPTIONAL_FLOAT64_SCHEMA, None)
    assert optional is not None and optional[5:] == b"null"
