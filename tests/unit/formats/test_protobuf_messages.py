"""Messages of a schema: their indexes, their values with well-known types, and their JSON."""

from __future__ import annotations

import base64
import datetime

import pytest

pytest.importorskip("google.protobuf")

from kcli.formats.codec import FormatError, Value
from kcli.formats.protobuf.codec import protobuf_codec
from kcli.formats.protobuf.json_text import from_json, to_json
from kcli.formats.protobuf.language import parse
from kcli.formats.protobuf.messages import message_indexes, message_name, message_type

KNOWN = ("timestamp", "duration", "struct", "any", "wrappers", "field_mask")
SCHEMA = parse(
    'syntax = "proto3"; package p;'
    + "".join(f'import "google/protobuf/{name}.proto";' for name in KNOWN)
    + """
    message M {
      google.protobuf.Timestamp at = 1; google.protobuf.Duration span = 2; google.protobuf.Struct plain = 3;
      google.protobuf.Any any = 4; google.protobuf.Int64Value wrapped = 5; google.protobuf.Value json_value = 6;
      google.protobuf.FieldMask mask = 7; google.protobuf.ListValue list = 8;
    }
    message N {
      double d = 7; float f = 8; int64 big_one = 9; bytes b = 10; map<int32, string> m = 11; E e = 12;
      optional int32 o = 13; repeated N n = 14; oneof x { string y = 15; int32 z = 16; } uint32 first = 1;
      enum E { A = 0; B = 1; }
      message Inner { message Deep {} }
    }
    """,
    {},
    is_new=True,
)
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)


def test_messages_have_indexes() -> None:
    names = {(0,): "p.M", (1,): "p.N", (1, 0): "p.N.Inner", (1, 0, 0): "p.N.Inner.Deep"}
    for indexes, name in names.items():
        assert message_name(SCHEMA, indexes) == name
        assert message_indexes(SCHEMA, name) == indexes
    assert message_name(SCHEMA, ()) == message_name(SCHEMA) == "p.M"


@pytest.mark.parametrize("indexes", [(2,), (0, 0), (-1,), (1, 0, 0, 0)])
def test_indexes_of_no_message(indexes: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match="no message with the indexes"):
        message_name(SCHEMA, indexes)


def test_names_of_no_message() -> None:
    for name in ("p.Nosuch", "M.N", "p.N.E"):
        with pytest.raises(FormatError, match=f"no message {name}"):
            message_indexes(SCHEMA, name)
    with pytest.raises(FormatError, match=r"no message p\.Nosuch"):
        message_type(SCHEMA, "p.Nosuch")


def test_a_file_of_one_public_import_has_the_messages_of_the_import() -> None:
    schema = parse(
        'import public "a.proto";', {"a.proto": "package a; message A {} message B {}"}, is_new=True
    )
    assert (message_name(schema, (1,)), message_indexes(schema, "a.B")) == ("a.B", (1,))


def test_map_entries_of_a_descriptor_have_indexes_too() -> None:
    # protoc counts the entries of maps, and clients in Python register descriptors of protoc.
    text = "message M { map<string, string> a = 1; message N {} }"
    assert message_indexes(parse(text, {}, is_new=True), "M.N") == (0, 0)
    serialized = parse(text, {}, is_new=True).in_format("serialized")
    assert message_indexes(parse(serialized, {}, is_new=True), "M.N") == (0, 1)


VALUES: dict[str, Value] = {
    "at": AT,
    "span": datetime.timedelta(days=-3, microseconds=5),
    "plain": {"a": [1.5, None, {"b": True}], "c": "x"},
    "any": {"@type": "type.googleapis.com/p.N.Inner"},
    "wrapped": 1 << 40,
    "json_value": "text",
    "mask": {"paths": ["a.b"]},
    "list": [False, [], {}],
}


def test_well_known_messages_are_plain_values() -> None:
    codec = protobuf_codec(message_type(SCHEMA))
    assert codec.decode(codec.encode(VALUES)) == VALUES
    assert codec.decode(b"") == dict.fromkeys(VALUES)
    wrapped: Value = {
        "any": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": VALUES["span"]}
    }
    decoded = codec.decode(codec.encode(wrapped))
    assert isinstance(decoded, dict) and isinstance(wrapped, dict) and decoded["any"] == wrapped["any"]


def test_an_any_of_an_unknown_type_keeps_its_bytes() -> None:
    codec = protobuf_codec(message_type(SCHEMA))
    unknown: Value = {"type_url": "x/nosuch", "value": b"\x08\x01"}
    decoded = codec.decode(codec.encode({"any": unknown}))
    assert isinstance(decoded, dict) and decoded["any"] == unknown


