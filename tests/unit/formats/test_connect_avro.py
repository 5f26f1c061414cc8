"""The mapping between Connect's data model and Avro. The expected texts and bytes are those of Confluent's AvroData."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from kcli.config.definition import ConfigDef
from kcli.formats.avro.language import parse
from kcli.formats.connect.avro.data import AvroData
from kcli.formats.connect.avro.names import scrubbed
from kcli.formats.connect.avro.settings import KEYS, AvroSettings
from kcli.formats.connect.errors import DataException
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
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
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
from kcli.formats.connect.values import Float32, Instant, Int8, Int32

SPACE = "io.confluent.connect.avro"
ENUM = f"{SPACE}.Enum"
GENERAL_ENUM = "org.apache.kafka.connect.data.Enum"
COLOURS = {ENUM: "a.Colour", f"{ENUM}.RED": "RED", f"{ENUM}.BLUE": "BLUE"}


def data_of(**config: str) -> AvroData:
    keys = {name.replace("_", "."): text for name, text in config.items()}
    return AvroData(AvroSettings.of(ConfigDef(KEYS).parse(keys)))


def tree_of(schema: Schema | None, **config: str) -> object:
    return json.loads(data_of(**config).text_of(schema))


def read(text: object, data: bytes = b"", version: int | None = None, **config: str) -> tuple[object, object]:
    schema = parse(json.dumps(text), {}, is_new=False)
    return tuple(data_of(**config).decoder(schema, None, version)(data))  # type: ignore[return-value]


def logical(kind: str, name: str, avro: str, **more: object) -> dict[str, object]:
    return {"type": kind, **more, "connect.version": 1, "connect.name": f"org.apache.kafka.connect.data.{name}",
            "logicalType": avro}  # fmt: skip


def union(*fields: tuple[str, Schema], optional: bool = False) -> Schema:
    return struct_schema(dict(fields), name=f"{SPACE}.Union", optional=optional)


PLAIN = [
    (INT8_SCHEMA, Int8(-3), {"type": "int", "connect.type": "int8"}, "05"),
    (INT16_SCHEMA, 300, {"type": "int", "connect.type": "int16"}, "d804"),
    (INT32_SCHEMA, -1, "int", "01"),
    (INT64_SCHEMA, 2**40, "long", "808080808040"),
    (FLOAT32_SCHEMA, Float32(1.5), "float", "0000c03f"),
    (FLOAT64_SCHEMA, 1.5, "double", "000000000000f83f"),
    (BOOLEAN_SCHEMA, True, "boolean", "01"),
    (STRING_SCHEMA, "é", "string", "04c3a9"),
    (BYTES_SCHEMA, b"\1\2", "bytes", "0102"),
    (OPTIONAL_INT32_SCHEMA, 7, ["null", "int"], "020e"),
    (Schema(SchemaType.INT32, True, 5), 7, [{"type": "int", "connect.default": 5}, "null"], "000e"),
    (
        Schema(SchemaType.STRING, name="n.M", version=2, doc="d", parameters={"b": "1", "a": "2"}), "x",
        {"type": "string", "connect.doc": "d", "connect.version": 2, "connect.parameters": {"b": "1", "a": "2"},
         "connect.name": "n.M"}, "0278",
    ),
    (
        decimal_schema(2), Decimal("-1.28"),
        {"type": "bytes", "scale": 2, "precision": 64, "connect.version": 1,
         "connect.parameters": {"scale": "2"}, "connect.name": "org.apache.kafka.connect.data.Decimal",
         "logicalType": "decimal"}, "80",
    ),
    (DATE_SCHEMA, Instant(86_400_000), logical("int", "Date", "date"), "02"),
    (TIME_SCHEMA, Instant(1), logical("int", "Time", "time-millis"), "02"),
    (TIMESTAMP_SCHEMA, Instant(-1), logical("long", "Timestamp", "timestamp-millis"), "01"),
    (array_schema(OPTIONAL_STRING_SCHEMA), ["a", None], {"type": "array", "items": ["null", "string"]}, "040202610000"),
    (map_schema(STRING_SCHEMA, INT32_SCHEMA), {"a": 1}, {"type": "map", "values": "int"}, "0202610200"),
    (
        map_schema(INT32_SCHEMA, STRING_SCHEMA), {1: "a"},
        {"type": "array", "items": {"type": "record", "name": "MapEntry", "namespace": SPACE, "fields": [
            {"name": "key", "type": "int"}, {"name": "value", "type": "string"}]}}, "0202026100",
    ),
    (
        Schema(SchemaType.MAP, name="n.Pair", key_schema=INT64_SCHEMA, value_schema=INT64_SCHEMA), {1: 2},
        {"type": "array", "items": {"type": "record", "name": "Pair", "namespace": "n", "fields": [
            {"name": "key", "type": "long"}, {"name": "value", "type": "long"}],
            "connect.internal.type": "MapEntry"}, "connect.name": "n.Pair"}, "02020400",
    ),
    (
        Schema(SchemaType.BYTES, name="n.Hash", parameters={"connect.fixed.size": "2"}), b"ab",
        {"type": "fixed", "name": "Hash", "namespace": "n", "size": 2,
         "connect.parameters": {"connect.fixed.size": "2"}, "connect.name": "n.Hash"}, "6162",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "tree", "data"), PLAIN)
def test_a_schema_and_a_value_have_the_form_of_java_in_both_directions(
    schema: Schema, value: object, tree: object, data: str
) -> None:
    avro = data_of()
    text = avro.text_of(schema)
    assert text == json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
    parsed = parse(text, {}, is_new=True)
    assert avro.encoder(schema, parsed)(value).hex() == data
    assert avro.decoder(parsed, None, None)(bytes.fromhex(data)) == (schema, value)


INNER = struct_schema({"n": INT64_SCHEMA}, name="s.Inner")


def test_a_struct_keeps_names_defaults_and_documentation() -> None:
    schema = Schema(
        SchemaType.STRUCT, name="s.Outer", version=4, doc="whole",
        parameters={f"{SPACE}.record.doc": "of the record", f"{SPACE}.field.doc.a": "of the field", "p": "q"},
        fields=struct_schema({
            "a": Schema(SchemaType.INT32, default=3),
            "b": OPTIONAL_STRING_SCHEMA,
            "c": INNER,
            "d": struct_schema({"n": INT64_SCHEMA}, name="s.Inner", optional=True),
            "e": struct_schema({"x": OPTIONAL_INT32_SCHEMA}),
        }).fields,
    )  # fmt: skip
    tree = tree_of(schema)
    assert tree == {
        "type": "record", "name": "Outer", "namespace": "s", "doc": "of the record",
        "fields": [
            {"name": "a", "type": {"type": "int", "connect.default": 3}, "doc": "of the field", "default": 3},
            {"name": "b", "type": ["null", "string"], "default": None},
            {"name": "c", "type": {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}],
                                   "connect.name": "s.Inner"}},
            {"name": "d", "type": ["null", "Inner"], "default": None},
            {"name": "e", "type": {"type": "record", "name": "ConnectDefault", "namespace": SPACE, "fields": [
                {"name": "x", "type": ["null", "int"], "default": None}]}},
        ],
        "connect.doc": "whole", "connect.version": 4,
        "connect.parameters": {f"{SPACE}.record.doc": "of the record", f"{SPACE}.field.doc.a": "of the field",
                               "p": "q"},
        "connect.name": "s.Outer",
    }  # fmt: skip
    avro = data_of()
    parsed = parse(avro.text_of(schema), {}, is_new=True)
    optional = schema.fields[3].schema
    value = Struct(schema, {
        "c": Struct(INNER, {"n": 1}), "d": Struct(optional, {"n": 2}), "e": Struct(schema.fields[4].schema),
    })  # fmt: skip
    data = avro.encoder(schema, parsed)(value)
    assert data.hex() == "060002020400"
    assert avro.decoder(parsed, None, 9)(data) == (schema, value.put("a", 3))


def test_structs_without_a_name_are_numbered() -> None:
    first, second = struct_schema({"a": INT32_SCHEMA}), struct_schema({"b": INT32_SCHEMA})
    tree = tree_of(struct_schema({"x": first, "y": second, "z": first}, name="N"))
    assert isinstance(tree, dict)
    names = [
        item["type"] if isinstance(item["type"], str) else item["type"]["name"] for item in tree["fields"]
    ]
    assert names == ["ConnectDefault", "ConnectDefault2", f"{SPACE}.ConnectDefault"]


def test_two_different_structs_with_one_name_are_refused() -> None:
    other = struct_schema({"m": INT64_SCHEMA}, name="s.Inner")
    with pytest.raises(DataException, match=r"Can.t redefine: s\.Inner"):
        tree_of(struct_schema({"x": INNER, "y": other}, name="N"))


DEFAULTS = [
    (Schema(SchemaType.FLOAT32, default=Float32.of(0.1)), 0.1, 0.10000000149011612),
    (Schema(SchemaType.BYTES, default=b"\xff\0"), "ÿ\0", "ÿ\0"),
    (Schema(SchemaType.INT32, name=DATE_SCHEMA.name, version=1, default=Instant(86_400_000)), 1, 1),
    (Schema(SchemaType.ARRAY, value_schema=INT32_SCHEMA, default=[1, 2]), [1, 2], [1, 2]),
    (Schema(SchemaType.MAP, key_schema=STRING_SCHEMA, value_schema=INT32_SCHEMA, default={"a": 1}), {"a": 1}, {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "of_type", "of_field"), DEFAULTS)
def test_defaults_are_json_in_the_field_and_in_the_type(
    schema: Schema, of_type: object, of_field: object
) -> None:
    outer = struct_schema({"f": schema}, name="N")
    tree = tree_of(outer)
    assert isinstance(tree, dict)
    assert tree["fields"][0]["type"]["connect.default"] == of_type
    assert tree["fields"][0]["default"] == of_field
    text = data_of().text_of(outer)
    assert data_of().decoder(parse(text, {}, is_new=True), None, None) is not None
    assert read(json.loads(text), _encoded(outer))[0] == outer


def _encoded(schema: Schema, value: object = None, **config: str) -> bytes:
    avro = data_of(**config)
    made = Struct(schema) if value is None else value
    return avro.encoder(schema, parse(avro.text_of(schema), {}, is_new=True))(made)


def test_a_null_becomes_the_default_unless_the_setting_keeps_it() -> None:
    schema = struct_schema({"f": Schema(SchemaType.INT32, True, 5)}, name="N")
    assert _encoded(schema).hex() == "000a"
    assert _encoded(schema, ignore_default_for_nullables="true").hex() == "02"


# Settings


def test_enums_are_kept_with_enhanced_support_only() -> None:
    schema = Schema(SchemaType.STRING, name="a.Colour", parameters=COLOURS)
    assert tree_of(schema) == {"type": "string", "connect.parameters": COLOURS, "connect.name": "a.Colour"}
    tree = {"type": "enum", "name": "Colour", "namespace": "a", "symbols": ["RED", "BLUE"]}
    more = {"connect.parameters": COLOURS, "connect.name": "a.Colour"}
    enhanced = {"enhanced_avro_schema_support": "true"}
    assert tree_of(schema, **enhanced) == {**tree, **more}
    assert _encoded(schema, "BLUE", **enhanced) == b"\2"
    with pytest.raises(DataException, match=r"The enum a\.Colour has no symbol GREEN"):
        _encoded(schema, "GREEN", **enhanced)
    assert read(tree, b"\2") == (schema, "BLUE")
    numbered = {GENERAL_ENUM: "a.Colour", f"{GENERAL_ENUM}.RED": "0", f"{GENERAL_ENUM}.BLUE": "1"}
    general = Schema(SchemaType.STRING, name="a.Colour", parameters=numbered)
    assert read(tree, b"\2", generalized_sum_type_support="true") == (general, "BLUE")


def test_a_union_of_several_types_is_a_struct() -> None:
    tree = [
        "int",
        "null",
        {"type": "record", "name": "Inner", "namespace": "s", "fields": [{"name": "n", "type": "long"}]},
    ]
    inner = struct_schema({"n": INT64_SCHEMA}, name="s.Inner", optional=True)
    schema = union(("int", OPTIONAL_INT32_SCHEMA), ("Inner", inner), optional=True)
    assert read(tree, b"\0\6") == (schema, Struct(schema, {"int": 3}))
    assert read(tree, b"\4\6") == (schema, Struct(schema, {"Inner": Struct(inner, {"n": 3})}))
    assert read(tree, b"\2") == (schema, None)
    assert _encoded(schema, Struct(schema, {"Inner": Struct(inner, {"n": 3})})).hex() == "0406"
    enhanced, _ = read(tree, b"\2", enhanced_avro_schema_support="true")
    assert isinstance(enhanced, Schema) and [item.name for item in enhanced.fields] == ["int", "s.Inner"]
    general, value = read(tree, b"\0\6", generalized_sum_type_support="true")
    assert isinstance(general, Schema) and general.name == "connect_union_0"
    assert [item.name for item in general.fields] == ["connect_union_field_0", "connect_union_field_2"]
    assert isinstance(value, Struct) and value.values == [3, None]


def test_a_union_of_one_type_is_flattened_unless_the_setting_forbids_it() -> None:
    assert read(["int"], b"\0\6") == (INT32_SCHEMA, 3)
    schema = union(("int", OPTIONAL_INT32_SCHEMA))
    assert read(["int"], b"\0\6", flatten_singleton_unions="false") == (schema, Struct(schema, {"int": 3}))


def test_a_field_of_a_union_may_be_fixed_or_an_enum() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 2}
    enum = {"type": "enum", "name": "E", "symbols": ["X"]}
    for number, value in ((0, b"ab"), (2, "X")):
        schema, made = read([fixed, enum], bytes((number,)) + (b"ab" if number == 0 else b"\0"))
        assert isinstance(made, Struct) and made.values[number // 2] == value
        assert isinstance(schema, Schema)
        config = {"enhanced_avro_schema_support": "true"}
        assert _encoded(schema, made, **config) == bytes((number,)) + (b"ab" if number == 0 else b"\0")


def test_names_are_scrubbed_on_request() -> None:
    schema = struct_schema({"a-b": INT32_SCHEMA, "1x": INT32_SCHEMA}, name="com.my-app.1st")
    with pytest.raises(DataException, match="Illegal"):
        tree_of(schema)
    tree = tree_of(schema, scrub_invalid_names="true")
    assert isinstance(tree, dict)
    assert (tree["namespace"], tree["name"]) == ("com.my_app", "x1st")
    assert [item["name"] for item in tree["fields"]] == ["a_b", "x1x"]
    assert _encoded(schema, Struct(schema, {"a-b": 1, "1x": 2}), scrub_invalid_names="true") == b"\2\4"
    assert [scrubbed(name) for name in ("ok_1", "", "a b", "é", "a~b")] == [
        "ok_1",
        "",
        "a_b",
        "_C3_A9",
        "a_7Eb",
    ]


def test_meta_data_can_be_left_out() -> None:
    schema = Schema(SchemaType.INT8, name="x.Y", version=3, doc="d", parameters={"avro.z": "1", "p": "q"})
    assert tree_of(schema, connect_meta_data="false") == {"type": "int", "avro.z": "1"}
    tree = {"type": "int", "connect.doc": "d", "connect.parameters": {"p": "q"}, "connect.version": 3}
    assert read(tree, b"\2", connect_meta_data="false") == (Schema(SchemaType.INT32, version=3), 1)


def test_a_map_with_optional_keys_is_a_map_on_request() -> None:
    schema = map_schema(OPTIONAL_STRING_SCHEMA, INT32_SCHEMA)
    assert tree_of(schema, allow_optional_map_keys="true") == {"type": "map", "values": "int"}
    assert _encoded(schema, {None: 1, "a": 2}).hex() == "0400020202610400"
    assert read(tree_of(schema), _encoded(schema, {None: 1, "a": 2})) == (schema, {None: 1, "a": 2})


RECORD = {
    "type": "record", "name": "R", "doc": "rd",
    "fields": [{"name": "f", "type": "int", "doc": "fd", "default": 4},
               {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"], "doc": "ed", "default": "X"}}],
}  # fmt: skip


def test_documentation_of_avro_becomes_parameters() -> None:
    schema, value = read(RECORD, b"\6\0", 7)
    assert isinstance(schema, Schema) and isinstance(value, Struct) and value.values == [3, "X"]
    assert (schema.name, schema.version, schema.doc) == ("R", 7, None)
    assert schema.parameters == {f"{SPACE}.record.doc": "rd", f"{SPACE}.field.doc.f": "fd"}
    number, symbol = (item.schema for item in schema.fields)
    assert number.default == 4 and number.parameters == {f"{SPACE}.field.default": "true"}
    assert symbol.parameters is not None
    assert list(symbol.parameters)[:2] == [f"{SPACE}.enum.doc.E", f"{SPACE}.enum.default.E"]


def test_only_fields_keep_documentation_on_request() -> None:
    schema, _ = read(RECORD, b"\6\0", discard_type_doc_default="true")
    assert isinstance(schema, Schema)
    assert (schema.doc, schema.parameters) == ("rd", {"connect.record.doc": "rd"})
    assert (schema.fields[0].schema.doc, schema.fields[0].schema.parameters) == ("fd", None)
    tree = tree_of(schema, discard_type_doc_default="true")
    assert isinstance(tree, dict) and tree["doc"] == "rd"
    assert [item["doc"] for item in tree["fields"]] == ["fd", "ed"]


# Recursion, values without a schema, errors

NODE = {
    "type": "record", "name": "Node", "namespace": "t",
    "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"], "default": None},
               {"name": "all", "type": {"type": "array", "items": "Node"}}],
}  # fmt: skip


def test_a_record_may_contain_itself() -> None:
    data = bytes.fromhex("02020400000206000000")
    schema, value = read(NODE, data)
    assert isinstance(schema, Schema) and isinstance(value, Struct)
    after, inner = schema.fields[1].schema, schema.fields[2].schema.value_schema
    assert isinstance(after, RecursiveSchema) and isinstance(inner, RecursiveSchema)
    assert (after.optional, inner.optional, after.fields) == (True, False, schema.fields)
    assert (
        after != inner and repr(after) == "RecursiveSchema(t.Node)" and str(after) == "Schema{t.Node:STRUCT}"
    )
    assert schema != read(NODE, data)[0], "each schema that contains itself is equal only to itself"
    following = value.get("next")
    assert isinstance(following, Struct) and following.get("n") == 2 and following.schema is after
    tree = tree_of(schema)
    assert isinstance(tree, dict) and tree["fields"][1]["type"] == ["null", "Node"]
    assert _encoded(schema, value) == data


ANYTHING = [
    (None, "00" * 9),
    (True, "0201" + "00" * 8),
    (1.5, "000002000000000000f83f" + "00" * 6),
    (Float32(1.5), "000000020000c03f" + "00" * 5),
    (Int32(3), "000000000206" + "00" * 4),
    (3, "00000000000206" + "00" * 3),
    ("a", "000000000000020261" + "00" * 2),
    ([None], "000000000000000202" + "00" * 9 + "0000"),
    ({"a": 3}, "0000000000000000020200000000000002026100000000000000020600000000"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "data"), ANYTHING)
def test_a_value_without_a_schema_is_a_record_with_a_field_for_its_type(value: object, data: str) -> None:
    avro = data_of()
    parsed = parse(avro.text_of(None), {}, is_new=True)
    assert avro.encoder(None, parsed)(value).hex() == data
    assert avro.decoder(parsed, None, 3)(bytes.fromhex(data)) == (None, value)


def test_a_value_without_a_schema_has_a_class_that_avro_knows() -> None:
    avro = data_of()
    with pytest.raises(
        DataException, match=r"Unknown Java type for schemaless data: class java\.math\.BigDecimal"
    ):
        avro.encoder(None, parse(avro.text_of(None), {}, is_new=True))(Decimal(1))


WRONG = [
    (INT32_SCHEMA, "x", r"Invalid type for INT32: class java\.lang\.String"),
    (INT32_SCHEMA, None, "Found null value for non-optional schema"),
    (STRING_SCHEMA, 1, r"Invalid type for STRING: class java\.lang\.Long"),
    (FLOAT64_SCHEMA, True, r"Invalid type for FLOAT64: class java\.lang\.Boolean"),
    (BOOLEAN_SCHEMA, 1, r"Invalid type for BOOLEAN: class java\.lang\.Long"),
    (decimal_schema(0), 1, r"Invalid type for Decimal, expected BigDecimal but was class java\.lang\.Long"),
    (TIMESTAMP_SCHEMA, 1, r"Invalid type for Timestamp, expected Date but was class java\.lang\.Long"),
    (array_schema(INT32_SCHEMA), [None], "Found null value for non-optional schema"),
    (array_schema(INT32_SCHEMA), "x", r"Invalid type for ARRAY: class java\.lang\.String"),
    (map_schema(STRING_SCHEMA, INT32_SCHEMA), {1: 1}, "key of a map"),
    (INNER, Struct(struct_schema({"m": INT64_SCHEMA})), "Mismatching struct schema"),
    (INNER, Struct(INNER), "Found null value for non-optional schema"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "text"), WRONG)
def test_a_value_that_does_not_fit_is_refused(schema: Schema, value: object, text: str) -> None:
    avro = data_of()
    encode = avro.encoder(schema, parse(avro.text_of(schema), {}, is_new=True))
    with pytest.raises(DataException, match=text):
        encode(value)


UNREADABLE = [
    ("null", "Standalone null schemas are not supported by this converter"),
    ({"type": "int", "connect.type": "int99"}, "Connect type annotation for Avro int field is null"),
    ({"type": "int", "connect.version": "1"}, "Invalid Connect version found: 1"),
    ({"type": "int", "connect.name": 1}, "Invalid schema name: 1"),
    ({"type": "int", "connect.parameters": []}, "Expected JSON object for schema parameters"),
    ({"type": "int", "connect.parameters": {"a": 1}}, "Expected schema parameter values to be strings"),
    ({"type": "int", "logicalType": "date", "connect.version": 2}, "Mismatched versions"),
    ({"type": "int", "logicalType": "date", "connect.name": "x"}, "Mismatched names"),
    ({"type": "bytes", "logicalType": "decimal", "precision": "x"}, "precision property must be a JSON Integer"),
    ({"type": "array", "items": {"type": "record", "name": "M", "connect.internal.type": "MapEntry",
                                 "fields": []}}, "do not match the expected format"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "text"), UNREADABLE)
def test_a_schema_that_connect_does_not_express_is_refused(tree: object, text: str) -> None:
    with pytest.raises(DataException, match=text):
        read(tree, b"\0")


def test_an_invalid_default_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    schema, _ = read({"type": "int", "connect.default": "x"}, b"\0")
    assert schema == INT32_SCHEMA
    assert "Ignoring an invalid default for Schema{INT32}" in caplog.text


def test_values_are_written_with_another_schema_by_the_names_of_fields() -> None:
    schema = struct_schema(
        {"old": INT32_SCHEMA, "n": INT32_SCHEMA, "t": STRING_SCHEMA, "o": OPTIONAL_INT64_SCHEMA}, name="R"
    )
    other = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "o", "type": ["null", "double", "long"]},
            {"name": "new", "type": "string", "default": "d"},
            {"name": "n", "type": ["string", "long"]},
            {"name": "t", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        ],
    }  # fmt: skip
    parsed = parse(json.dumps(other), {}, is_new=False)
    value = Struct(schema, {"old": 1, "n": 2, "t": "B", "o": 3})
    assert data_of().encoder(schema, parsed)(value).hex() == "04060264020402"
    missing = parse(json.dumps({**other, "fields": [{"name": "x", "type": "int"}]}), {}, is_new=False)
    with pytest.raises(DataException, match="The schema has no field x, which R requires"):
        data_of().encoder(schema, missing)
    for part in ("boolean", {"type": "array", "items": "int"}, ["null", "boolean"]):
        with pytest.raises(DataException, match="cannot be written as"):
            data_of().encoder(STRING_SCHEMA, parse(json.dumps(part), {}, is_new=False))


def test_optional_values_of_every_type_are_read() -> None:
    tree = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": ["null", "bytes"]}, {"name": "b", "type": ["double", "null"]},
        {"name": "c", "type": ["null", {"type": "array", "items": ["null", NODE]}]}]}  # fmt: skip
    schema, value = read(tree, b"\2\2x\2\0")
    assert isinstance(schema, Schema) and isinstance(value, Struct)
    assert [item.schema for item in schema.fields][:2] == [OPTIONAL_BYTES_SCHEMA, OPTIONAL_FLOAT64_SCHEMA]
    assert value.values == [b"x", None, None]
