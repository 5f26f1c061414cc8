"""The mapping between Connect's data model and Protobuf. The expected texts and bytes are those of Confluent's
ProtobufData."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from kcli.config.definition import ConfigDef
from kcli.formats.codec import FormatError
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.protobuf.data import ProtobufData
from kcli.formats.connect.protobuf.names import entry_name, map_name, scrubbed_name
from kcli.formats.connect.protobuf.settings import KEYS, ProtobufSettings
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
from kcli.formats.connect.values import Float32, Instant, Int8
from kcli.formats.protobuf.language import parse

SPACE = "io.confluent.connect.protobuf"
TAG = f"{SPACE}.Tag"


def data_of(**config: str) -> ProtobufData:
    keys = {name.replace("_", "."): text for name, text in config.items()}
    return ProtobufData(ProtobufSettings.of(ConfigDef(KEYS).parse(keys)))


def encoded(schema: Schema, value: object, **config: str) -> bytes:
    data = data_of(**config)
    encode, path = data.encoder(schema, parse(data.text_of(schema), {}, is_new=True))
    return path + encode(value)


def read(text: str, payload: bytes, version: int | None = None, **config: str) -> tuple[Schema, object]:
    schema, value = data_of(**config).decoder(parse(text, {}, is_new=False), None, version)(payload, None)
    assert schema is not None
    return schema, value


def tagged(schema: Schema, number: int) -> Schema:
    """The schema of a field that was read."""
    return replace(schema, optional=True, parameters={**(schema.parameters or {}), TAG: str(number)})


ORDER = struct_schema({
    "x": Schema(SchemaType.INT32, True, 5),
    "s": struct_schema({"y": INT8_SCHEMA}, optional=True),
    "m": map_schema(STRING_SCHEMA, INT64_SCHEMA),
    "l": array_schema(STRING_SCHEMA),
    "d": decimal_schema(2),
    "ts": TIMESTAMP_SCHEMA,
    "dt": DATE_SCHEMA,
    "ti": TIME_SCHEMA,
}, name="a.b.Rec")  # fmt: skip
TEXT = """syntax = "proto3";
package a.b;

import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";

message Rec {
  int32 x = 1;
  ConnectDefault1 s = 2;
  repeated ConnectDefault2Entry m = 3;
  repeated string l = 4;
  confluent.type.Decimal d = 5 [(confluent.field_meta) = {
    params: [
      {
        value: "2",
        key: "scale"
      }
    ]
  }];
  google.protobuf.Timestamp ts = 6;
  google.type.Date dt = 7;
  google.type.TimeOfDay ti = 8;

  message ConnectDefault1 {
    int32 y = 1 [(confluent.field_meta) = {
      params: [
        {
          value: "int8",
          key: "connect.type"
        }
      ]
    }];
  }
  message ConnectDefault2Entry {
    string key = 1;
    int64 value = 2;
  }
}
"""
DATA = (
    "0805120208031a050a016110012201712a070a010110011802320708e80710c0843d3a0708e80f100a18044206080120c0843d"
)


def test_a_struct_and_its_message_have_the_form_of_java_in_both_directions() -> None:
    assert data_of().text_of(ORDER) == TEXT
    inner = ORDER.fields[1].schema
    values = {
        "s": Struct(inner, {"y": Int8(3)}), "m": {"a": 1}, "l": ["q"], "d": Decimal("0.01"),
        "ts": Instant(1_000_001), "dt": Instant(1_728_000_000_000), "ti": Instant(3_600_001),
    }  # fmt: skip
    data = encoded(ORDER, Struct(ORDER, values))
    assert data.hex() == "00" + DATA
    schema, value = read(TEXT, data, 7)
    assert (schema.name, schema.version) == ("Rec", 7)
    assert [item.schema for item in schema.fields] == [
        tagged(INT32_SCHEMA, 1),
        tagged(struct_schema({"y": tagged(INT8_SCHEMA, 1)}, name="ConnectDefault1"), 2),
        tagged(
            replace(map_schema(tagged(STRING_SCHEMA, 1), tagged(INT64_SCHEMA, 2)), name="connect_default2"), 3
        ),
        tagged(array_schema(OPTIONAL_STRING_SCHEMA), 4),
        tagged(decimal_schema(2), 5),
        tagged(TIMESTAMP_SCHEMA, 6),
        tagged(DATE_SCHEMA, 7),
        tagged(TIME_SCHEMA, 8),
    ]
    assert isinstance(value, Struct)
    inner_value = value.values[1]
    assert isinstance(inner_value, Struct) and inner_value.values == [3]
    assert [*value.values[:1], *value.values[2:]] == [5, *[*values.values()][1:]]


PRIMITIVES = [
    (INT8_SCHEMA, Int8(-1), 4), (INT16_SCHEMA, 2, 4), (INT32_SCHEMA, 3, 4), (INT64_SCHEMA, -4, 2),
    (FLOAT32_SCHEMA, Float32(1.5), 1), (FLOAT64_SCHEMA, 2.5, 0), (BOOLEAN_SCHEMA, True, 6),
    (STRING_SCHEMA, "é", 7), (BYTES_SCHEMA, b"\0\1", 8),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "index"), PRIMITIVES)
def test_a_plain_value_is_in_a_message_of_its_own(schema: Schema, value: object, index: int) -> None:
    text = data_of().text_of(schema)
    data = encoded(schema, value)
    assert data[:2] == (bytes((2, index * 2)) if index else b"\0\x09")
    read_schema, read_value = read(text, data)
    assert read_value == value
    assert read_schema.type is (SchemaType.INT32 if index == 4 else schema.type)
    struct_read, wrapped = read(text, data, wrapper_for_raw_primitives="false")
    assert struct_read.type is SchemaType.STRUCT and isinstance(wrapped, Struct) and wrapped.values == [value]


# Settings

LABELS = """syntax = "proto3";
package p;

