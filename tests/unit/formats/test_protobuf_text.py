"""Texts of .proto files: their canonical layout, what is refused and why, hostile texts."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

pytest.importorskip("google.protobuf")

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.language import MAX_IMPORT_DEPTH, ProtobufSchema, parse
from kcli.formats.protobuf.tokens import MAX_TEXT_CHARS
from kcli.formats.schemas import SchemaType, language_of

PROTO3 = 'syntax = "proto3";\n'

LAYOUT = r"""syntax = "proto2";
package shop.orders;

import "google/protobuf/descriptor.proto";
import public "google/protobuf/timestamp.proto";

option java_package = "a\'b\"c\\\n";

message Order {
  reserved 1, 5 to 10, 1000 to max;
  reserved "a", "b";

  option deprecated = true;

  required int32 x = 11 [
    deprecated = true,
    (note) = "n",
    default = 5,
    json_name = "ex"
  ];
  map<string, .shop.orders.Order.Line> lines = 12;

  oneof o {
    string s = 13;
~
    group G = 20 {
      optional int32 q = 1;
    }
  }

  repeated group Res = 14 {
    required string u = 1;
  }

  extensions 200 to 300;

  extend Order.Line {
    optional int32 e = 100;
  }

  message Line {
    required Kind kind = 1;
~
    extensions 100;
~
    enum Kind {
      reserved 4;
      option allow_alias = true;
      A = 0 [(label).text = "a"];
      B = 0;
    }
  }
}
message Label {
  optional string text = 1;
}
enum Single {
  E = -1;
}

extend google.protobuf.FieldOptions {
  optional string note = 50001;
}
extend google.protobuf.EnumValueOptions {
  optional Label label = 50002;
}

