"""Transformations that choose, move, mask and add fields."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kcli.connectors.records import SourceRecord
from kcli.formats.connect.schema import (
    FLOAT32_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP,
    Schema,
    SchemaType,
    array_schema,
    map_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import BigInteger, Float32, Instant, Int8, Int32
from rigs.transforms import config_refusal, refusal, sink, transformation

INNER = struct_schema({"x": INT32_SCHEMA, "a.b": STRING_SCHEMA})
OUTER = struct_schema(
    {"in": INNER, "n": Schema(SchemaType.INT32, optional=True, default=7)}, name="O", version=2
)
VALUE = Struct(OUTER, {"in": Struct(INNER, {"x": 1, "a.b": "y"})})
MAP = {"in": {"x": 1, "a.b": "y"}, "n": None}


# ExtractField and HoistField.


@pytest.mark.parametrize(
    ("path", "version", "expected"),
    [
        ("in", "V1", MAP["in"]),
        ("in.x", "v2", 1),
        ("in.`a.b`", "V2", "y"),
        ("in.no", "V2", None),
        ("no.x", "V2", None),
        ("in.x", "V1", None),
        ("n.x", "V2", None),
    ],
)
def test_a_path_leads_to_a_value_in_a_map(path: str, version: str, expected: object) -> None:
    extract = transformation("ExtractField$Value", field=path, field_syntax_version=version)
    assert extract.apply(sink(MAP)) == sink(expected)


@pytest.mark.parametrize(
    ("path", "schema", "expected"),
    [("in.`a.b`", STRING_SCHEMA, "y"), ("n", OUTER.fields[1].schema, 7), ("in", INNER, VALUE.get("in"))],
)
def test_a_path_leads_to_a_field_of_a_struct(path: str, schema: Schema, expected: object) -> None:
    extract = transformation("ExtractField$Key", field=path, field_syntax_version="V2")
    assert extract.apply(sink(key=VALUE, key_schema=OUTER)) == sink(key=expected, key_schema=schema)
    assert extract.apply(sink(key_schema=OUTER)) == sink(key_schema=schema)


def test_a_null_field_stays_null_if_defaults_are_not_wanted() -> None:
    extract = transformation("ExtractField$Value", field="n", replace_null_with_default="false")
    assert extract.apply(sink(VALUE, OUTER)) == sink(None, OUTER.fields[1].schema)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a.b", ("a", "b")),
        ("a.", ("a", "")),
        (".a", ("", "a")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a`b`.c", ("a`b", "c")),
        ("`a\\`.b`.c", ("a`.b", "c")),
        ("a`b", ("a`b",)),
    ],
)
def test_backticks_quote_a_step_of_a_path(path: str, steps: tuple[str, ...]) -> None:
    value: object = "found"
    for step in reversed(steps):
        value = {step: value}
    extract = transformation("ExtractField$Value", field=path, field_syntax_version="V2")
    assert extract.apply(sink(value)) == sink("found")


@pytest.mark.parametrize("path", ["`a", "a.`b`c", "`a\\`"])
def test_a_backtick_without_its_pair_is_refused(path: str) -> None:
    message = config_refusal("ExtractField$Value", field=path, field_syntax_version="V2")
    at = path.index("`")
    assert message == (
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {at} to"
        " escape it"
    )


def test_an_unknown_field_of_a_schema_is_refused() -> None:
    chain = [("IllegalArgumentException", "Unknown field: no")]
    assert refusal("ExtractField$Value", sink(VALUE, OUTER), field="no") == chain
    chain = [("DataException", "Cannot look up fields on non-struct type")]
    assert refusal("ExtractField$Value", sink(VALUE, OUTER), field="n.x", field_syntax_version="V2") == chain
    chain = [("IllegalArgumentException", "fromIndex(0) > toIndex(-1)")]
    assert refusal("ExtractField$Value", sink(MAP), field="", field_syntax_version="V2") == chain


def test_a_value_becomes_the_only_field_of_a_struct_or_map() -> None:
    hoist = transformation("HoistField$Value", field="f")
    schema = struct_schema({"f": INT32_SCHEMA})
    assert hoist.apply(sink(1, INT32_SCHEMA)) == sink(Struct(schema, {"f": 1}), schema)
    assert hoist.apply(sink(None)) == sink({"f": None})
    message = 'Invalid value: null used for required field: "f", schema type: INT32'
    assert refusal("HoistField$Value", sink(None, INT32_SCHEMA), field="f") == [("DataException", message)]


# ReplaceField.

PAIR = struct_schema({"a": INT32_SCHEMA, "b": OPTIONAL_STRING_SCHEMA, "c": STRING_SCHEMA}, name="P")
TRIPLE = Struct(PAIR, {"a": 1, "b": "x", "c": "y"})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"exclude": "a"}, {"b": "x", "c": "y"}),
        ({"include": "a,b"}, {"a": 1, "b": "x"}),
        ({"include": "a,b", "exclude": "a"}, {"b": "x"}),
        ({"renames": "a:z,no:q"}, {"z": 1, "b": "x", "c": "y"}),
        ({"include": "a", "renames": "a:b"}, {"b": 1}),
        ({"renames": "b:c,c:b"}, {"a": 1, "c": "x", "b": "y"}),
        ({"exclude": "a", "renames": "c:a:"}, {"b": "x", "a": "y"}),
    ],
)
def test_fields_are_left_out_and_renamed(config: dict[str, str], expected: dict[str, object]) -> None:
    replace = transformation("ReplaceField$Value", **config)
    changed = replace.apply(sink(TRIPLE, PAIR))
    assert changed is not None and isinstance(changed.value, Struct)
    assert {field.name: value for field, value in changed.value.items()} == expected
    assert changed.value_schema is changed.value.schema
    assert (changed.value.schema.name, changed.value.schema.fields[-1].schema.type) == (
        "P",
        SchemaType.INT32 if list(expected.values())[-1] == 1 else SchemaType.STRING,
    )
    assert replace.apply(sink({"a": 1, "b": "x", "c": "y"})) == sink(expected)


def test_a_rename_of_a_missing_field_reads_the_missing_field() -> None:
    record = sink(TRIPLE, PAIR)
    chain = [("DataException", "no is not a valid field name")]
    assert refusal("ReplaceField$Value", record, renames="no:b") == chain
    message = "Cannot create field because of field name duplication b"
    assert refusal("ReplaceField$Value", record, renames="a:b") == [("SchemaBuilderException", message)]


def test_a_key_of_a_map_that_is_no_text_is_no_field() -> None:
    replace = transformation("ReplaceField$Value", exclude="a")
    assert replace.apply(sink({None: 1, "a": 2})) == sink({None: 1})
    ((java_class, _),) = refusal("ReplaceField$Value", sink({5: 1}), exclude="a")
    assert java_class == "ClassCastException"


@pytest.mark.parametrize("item", ["a", "a:", "a:b:c", ":"])
def test_a_rename_has_two_names(item: str) -> None:
    message = f"Invalid value [{item}] for configuration renames: Invalid rename mapping: {item}"
    assert config_refusal("ReplaceField$Value", renames=item) == message


def test_a_tombstone_is_not_changed() -> None:
    tombstone = sink(None, PAIR)
    changes = {
        "ReplaceField$Value": {"exclude": "a"},
        "InsertField$Value": {"topic_field": "t"},
        "Flatten$Value": {},
        "Cast$Value": {"spec": "a:int8"},
    }
    for name, config in changes.items():
        assert transformation(name, **config).apply(tombstone) is tombstone, name


# MaskField.


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (Int8(1), Int8(0)),
        (5, 0),
        (Float32(1.5), Float32(0)),
        (Decimal("1.50"), Decimal(0)),
        (BigInteger(5), BigInteger(0)),
        (Instant(5), Instant(0)),
        (True, False),
        ("secret", ""),
        ([1], []),
        ({1: 2}, {}),
        (None, None),
    ],
)
def test_a_masked_value_is_the_null_value_of_its_type(value: object, masked: object) -> None:
    changed = transformation("MaskField$Value", fields="f").apply(sink({"f": value, "g": 1}))
    assert changed == sink({"f": masked, "g": 1})
    assert isinstance(changed.value, dict)
    assert type(changed.value["f"]) is type(masked)


@pytest.mark.parametrize(
    ("value", "replacement", "masked"),
    [
        (Int8(1), "300", Int8(44)),
        (Int32(1), "1.5", Int32(1)),
        (5, "-7e2", -700),
        (Float32(1), "0.1", Float32.of(0.1)),
        (Decimal(1), "1.50", Decimal("1.50")),
        (BigInteger(1), "-5", BigInteger(-5)),
        ("secret", "***", "***"),
        (None, "***", None),
    ],
)
def test_a_masked_value_is_the_replacement(value: object, replacement: str, masked: object) -> None:
    changed = transformation("MaskField$Value", fields="f", replacement=replacement).apply(sink({"f": value}))
    assert changed == sink({"f": masked})


def test_a_plain_number_of_a_struct_is_masked_by_the_type_of_its_field() -> None:
    schema = struct_schema({"a": INT8_SCHEMA, "f": FLOAT32_SCHEMA, "s": STRING_SCHEMA})
    record = sink(Struct(schema, {"a": 1, "f": 1.5, "s": "x"}), schema)
    mask = transformation("MaskField$Value", fields="a,f", replacement="300")
    assert mask.apply(record) == sink(Struct(schema, {"a": Int8(44), "f": 300.0, "s": "x"}), schema)


@pytest.mark.parametrize(
    ("value", "config", "chain"),
    [
        (b"x", {}, [("DataException", "Cannot mask value of type: class [B")]),
        (
            True,
            {"replacement": "1"},
            [("DataException", "Cannot mask value of type class java.lang.Boolean with custom replacement.")],
        ),
        (
            5,
            {"replacement": "abc"},
            [
                ("DataException", "Unable to convert abc (class java.lang.String) to a number"),
                ("NumberFormatException", "Character array is not a decimal number: abc"),
            ],
        ),
        (
            BigInteger(5),
            {"replacement": "1.5"},
            [
                ("DataException", "Unable to convert 1.5 (class java.lang.String) to number"),
                ("NumberFormatException", 'For input string: "1.5"'),
            ],
        ),
    ],
)
def test_a_value_that_cannot_be_masked_is_refused(
    value: object, config: dict[str, str], chain: list[tuple[str, str]]
) -> None:
    assert refusal("MaskField$Value", sink({"f": value}), fields="f", **config) == chain


# InsertField.


def test_the_origin_of_a_record_is_inserted_into_a_struct() -> None:
    schema = struct_schema({"a": INT32_SCHEMA})
    insert = transformation(
        "InsertField$Value",
        topic_field="topic!",
        partition_field="partition?",
        offset_field="offset",
        timestamp_field="at",
        static_field="text!",
        static_value="fixed",
    )
    fields = {
        "a": INT32_SCHEMA,
        "topic": STRING_SCHEMA,
        "partition": OPTIONAL_INT32_SCHEMA,
        "offset": OPTIONAL_INT64_SCHEMA,
        "at": Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1),
        "text": STRING_SCHEMA,
    }
    values = {
        "a": 1,
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "at": Instant(1_700_000_000_123),
        "text": "fixed",
    }
    expected = struct_schema(fields)
    record = sink(Struct(schema, {"a": 1}), schema)
    assert insert.apply(record) == sink(Struct(expected, values), expected)
    assert insert.apply(sink({"a": 1})) == sink(values)


def test_an_unknown_partition_and_timestamp_are_not_inserted() -> None:
    source = SourceRecord({}, {}, "t", {"a": 1})
    insert = transformation("InsertField$Value", partition_field="p", timestamp_field="ts")
    assert insert.apply(source) == source
    schema = struct_schema({})
    changed = insert.apply(SourceRecord({}, {}, "t", Struct(schema), schema))
    assert isinstance(changed, SourceRecord) and isinstance(changed.value, Struct)
    assert changed.value.values == [None, None]


def test_the_offset_of_a_source_record_is_refused() -> None:
    schema = struct_schema({"a": INT32_SCHEMA})
    incomplete = SourceRecord({}, {}, "t", Struct(schema), schema)
    ((_, first),) = refusal("InsertField$Value", incomplete, offset_field="o")
    assert first == 'Invalid value: null used for required field: "a", schema type: INT32'
    chain = refusal("InsertField$Value", SourceRecord({}, {}, "t", {}), offset_field="o")
    message = (
        "Only SinkRecord supported for [field insertion], found: org.apache.kafka.connect.source.SourceRecord"
    )
    assert chain == [("DataException", message)]


def test_an_insertion_needs_a_field_and_a_value() -> None:
    assert config_refusal("InsertField$Value", static_value="x") == "No field insertion configured"
    assert config_refusal("InsertField$Value", static_field="x").startswith(
        "Invalid value null for configuration static.value: No value specified for static field: "
    )


# Flatten.


def test_nested_structs_become_one_struct() -> None:
    inner = struct_schema({"x": INT32_SCHEMA, "list": array_schema(INT32_SCHEMA)}, optional=True)
    schema = struct_schema({"in": inner, "b": STRING_SCHEMA}, name="F", version=2)
    optional_list = Schema(SchemaType.ARRAY, optional=True, value_schema=INT32_SCHEMA)
    flat = struct_schema(
        {"in_x": OPTIONAL_INT32_SCHEMA, "in_list": optional_list, "b": STRING_SCHEMA}, name="F", version=2
    )
    flatten = transformation("Flatten$Value", delimiter="_")
    record = sink(Struct(schema, {"in": Struct(inner, {"x": 1, "list": [1, 2]}), "b": "y"}), schema)
    assert flatten.apply(record) == sink(Struct(flat, {"in_x": 1, "in_list": [1, 2], "b": "y"}), flat)
    assert flatten.apply(sink(Struct(schema, {"b": "y"}), schema)) == sink(Struct(flat, {"b": "y"}), flat)


def test_the_default_of_a_struct_becomes_the_defaults_of_its_fields() -> None:
    bare = struct_schema({"x": INT32_SCHEMA})
    inner = Schema(SchemaType.STRUCT, default=Struct(bare, {"x": 5}), fields=bare.fields)
    schema = struct_schema({"in": inner})
    changed = transformation("Flatten$Value").apply(sink(Struct(schema), schema))
    flat = struct_schema({"in.x": Schema(SchemaType.INT32, default=5)})
    assert changed == sink(Struct(flat), flat)


def test_nested_maps_become_one_map() -> None:
    nested = {"a": {"b": {"c": 1}, "d": [1]}, "e": None, None: 5}
    changed = transformation("Flatten$Key").apply(sink(key=nested))
    assert changed == sink(key={"a.b.c": 1, "a.d": [1], "e": None, None: 5})


@pytest.mark.parametrize(
    ("value", "schema", "java_class", "message"),
    [
        (
            {"a": Instant(1)},
            None,
            "DataException",
            (
                "Flatten transformation was passed a value of type class java.util.Date which is not supported by"
                " Connect's data API"
            ),
        ),
        (
            {"a": VALUE},
            None,
            "DataException",
            (
                "Flatten transformation does not support class org.apache.kafka.connect.data.Struct for record without"
                " schemas (for field a)."
            ),
        ),
        (
            {1: 2},
            None,
            "ClassCastException",
            (
                "class java.lang.Long cannot be cast to class java.lang.String (java.lang.Long and java.lang.String are"
                " in module java.base of loader 'bootstrap')"
            ),
        ),
        (
            Struct(struct_schema({"m": map_schema(STRING_SCHEMA, INT64_SCHEMA)})),
            struct_schema({"m": map_schema(STRING_SCHEMA, INT64_SCHEMA)}),
            "DataException",
            "Flatten transformation does not support MAP for record with schemas (for field m).",
        ),
    ],
)
def test_a_value_that_cannot_be_flattened_is_refused(
    value: object, schema: Schema | None, java_class: str, message: str
) -> None:
    assert refusal("Flatten$Value", sink(value, schema)) == [(java_class, message)]


# SetSchemaMetadata and ValueToKey.


def test_a_schema_gets_another_name_and_version() -> None:
    renamed = struct_schema({"in": INNER, "n": OUTER.fields[1].schema}, name="N", version=9)
    change = transformation("SetSchemaMetadata$Value", schema_name="N", schema_version="9")
    changed = change.apply(sink(VALUE, OUTER))
    assert changed == sink(Struct(renamed, {"in": VALUE.get("in"), "n": 7}), renamed)
    assert change.apply(sink(None)) == sink(None)


def test_the_default_of_a_renamed_schema_is_renamed_too() -> None:
    schema = Schema(SchemaType.STRUCT, default=Struct(INNER, {"x": 1, "a.b": "y"}), fields=INNER.fields)
    changed = transformation("SetSchemaMetadata$Value", schema_name="N").apply(sink(None, schema))
    assert changed is not None and changed.value_schema is not None
    default = changed.value_schema.default
    assert isinstance(default, Struct)
    assert (default.schema.name, default.values) == ("N", [1, "y"])


def test_only_the_schema_of_a_struct_gets_a_name() -> None:
    chain = [("DataException", "Cannot list fields on non-struct type")]
    assert refusal("SetSchemaMetadata$Value", sink(1, INT32_SCHEMA), schema_name="n") == chain
    chain = [("DataException", "Schema required for [updating schema metadata]")]
    assert refusal("SetSchemaMetadata$Value", sink(1), schema_name="n") == chain
    assert config_refusal("SetSchemaMetadata$Value") == "Neither schema name nor version configured"


def test_fields_of_the_value_become_the_key() -> None:
    to_key = transformation("ValueToKey", fields="n")
    schema = struct_schema({"n": OUTER.fields[1].schema})
    changed = to_key.apply(sink(VALUE, OUTER))
    assert changed == sink(VALUE, OUTER, key=Struct(schema, {"n": 7}), key_schema=schema)
    assert to_key.apply(sink({"a": 1})) == sink({"a": 1}, key={"n": None})
    chain = [("DataException", "Field does not exist: no")]
    assert refusal("ValueToKey", sink(VALUE, OUTER), fields="n,no") == chain
    assert config_refusal("ValueToKey", fields="") == "Invalid value [] for configuration fields: Empty list"


def test_the_default_of_a_field_that_is_a_struct_is_refused() -> None:
    bare = struct_schema({"x": INT32_SCHEMA})
    inner = Schema(SchemaType.STRUCT, default=Struct(bare, {"x": 5}), fields=bare.fields)
    schema = struct_schema({"in": inner})
    chain = [("DataException", "Struct schemas do not match.")]
    assert refusal("InsertField$Value", sink(Struct(schema), schema), topic_field="t") == chain
    assert refusal("MaskField$Value", sink(Struct(schema), schema), fields="a") == chain


def test_a_required_field_without_a_value_is_refused() -> None:
    schema = struct_schema({"a": INT32_SCHEMA})
    message = 'Invalid value: null used for required field: "a", schema type: INT32'
    changes = {
        "InsertField$Value": {"topic_field": "t"},
        "MaskField$Value": {"fields": "b"},
        "ValueToKey": {"fields": "a"},
        "SetSchemaMetadata$Value": {"schema_name": "n"},
        "ReplaceField$Value": {"renames": "b:c"},
        "Flatten$Value": {},
    }
    for name, config in changes.items():
        assert refusal(name, sink(Struct(schema), schema), **config) == [("DataException", message)], name