message M {
  optional int32 a = 1;
  int32 b = 2;
  Kind k = 3;
  M next = 4;
  repeated Kind ks = 5;
  map<string, M> all = 6;
  oneof choice {
    string t = 7;
    M m = 8;
  }
  uint32 u = 9;
  uint64 v = 10;
  google.protobuf.StringValue w = 11;

  enum Kind {
    NONE = 0;
    SOME = 5;
  }
}
""".replace('package p;\n', 'package p;\n\nimport "google/protobuf/wrappers.proto";\n')  # fmt: skip
FULL = bytes.fromhex(
    "0801100218052202 10032a02050932080a016b12031097 01".replace(" ", "") + "3a017848ffffffff0f"
    "50ffffffffffffffffff015a030a0177"
)  # fmt: skip


def test_a_message_with_every_kind_of_field_is_read() -> None:
    schema, value = read(LABELS, b"\0" + FULL)
    assert [item.name for item in schema.fields] == [
        "choice_0",
        "a",
        "b",
        "k",
        "next",
        "ks",
        "all",
        "u",
        "v",
        "w",
    ]
    assert isinstance(value, Struct)
    after, union = schema.fields[4].schema, value.values[0]
    assert isinstance(after, RecursiveSchema) and after.parameters == {TAG: "4"} and after.optional
    assert isinstance(union, Struct) and union.values == ["x", None]
    assert union.schema.name == f"{SPACE}.Union.choice"
    following, every = value.values[4], value.values[6]
    assert isinstance(following, Struct) and following.values == [
        None,
        None,
        3,
        "NONE",
        None,
        [],
        {},
        0,
        0,
        None,
    ]
    assert isinstance(every, dict) and every["k"].values[2] == 151
    assert value.values[1:4] == [1, 2, "SOME"] and value.values[5] == ["SOME", "UNKNOWN_ENUM_VALUE_Kind_9"]
    assert value.values[7:9] == [2**32 - 1, -1]
    wrapped = value.values[9]
    assert isinstance(wrapped, Struct) and wrapped.values == ["w"]


def test_a_message_that_was_read_is_written_again() -> None:
    for config in ({}, {"generalized_sum_type_support": "true"}, {"optional_for_nullables": "true"}):
        schema, value = read(LABELS, b"\0" + FULL.replace(b"\5\x09", b"\5\0"), **config)
        data = data_of(**config)
        again = data.text_of(schema)
        encode, path = data.encoder(schema, parse(again, {}, is_new=True))
        second, value_again = read(again, path + encode(value), **config)
        assert isinstance(value, Struct) and isinstance(value_again, Struct)
        union, union_again = value.values[0], value_again.values[0]
        assert isinstance(union, Struct) and isinstance(union_again, Struct)
        assert (union.values, value.values[1:4]) == (union_again.values, value_again.values[1:4])
        assert second.fields[1].schema == schema.fields[1].schema


SETTINGS = [
    ({"int.for.enums": "true"}, 3, 5),
    ({"flatten.unions": "true"}, 0, "x"),
    ({"flatten.unions": "true"}, 1, None),
    ({"wrapper.for.nullables": "true"}, 9, "w"),
]


@pytest.mark.parametrize(("config", "position", "expected"), SETTINGS)
def test_settings_change_the_values(config: dict[str, str], position: int, expected: object) -> None:
    _, value = read(LABELS, b"\0" + FULL, **config)
    assert isinstance(value, Struct) and value.values[position] == expected


def test_settings_change_the_schemas() -> None:
    def schema_of(**config: str) -> Schema:
        return read(LABELS, b"\0", **config)[0]

    enhanced = schema_of(enhanced_protobuf_schema_support="true")
    assert (enhanced.name, enhanced.fields[3].schema.name) == ("p.M", "p.M.Kind")
    assert enhanced.fields[0].schema.name == f"{SPACE}.Union.p.M.choice"
    general = schema_of(generalized_sum_type_support="true")
    assert general.fields[0].schema.parameters == {"org.apache.kafka.connect.data.Union": "choice"}
    enum = general.fields[3].schema.parameters
    assert enum is not None and enum["org.apache.kafka.connect.data.Enum.SOME"] == "5"
    assert schema_of(generate_index_for_unions="false").fields[0].name == "choice"
    labels = schema_of(optional_for_nullables="true")
    assert [item.schema.optional for item in labels.fields[1:3]] == [True, False]
    wrapped = schema_of(wrapper_for_nullables="true")
    assert not wrapped.fields[2].schema.optional
    assert wrapped.fields[9].schema == Schema(SchemaType.STRING, True, parameters={TAG: "11"})


def test_a_message_that_is_not_set_becomes_a_struct_on_request() -> None:
    text = 'syntax = "proto3";\nmessage M { optional int32 a = 1; N n = 2; message N { int32 b = 1; } }'
    _, value = read(text, b"\0")
    assert isinstance(value, Struct) and value.values == [None, None]
    _, value = read(text, b"\0", generate_struct_for_nulls="true")
    assert isinstance(value, Struct) and value.values[0] == 0
    inner = value.values[1]
    assert isinstance(inner, Struct) and inner.values == [0]


@pytest.mark.parametrize(("setting", "expected"), [("true", None), ("false", 7)])
def test_an_optional_field_of_proto2_is_null_unless_the_setting_forbids_it(
    setting: str, expected: object
) -> None:
    text = 'syntax = "proto2";\nmessage M {\n  optional int32 a = 1 [default = 7];\n}\n'
    _, value = read(text, b"\0", optional_for_proto2=setting)
    assert isinstance(value, Struct) and value.values == [expected]


def test_optional_values_have_labels_or_messages_on_request() -> None:
    schema = struct_schema(
        {"a": OPTIONAL_INT32_SCHEMA, "b": OPTIONAL_INT64_SCHEMA, "c": STRING_SCHEMA}, name="M"
    )
    labelled = data_of(optional_for_nullables="true").text_of(schema)
    assert "optional int32 a = 1;" in labelled and "  string c = 3;" in labelled
    wrapped = data_of(wrapper_for_nullables="true").text_of(schema)
    assert "google.protobuf.Int32Value a = 1;" in wrapped and "google.protobuf.Int64Value b = 2;" in wrapped
    for config in ({"optional_for_nullables": "true"}, {"wrapper_for_nullables": "true"}):
        data = encoded(schema, Struct(schema, {"a": 0, "c": ""}), **config)
        _, value = read(data_of(**config).text_of(schema), data, **config)
        assert isinstance(value, Struct) and value.values == [0, None, ""]


def test_a_null_becomes_the_default_unless_the_setting_keeps_it() -> None:
    schema = struct_schema({"f": Schema(SchemaType.INT32, True, 5)}, name="N")
    assert encoded(schema, Struct(schema)).hex() == "000805"
    assert encoded(schema, Struct(schema), ignore_default_for_nullables="true").hex() == "00"


def test_names_are_scrubbed_on_request() -> None:
    schema = struct_schema({"a-b": INT32_SCHEMA}, name="com.1st")
    with pytest.raises(DataException, match="Invalid protobuf schema definition"):
        data_of().text_of(schema)
    assert "message x1st {\n  int32 a_b = 1;" in data_of(scrub_invalid_names="true").text_of(schema)
    assert encoded(schema, Struct(schema, {"a-b": 1}), scrub_invalid_names="true") == b"\0\x08\1"
    assert [scrubbed_name(name, scrubs=True) for name in ("_a", "ok", "")] == ["x_a", "ok", ""]
    assert (entry_name("my_map"), map_name("a.MyMapEntry")) == ("MyMapEntry", "a.my_map")


# Other schemas, and errors


def test_values_are_written_with_another_schema_by_the_names_of_fields() -> None:
    schema = struct_schema({"a": INT32_SCHEMA, "gone": INT32_SCHEMA, "u": INT64_SCHEMA}, name="p.M")
    other = 'syntax = "proto3";\npackage p;\nmessage N {}\nmessage M {\n  uint32 u = 1;\n  int64 a = 9;\n}\n'
    encode, path = data_of().encoder(schema, parse(other, {}, is_new=True))
    assert path.hex() == "0202"
    assert encode(Struct(schema, {"a": 1, "gone": 2, "u": -1})).hex() == "08ffffffff0f4801"  # fmt: skip
    with pytest.raises(FormatError, match=r"no message p\.M"):
        data_of().encoder(schema, parse(other.replace("message M", "message O"), {}, is_new=True))
    for field in ("repeated int32 a = 1;", "N a = 1;"):
        wrong = f'syntax = "proto3";\npackage p;\nmessage M {{\n  {field}\n}}\nmessage N {{}}\n'
        with pytest.raises(DataException, match="cannot be written as"):
            data_of().encoder(schema, parse(wrong, {}, is_new=True))


def test_values_are_read_as_messages_of_another_schema() -> None:
    writer = parse('syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n', {}, is_new=True)
    reader = parse('syntax = "proto3";\nmessage M {\n  int32 b = 2;\n  int64 a = 1;\n}\n', {}, is_new=True)
    _, value = data_of().decoder(writer, reader, None)(b"\0\x08\5", None)
    assert isinstance(value, Struct) and value.values == [0, 5]
    assert data_of().decoder(writer, None, None)(b"\x08\5", b"\0").value == Struct(
        struct_schema({"a": tagged(INT32_SCHEMA, 1)}, name="M"), {"a": 5}
    )


INNER = struct_schema({"n": INT32_SCHEMA}, name="Inner")
WRONG = [
    (INNER, "x", r"Invalid type for STRUCT: class java\.lang\.String"),
    (INNER, Struct(struct_schema({"m": INT32_SCHEMA})), "Mismatching struct schema"),
    (INT32_SCHEMA, "x", r"Invalid type for INT32: class java\.lang\.String"),
    (INT32_SCHEMA, True, r"Invalid type for INT32: class java\.lang\.Boolean"),
    (INT32_SCHEMA, 1 << 40, "The value does not fit"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "text"), WRONG)
def test_a_value_that_does_not_fit_is_refused(schema: Schema, value: object, text: str) -> None:
    with pytest.raises(DataException, match=text):
        encoded(schema, value)


UNKNOWN = [
    (None, "values without a schema"),
    (array_schema(INT32_SCHEMA), "Unsupported root schema of type ARRAY"),
    (struct_schema({"a": array_schema(array_schema(INT32_SCHEMA))}, name="M"), "Array cannot be nested"),
    (struct_schema({"a": Schema(SchemaType.INT32, parameters={TAG: "x"})}, name="M"), "is not a number: x"),
    (
        struct_schema({"u": struct_schema({"a": OPTIONAL_INT32_SCHEMA}, name=f"{SPACE}.Union.c")}, name="M"),
        "has no number",
    ),
]


@pytest.mark.parametrize(("schema", "text"), UNKNOWN)
def test_a_schema_that_protobuf_does_not_express_is_refused(schema: Schema | None, text: str) -> None:
    with pytest.raises(DataException, match=text):
        data_of().text_of(schema)


def test_wrong_logical_values_are_refused() -> None:
    date = 'syntax = "proto3";\nimport "google/type/date.proto";\nmessage M {\n  google.type.Date d = 1;\n}\n'
    with pytest.raises(DataException, match="The date is invalid"):
        read(date, bytes.fromhex("000a0208 01".replace(" ", "")))
    time = date.replace("date", "timeofday").replace(".Date", ".TimeOfDay")
    with pytest.raises(DataException, match="The time of the day is invalid"):
        read(time, bytes.fromhex("000a020818"))
    schema = struct_schema({"d": DATE_SCHEMA}, name="M")
    with pytest.raises(DataException, match="should not have any time fields"):
        encoded(schema, Struct(schema, {"d": Instant(1)}))


def test_a_decimal_is_rounded_to_its_precision() -> None:
    text = 'syntax = "proto3";\nimport "confluent/type/decimal.proto";\nmessage M { confluent.type.Decimal d = 1; }'
    _, value = read(text, bytes.fromhex("000a080a0204d710031802"))  # fmt: skip
    assert isinstance(value, Struct) and value.values == [Decimal("12.4")]