service Shop {
  option deprecated = true;

  rpc Buy (stream Order) returns (.shop.orders.Label) {
    option deprecated = true;
  };
  rpc Ask (Label) returns (stream Label);
}
""".replace("~", "  ")  # a blank line inside a nested declaration has its two spaces


def canonical(text: str, *, is_new: bool = True) -> str:
    return parse(text, {}, is_new=is_new).canonical


def test_the_layout_of_each_declaration() -> None:
    assert canonical(LAYOUT) == LAYOUT


def test_comments_and_spaces_are_dropped_and_declarations_are_grouped() -> None:
    text = """// head
    syntax = 'proto3' ; /* c */ enum E{A=0;} message M{oneof o{int32 b=2;}int32 a=1;;message N{} reserved 7;}
    import "google/protobuf/any.proto" ; package p;"""
    assert canonical(text) == (
        'syntax = "proto3";\npackage p;\n\nimport "google/protobuf/any.proto";\n\nmessage M {\n  reserved 7;\n\n'
        "  int32 a = 1;\n\n  oneof o {\n    int32 b = 2;\n  }\n\n  message N {}\n}\nenum E {\n  A = 0;\n}\n"
    )


@pytest.mark.parametrize(
    "given, printed",
    [
        ("\"a\" 'b'", '"ab"'),
        (r'"\x41\101\u00e9\q"', '"AAéq"'),
        (r'"\xff"', r'"\377"'),
        ("- 1.5e3", "-1.5e3"),
        ("[1, 2]", "[\n  1,\n  2\n]"),
        ("[1]", "[1]"),
        ("{}", "{\n}"),
        (
            "{a: 1; b {c: 'x'} b <c: 'y'>}",
            '{\n  a: 1,\n  b: [\n    {\n      c: "x"\n    },\n    {\n      c: "y"\n    }\n  ]\n}',
        ),
        ("{[a.b/c.D]: [TRUE, inf]}", "{\n  [a.b/c.D]: [\n    TRUE,\n    inf\n  ]\n}"),
    ],
)
def test_the_value_of_an_option(given: str, printed: str) -> None:
    assert canonical(f"option (x) = {given};", is_new=False) == f"\noption (x) = {printed};\n"


@pytest.mark.parametrize(
    "name", ["(a.b)", "(.a).b.c", "(a).(b.c).d", "features.enum_type", "features.(pb.x).y"]
)
def test_the_name_of_an_option(name: str) -> None:
    assert canonical(f"option {name} = A;", is_new=False) == f"\noption {name} = A;\n"


@pytest.mark.parametrize(
    ("kind", "number"),
    [("uint64", 2**64 - 1), ("fixed64", 2**64 - 1), ("int64", -(2**63)), ("uint32", 2**32 - 1)],
)
def test_a_default_may_be_the_last_number_of_its_type(kind: str, number: int) -> None:
    for text in (str(number), hex(number)):
        schema = parse(f"message M {{ optional {kind} a = 1 [default = {text}]; }}", {}, is_new=True)
        assert schema.descriptors()[-1].message_type[0].field[0].default_value == str(number)


def test_keywords_are_names_of_fields() -> None:
    words = (
        "message",
        "option",
        "enum",
        "reserved",
        "map",
        "group",
        "to",
        "rpc",
        "oneof",
        "extend",
        "stream",
        "max",
    )
    text = (
        PROTO3 + "\nmessage M {\n" + "".join(f"  string {w} = {n};\n" for n, w in enumerate(words, 1)) + "}\n"
    )
    assert canonical(text) == text


@pytest.mark.parametrize(
    "text, reason",
    [
        (PROTO3 + "message M { int32 a = 1.5; }", ":2:23: expected an integer"),
        (PROTO3 + "message M { int32 a = 0; }", "not between 1 and 536870911"),
        (PROTO3 + "message M { int32 a = 1; int32 a = 2; }", "duplicate field name"),
        (PROTO3 + "message M { int32 a = 1; int32 b = 1; }", "duplicate field number"),
        (PROTO3 + "message M { required int32 a = 1; }", "no required fields"),
        (PROTO3 + "message M { group G = 1 {} }", "no groups"),
        (PROTO3 + "message M { repeated map<string, string> a = 1; }", "a map cannot be repeated"),
        (PROTO3 + "message M { map<float, string> a = 1; }", "keys of type float"),
        (PROTO3 + "message M { oneof o { map<string, string> a = 1; } }", "neither a map"),
        (PROTO3 + "message M { oneof o { optional int32 a = 1; } }", "neither a map nor optional"),
        (PROTO3 + "message M { Nosuch a = 1; }", "Could not resolve type: Nosuch"),
        (PROTO3 + "message M {} message M {}", "M is defined twice"),
        (PROTO3 + "enum E { A = 1; }", "first value must be zero"),
        (PROTO3 + "message M {", "instead of the end|unexpected|expected"),
        (PROTO3 + "message M { reserved 5 to 3; }", "range from 5 to 3 is empty"),
        (PROTO3 + "message M { reserved a; }", "an integer of 32 bits instead of 'a'"),
        (PROTO3 + "package a; package b;", "two packages"),
        ("package a; " + PROTO3, "must be the first declaration"),
        ('syntax = "proto4";', "unknown syntax 'proto4'"),
        ('edition = "1999"; message M {}', "edition 1999 is unknown"),
        ('message M { optional int32 a = 1 [default = "x"]; }', "default of field a does not fit"),
        ("message M { optional int32 a = 1 [default = 1, default = 2]; }", "same option twice"),
        ("message M { optional int32 a = 1 [deprecated = 5]; }", "option deprecated"),
        ('import "nosuch.proto";', 'the import "nosuch.proto" is neither'),
        (r'import "\377.proto";', "a string is not UTF-8"),
        (r'message M { reserved "\377"; }', "a string is not UTF-8"),
        (r'message M { optional int32 a = 1 [json_name = "\377"]; }', "json_name of field a is not UTF-8"),
        ("option (a) = ;", "expected a value instead of ';'"),
        ("option (a) = {b 1};", "expected ':'"),
        ("extend Nosuch { optional int32 a = 1; }", "Could not resolve type: Nosuch"),
        ("service S { rpc A (Nosuch) returns (Nosuch); }", "Could not resolve type: Nosuch"),
        ("message M {} // \ud800", "not valid Unicode"),
        ("QUJD", "neither a .proto file nor a file descriptor"),
        ("\0", "unexpected"),
        ("message " + "M" * 256 + " {}", "more than 255 characters"),
    ],
)
def test_an_invalid_text_has_one_clear_error(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        parse(text, {}, is_new=True)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("x" * (MAX_TEXT_CHARS + 1), "the limit is"),
        (PROTO3 + "message M {" * 90_000, "nested more than 32 deep"),
        ("option (a) = " + "{a:" * 200_000, "nested more than 32 deep"),
        ("option (a) = " + "[" * 200_000, "nested more than 32 deep"),
        ("option (a)" + ".b" * 200_000 + " = 1;", "more than 32 parts"),
        (PROTO3 + "message M { int32 a = " + "9" * 500_000 + "; }", "an integer of 32 bits"),
        (PROTO3 + "message M { " + "a." * 200_000 + "b a = 1; }", "expected a type"),
        (PROTO3 + "/*" * 400_000, "unexpected"),
        (PROTO3 + '"' * 99_999, "unexpected"),
        ("A" * 1_000_000, "neither a .proto file"),
    ],
)
def test_a_hostile_text_ends_in_one_error(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as raised:
        parse(text, {}, is_new=True)
    assert len(str(raised.value)) < 500


def test_an_exponent_of_a_billion_is_not_written_out() -> None:
    text = PROTO3 + "\nmessage M {\n  int32 a = 1 [(x) = 1e999999999];\n}\n"
    assert parse(text, {}, is_new=True).normalized().canonical == text


def test_an_edition_has_features_and_names_without_quotes() -> None:
    text = (
        'edition = "2023";\npackage p;\n\noption features.enum_type = CLOSED;\n\nmessage A {\n  reserved foo, bar;\n'
        "  reserved 5 to 7;\n\n  int32 a = 1 [features.field_presence = IMPLICIT];\n  E e = 2;\n}\n"
        "enum E {\n  reserved x;\n  Z = 5;\n}\n"
    )
    schema = parse(text, {}, is_new=True)
    assert schema.canonical == text
    shown = parse(schema.in_format("serialized"), {}, is_new=True)
    assert "  reserved 5 to 7;\n  reserved foo;\n  reserved bar;\n" in shown.canonical
    assert shown.in_format("serialized") == schema.in_format("serialized")
    assert "  reserved 5 to 7;\n  reserved bar;\n  reserved foo;\n" in schema.normalized().canonical


def test_imports_are_found_by_path() -> None:
    resolved = {
        "a.proto": PROTO3 + 'package a; import "b.proto"; message A { b.B b = 1; }',
        "b.proto": "package b; message B {}",
    }
    schema = parse(PROTO3 + 'import "a.proto"; message M { a.A a = 1; b.B b = 2; }', resolved, is_new=True)
    assert [*schema.imports] == ["b.proto", "a.proto"]
    assert [file.name for file in schema.descriptors()] == ["b.proto", "a.proto", "default"]


def test_every_built_in_import_is_there() -> None:
    from kcli.formats.protobuf.known import KNOWN

    for path in sorted(KNOWN):
        parse(f'{PROTO3}import "{path}"; message M {{}}', {}, is_new=True)
    text = 'import "confluent/meta.proto"; message M { string a = 1 [(confluent.field_meta) = {doc: "d"}]; }'
    parse(PROTO3 + text, {}, is_new=True)


def test_cyclic_and_endless_imports_are_refused() -> None:
    cycle = {"a": 'import "b";', "b": 'import "a";'}
    chain = {f"c{nth}": f'import "c{nth + 1}";' for nth in range(MAX_IMPORT_DEPTH * 2)}
    with pytest.raises(FormatError, match='"a" imports itself: a -> b -> a'):
        parse('import "a";', cycle, is_new=False)
    with pytest.raises(FormatError, match=f"more than {MAX_IMPORT_DEPTH} files"):
        parse('import "c0";', chain, is_new=False)
    with pytest.raises(FormatError, match="more than 1000 files"):
        parse(
            "".join(f'import "f{nth}";' for nth in range(1001)),
            dict.fromkeys((f"f{n}" for n in range(1001)), ""),
            is_new=False,
        )


def test_a_stored_schema_may_lack_an_import_that_it_does_not_use() -> None:
    text = PROTO3 + 'import "gone.proto"; message M { int32 a = 1; }'
    assert parse(text, {}, is_new=False).in_format("serialized")
    with pytest.raises(FormatError, match=r"gone\.proto"):
        parse(text, {}, is_new=True)


def test_formats_and_equality() -> None:
    schema = parse(PROTO3 + "message M{int32 a=1[(x)=1];extensions 4;}", {}, is_new=False)
    assert schema.type is SchemaType.PROTOBUF
    assert schema.in_format("ignore_extensions") == PROTO3 + "\nmessage M {\n  int32 a = 1;\n}\n"
    assert schema.in_format("nosuch") == schema.in_format("") == schema.canonical
    assert schema.is_equal(parse(schema.canonical + "// comment", {}, is_new=False))
    assert not schema.is_equal(parse(PROTO3 + "message M { int32 b = 1; }", {}, is_new=True))
    parsed = language_of(SchemaType.PROTOBUF).parse(schema.canonical, {}, is_new=False)
    assert isinstance(parsed, ProtobufSchema)


@pytest.mark.parametrize(
    "broken, reason",
    [
        (lambda raw: raw.replace(b"shop", b"s\xffop"), "not UTF-8"),
        (lambda raw: raw.replace(b"\x03\x0a\x01a", b"\x03\x0a\x09a"), "custom option does not have its type"),
        (lambda raw: raw[:-3], "neither a"),
    ],
)
def test_a_broken_descriptor_has_one_clear_error(broken: Callable[[bytes], bytes], reason: str) -> None:
    raw = base64.b64decode(parse(LAYOUT, {}, is_new=True).in_format("serialized"))
    assert broken(raw) != raw
    with pytest.raises(FormatError, match=reason):
        parse(base64.b64encode(broken(raw)).decode(), {}, is_new=True)


def test_a_descriptor_with_invalid_names_has_one_clear_error() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="x", syntax="proto3", package="a; message Evil {} //")
    file.message_type.add(name="A\nB")
    with pytest.raises(FormatError, match="Could not parse Protobuf"):
        parse(base64.b64encode(file.SerializeToString()).decode(), {}, is_new=True)
