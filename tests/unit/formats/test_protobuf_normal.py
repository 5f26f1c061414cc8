"""The normal form of Protobuf schemas."""

from __future__ import annotations

import pytest

pytest.importorskip("google.protobuf")

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.language import parse

PROTO3 = 'syntax = "proto3";\n'


def normal(text: str) -> str:
    schema = parse(text, {}, is_new=False).normalized()
    assert schema.normalized().canonical == schema.canonical
    assert parse(schema.canonical, {}, is_new=False).normalized().canonical == schema.canonical
    return schema.canonical


def test_members_are_sorted_and_types_have_full_names() -> None:
    text = """syntax = "proto2";
    package a.b;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto"; import "google/protobuf/any.proto";
    option java_package = "z"; option go_package = "y";
    message M {
      reserved "b", "a", 9, 4 to 6, 5 to 5;
      optional N n = 3; required string s = 1; optional google.protobuf.Any any = 2;
      oneof late { int32 l = 20; } oneof empty {} oneof early { int32 k = 12; int32 j = 11; }
      map<string, N> m = 30;
      extensions 120 to max, 100; extensions 110;
      message N { enum E { B = 1; C = 1; A = 0; option allow_alias = true; } optional E e = 1 [default = B]; }
    }
    extend M { optional M.N x = 120; } extend .a.b.M { optional int32 w = 100; }
    service S { rpc Z (M) returns (M.N); rpc A (M) returns (M); }
    """
    assert normal(text) == (
        "package a.b;\n\n"
        'import "google/protobuf/any.proto";\nimport "google/protobuf/timestamp.proto";\n\n'
        'option go_package = "y";\noption java_package = "z";\n\n'
        "message M {\n"
        '  reserved 4 to 6;\n  reserved 5;\n  reserved 9;\n  reserved "a";\n  reserved "b";\n\n'
        "  required string s = 1;\n  optional .google.protobuf.Any any = 2;\n  optional .a.b.M.N n = 3;\n"
        "  map<string, .a.b.M.N> m = 30;\n\n"
        "  oneof early {\n    int32 j = 11;\n    int32 k = 12;\n  }\n  oneof late {\n    int32 l = 20;\n  }\n\n"
        "  extensions 100;\n  extensions 110;\n  extensions 120 to max;\n\n"
        "  message N {\n    optional .a.b.M.N.E e = 1 [default = B];\n  \n"
        "    enum E {\n      option allow_alias = true;\n      A = 0;\n      B = 1;\n      C = 1;\n    }\n  }\n}\n\n"
        "extend .a.b.M {\n  optional int32 w = 100;\n  optional .a.b.M.N x = 120;\n}\n\n"
        "service S {\n  rpc Z (.a.b.M) returns (.a.b.M.N);\n  rpc A (.a.b.M) returns (.a.b.M);\n}\n"
    )


def test_map_entries_become_maps() -> None:
    entries = """message M {
      message AEntry { option map_entry = true; optional string key = 1; optional .M.V value = 2; }
      message V {}
      repeated AEntry a = 1;
    }"""
    assert normal(entries) == normal("message M { map<string, V> a = 1; message V {} }")


OPTIONS = """syntax = "proto3";
package p;
import "google/protobuf/descriptor.proto";
message Box { int32 a = 1; repeated int32 many = 2; Box inner = 3; }
extend google.protobuf.FieldOptions { Box box = 50000; repeated Box boxes = 50001; string text = 50002; }
message M { int32 f = 1 [%s]; }
"""


@pytest.mark.parametrize(
    "options, printed",
    [
        ('deprecated = true, (text) = "b", (text) = "c"', '[\n    deprecated = true,\n    (p.text) = "c"\n  ]'),
        ("(box).a = 1", "[(p.box) = {\n    a: 1\n  }]"),
        ("(.p.box).a = 1, (box).inner.a = 2, (p.box).inner.many = 3, (box).many = 4, (box).many = 5",
         ("[(p.box) = {\n    a: 1,\n    inner: {\n      a: 2,\n      many: 3\n    },\n    many: [\n      4,\n      5\n"
         "    ]\n  }]")),
        ("(box).a = 1, (box).a = 2", "[(p.box) = {\n    a: 2\n  }]"),
        ("(boxes) = {many: [], a: 1}, (boxes) = {many: [1], inner {}}",
         ("[\n    (p.boxes) = {\n      a: 1\n    },\n    (p.boxes) = {\n      inner: {\n      },\n      many: 1\n"
         "    }\n  ]")),
        ("(nosuch) = 1e3, (nosuch).b = 0x1F", "[\n    (nosuch) = 1000,\n    (nosuch).b = 31\n  ]"),
        ("(box).a = 010", "[(p.box) = {\n    a: 8\n  }]"),
        ("(x) = 1.500, (y) = 0.123456, (z) = -inf", "[\n    (x) = 1.5,\n    (y) = 0.123456,\n    (z) = -inf\n  ]"),
    ],
)  # fmt: skip
def test_options_are_merged_by_their_full_names(options: str, printed: str) -> None:
    assert f"int32 f = 1 {printed};" in normal(OPTIONS % options)


def test_extension_names_in_blocks_are_resolved() -> None:
    text = (
        OPTIONS.replace("extend", "extend Box { int32 more = 100; } extend", 1)
        % "(box) = {[more]: 1, [other]: 2}"
    )
    assert "(p.box) = {\n    [other]: 2,\n    [p.more]: 1\n  }" in normal(text)


def test_names_are_looked_for_from_the_inside_out() -> None:
    fields = "optional T x = 1; optional b.T y = 2; optional .a.b.T z = 3;"
    written = normal(f"package a.b; message T {{}} message M {{ message T {{}} {fields} }}")
    for name, field in (("M.T", "x"), ("T", "y"), ("T", "z")):
        assert f"optional .a.b.{name} {field}" in written


def test_an_unknown_type_has_no_normal_form() -> None:
    with pytest.raises(FormatError, match="Could not resolve type: Nosuch"):
        parse("message M { optional Nosuch a = 1; }", {}, is_new=False)