@pytest.mark.parametrize(
    "value, reason",
    [
        ({"span": 5}, r"field p\.M\.span: expected a time span"),
        ({"plain": [1]}, r"field p\.M\.plain: expected JSON for Struct"),
        ({"json_value": b""}, "expected JSON for Value"),
        ({"any": {"@type": "x/nosuch"}}, "no message x/nosuch"),
    ],
)
def test_a_value_that_does_not_fit_a_well_known_message(value: Value, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        protobuf_codec(message_type(SCHEMA)).encode(value)


def test_times_out_of_range() -> None:
    message = message_type(SCHEMA)
    for field in ("at", "span"):
        hostile = message()
        getattr(hostile, field).seconds = 1 << 62
        with pytest.raises(ValueError, match=r"date|too long"):
            protobuf_codec(message).decode(hostile.SerializeToString())
        with pytest.raises(ValueError):
            to_json(hostile)


def test_json_has_defaults_and_the_order_of_numbers() -> None:
    message = message_type(SCHEMA, "p.N")
    assert to_json(message()) == ('{"first":0,"d":0.0,"f":0.0,"bigOne":"0","b":"","m":{},"e":"A","n":[]}')
    one = message(
        d=1e10, f=0.1, big_one=-5, b=b"\xff", m={7: "<'>"}, e=1, o=0, n=[message(z=0)], first=4_000_000_000
    )
    one.n[0].e = 7
    text = to_json(one, keeps_names=True)
    assert text == (
        '{"first":4000000000,"d":1.0E10,"f":0.1,"big_one":"-5","b":"/w==","m":{"7":"\\u003c\\u0027\\u003e"},"e":"B","o":0,'
        '"n":[{"first":0,"d":0.0,"f":0.0,"big_one":"0","b":"","m":{},"e":7,"n":[],"z":0}]}'
    )
    assert from_json(text, message) == one
    assert to_json(message(d=float("nan"), f=float("-inf"))).startswith(
        '{"first":0,"d":"NaN","f":"-Infinity"'
    )


def test_json_of_well_known_messages() -> None:
    message = message_type(SCHEMA)
    one = message.FromString(protobuf_codec(message).encode(VALUES))
    text = to_json(one)
    assert text == (
        '{"at":"2026-01-02T03:04:05.678Z","span":"-259199.999995s","plain":{"a":[1.5,null,{"b":true}],"c":"x"},'
        '"any":{"@type":"type.googleapis.com/p.N.Inner"},"wrapped":"1099511627776","jsonValue":"text",'
        '"mask":"a.b","list":[false,[],{}]}'
    )
    assert from_json(text, message) == one


def test_json_of_proto2_has_the_defaults_of_optional_fields() -> None:
    message = message_type(
        parse("message M { optional int32 a = 1 [default = 5]; optional M m = 2; }", {}, is_new=True)
    )
    assert to_json(message()) == '{"a":5}'


@pytest.mark.parametrize(
    "text", ["", "[]", '{"nosuch":1}', '{"o":"x"}', '{"n":' * 200, '{"first":-1}', '{"e":"C"}']
)
def test_json_that_does_not_fit(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text, message_type(SCHEMA, "p.N"))


def test_custom_options_go_into_the_descriptor_and_come_back() -> None:
    text = (
        'syntax = "proto3";\n\nimport "confluent/meta.proto";\nimport "google/protobuf/descriptor.proto";\n\n'
        'message M {\n  option (confluent.message_meta) = {\n    doc: "d",\n    params: [\n      {\n'
        '        value: "2",\n        key: "scale"\n      }\n    ],\n    tags: [\n      "T"\n    ]\n  };\n'
        '  option (text) = "x";\n\n  int32 a = 1 [deprecated = true];\n}\n\n'
        "extend .google.protobuf.MessageOptions {\n  string text = 50000;\n}\n"
    )
    schema = parse(text, {}, is_new=True)
    assert parse(schema.in_format("serialized"), {}, is_new=True).canonical == schema.canonical == text
    assert "option (confluent" in schema.in_format("ignore_extensions")
    assert "(text)" not in schema.in_format("ignore_extensions")
    with pytest.raises(FormatError, match=r"option \(text\)"):
        parse(text.replace('"x"', "5"), {}, is_new=True)


def test_maps_in_options_keep_their_order() -> None:
    keys = ["z", "scale", "a", "m", "", "precision", "b"]
    params = "".join(f'params {{ key: "{key}" value: "{nth}" }} ' for nth, key in enumerate(keys))
    text = f'import "confluent/meta.proto"; message M {{ option (confluent.message_meta) = {{ {params} }}; }}'
    serialized = parse(text, {}, is_new=True).in_format("serialized")
    shown = parse(serialized, {}, is_new=True).canonical
    places = [shown.index(f'value: "{nth}"') for nth in range(len(keys))]
    assert places == sorted(places)


def test_confluents_client_reads_the_serialized_form() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(base64.b64decode(SCHEMA.in_format("serialized")))
    assert (file.name, file.package, len(file.dependency)) == ("default", "p", len(KNOWN))


def test_confluents_client_registers_and_reads_these_schemas() -> None:
    client = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    message = message_type(SCHEMA, "p.N")
    registered = parse(client._schema_to_str(message.DESCRIPTOR.file), {}, is_new=True)
    names = ("p.M", "p.N", "p.N.Inner", "p.N.Inner.Deep")
    pool = message.DESCRIPTOR.file.pool
    for name in names:
        indexes = client._create_index_array(pool.FindMessageTypeByName(name))
        assert message_name(registered, indexes) == name
    assert client._str_to_proto("x", registered.in_format("serialized")).message_type[1].name == "N"
    one = message(d=1.5, m={7: "seven"}, y="text")
    assert message_type(registered, "p.N").FromString(one.SerializeToString()).m[7] == "seven"
