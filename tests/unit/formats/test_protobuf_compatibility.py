"""Compatibility of Protobuf schemas: each kind of change in both directions, with its path and its text."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

pytest.importorskip("google.protobuf")

from kcli.formats.protobuf.compatibility import Change
from kcli.formats.protobuf.language import parse
from kcli.formats.schemas import CompatibilityPolicy

PROTO3 = 'syntax = "proto3";\n'


def changes(
    reader: str, writer: str, imports: Mapping[str, str], writer_imports: Mapping[str, str]
) -> list[str]:
    """Returns the kinds and paths of what makes values of `writer` unreadable."""
    new = parse(reader, imports, is_new=True)
    old = parse(writer, writer_imports, is_new=True)
    return [f"{one.kind} {one.path}" for one in new.incompatibilities(old, CompatibilityPolicy.STRICT)]


def field(declaration: str) -> str:
    return f"{PROTO3}message M {{ {declaration} }} message O {{ int32 x = 1; }} enum E {{ Z = 0; }}"


def proto2(declaration: str) -> str:
    return f"message M {{ {declaration} }}"


CASES = {
    # what: (old, new, BACKWARD: new reads old, FORWARD: old reads new)
    "nothing": (field("int32 a = 1;"), field("int32 a = 1;"), [], []),
    "field added": (field(""), field("int32 a = 1;"), [], []),
    "field renamed": (field("int32 a = 1;"), field("int32 b = 1;"), [], []),
    "number changed": (field("int32 a = 1;"), field("int32 a = 2;"), [], []),
    "message added": (
        PROTO3 + "message M {}",
        PROTO3 + "message M {} message N {}",
        [],
        ["MESSAGE_REMOVED #/N"],
    ),
    "inner message added": (field(""), field("message I {}"), [], ["MESSAGE_REMOVED #/M/I"]),
    "messages reordered": (
        PROTO3 + "message A {} message B {}",
        PROTO3 + "message B {} message A {}",
        [],
        [],
    ),
    "message renamed": (
        PROTO3 + "message A {}",
        PROTO3 + "message B {}",
        ["MESSAGE_REMOVED #/A"],
        ["MESSAGE_REMOVED #/B"],
    ),
    "enum added": (PROTO3 + "message M {}", PROTO3 + "message M {} enum E { A = 0; }", [], []),
    "constants changed": (PROTO3 + "enum E { A = 0; B = 1; }", PROTO3 + "enum E { C = 0; D = 2; }", [], []),
    "package changed": (
        PROTO3 + "package a; message M {}",
        PROTO3 + "package b; message M {}",
        ["PACKAGE_CHANGED #/"],
        ["PACKAGE_CHANGED #/"],
    ),
    "package added": (
        PROTO3 + "message M {}",
        PROTO3 + "package b; message M {}",
        ["PACKAGE_CHANGED #/"],
        ["PACKAGE_CHANGED #/"],
    ),
    "varint types": (
        field("int32 a = 1; uint64 b = 2; bool c = 3;"),
        field("int64 a = 1; E b = 2; uint32 c = 3;"),
        [],
        [],
    ),
    "zigzag types": (field("sint32 a = 1;"), field("sint64 a = 1;"), [], []),
    "fixed types": (field("fixed32 a = 1; fixed64 b = 2;"), field("sfixed32 a = 1; sfixed64 b = 2;"), [], []),
    "text and bytes": (field("string a = 1;"), field("bytes a = 1;"), [], []),
    "repeated text": (proto2("optional string a = 1;"), proto2("repeated string a = 1;"), [], []),
    "label of a message": (field("O a = 1;"), field("repeated O a = 1;"), [], []),
    "options": (field("int32 a = 1;"), field("int32 a = 1 [deprecated = true];"), [], []),
    "enum to number": (field("E a = 1;"), field("int32 a = 1;"), [], []),
    "required added": (
        proto2(""),
        proto2("required int32 a = 1;"),
        ["REQUIRED_FIELD_ADDED #/M/1"],
        ["REQUIRED_FIELD_REMOVED #/M/1"],
    ),
    "oneof added": (field("int32 a = 1;"), field("int32 a = 1; oneof o { int32 b = 2; }"), [], []),
    "one field into a new oneof": (
        field("int32 a = 1;"),
        field("oneof o { int32 a = 1; int32 b = 2; }"),
        [],
        ["ONEOF_FIELD_REMOVED #/M/o/2"],
    ),
    "two fields into a oneof": (
        field("int32 a = 1; int32 b = 2;"),
        field("oneof o { int32 a = 1; int32 b = 2; }"),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
        [],
    ),
    "field into an old oneof": (
        field("int32 a = 1; oneof o { int32 b = 2; }"),
        field("oneof o { int32 a = 1; int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
        [],
    ),
    "two oneofs merged": (
        field("oneof o { int32 a = 1; } oneof p { int32 b = 2; }"),
        field("oneof o { int32 a = 1; int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
        [],
    ),
    "oneof renamed": (field("oneof o { int32 a = 1; }"), field("oneof p { int32 a = 1; }"), [], []),
    "member removed": (
        field("oneof o { int32 a = 1; int32 b = 2; }"),
        field("oneof o { int32 a = 1; }"),
        ["ONEOF_FIELD_REMOVED #/M/o/2"],
        [],
    ),
    "oneof removed": (field("oneof o { int32 a = 1; }"), field(""), [], []),
    "member with another type": (
        field("oneof o { int32 a = 1; }"),
        field("oneof o { string a = 1; }"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/o/1"],
        ["FIELD_SCALAR_KIND_CHANGED #/M/o/1"],
    ),
    "the same map": (field("map<string, O> a = 1;"), field("map<string, O> a = 1;"), [], []),
    "map as entries": (
        field("map<string, int32> a = 1;"),
        field(
            "repeated AEntry a = 1; message AEntry { option map_entry = true; string key = 1; int32 value = 2; }"
        ),
        [],
        [],
    ),
    "map values": (
        field("map<string, int32> a = 1;"),
        field("map<string, string> a = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
        ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
    ),
    "map keys": (
        field("map<int32, int32> a = 1;"),
        field("map<string, int64> a = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
        ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
    ),
    "group": (
        proto2("optional group G = 1 {}"),
        proto2("optional group G = 1 { optional int32 x = 1; }"),
        [],
        [],
    ),
    "group to message": (
        proto2("optional group G = 1 {}"),
        proto2("optional G g = 1; message G {}"),
        ["FIELD_KIND_CHANGED #/M/1"],
        ["FIELD_KIND_CHANGED #/M/1", "MESSAGE_REMOVED #/M/G"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_in_both_directions(name: str) -> None:
    old, new, backward, forward = CASES[name]
    assert (changes(new, old, {}, {}), changes(old, new, {}, {})) == (backward, forward)


KINDS = {
    "int32": "varint", "sint32": "zigzag", "fixed32": "fixed32", "fixed64": "fixed64", "float": "float",
    "double": "double", "string": "text", "O": "message", "map<int32, int32>": "map", "E": "varint",
    "sint64": "zigzag", "bytes": "text", "bool": "varint",
}  # fmt: skip


@pytest.mark.parametrize("old", KINDS)
def test_every_pair_of_types(old: str) -> None:
    for new in KINDS:
        scalars = {KINDS[old], KINDS[new]} & {"message", "map"} == set()
        kind = "FIELD_SCALAR_KIND_CHANGED" if scalars else "FIELD_KIND_CHANGED"
        expected = [] if KINDS[old] == KINDS[new] else [f"{kind} #/M/1"]
        assert changes(field(f"{new} a = 1;"), field(f"{old} a = 1;"), {}, {}) == expected, (old, new)


@pytest.mark.parametrize("scalar", ["int32", "sint64", "fixed32", "double", "bool"])
def test_a_repeated_number_is_not_a_single_one(scalar: str) -> None:
    one, many = proto2(f"optional {scalar} a = 1;"), proto2(f"repeated {scalar} a = 1;")
    assert changes(one, many, {}, {}) == changes(many, one, {}, {}) == ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"]


def test_types_of_imports_are_compared() -> None:
    schema = PROTO3 + 'import "h.proto"; message M { home.Home h = 1; home.Home again = 2; }'
    home = PROTO3 + "package home; message Home { int32 a = 1; repeated Home inner = 2; }"
    other = home.replace("int32", "string")
    assert changes(schema, schema, {"h.proto": home}, {"h.proto": home}) == []
    assert (
        changes(schema, schema, {"h.proto": other}, {"h.proto": home})[0]
        == "FIELD_SCALAR_KIND_CHANGED #/Home/1"
    )
    assert "FIELD_NAMED_TYPE_CHANGED #/M/1" in changes(schema, schema, {"h.proto": other}, {"h.proto": home})


def test_a_type_may_move_to_an_import_with_another_package() -> None:
    own = PROTO3 + "package p; message M { Home h = 1; } message Home { int32 a = 1; }"
    home = {"h.proto": PROTO3 + "package home; message Home { int32 a = 1; }"}
    imported = PROTO3 + 'package p; import "h.proto"; message M { home.Home h = 1; }'
    renamed = {"h.proto": home["h.proto"].replace("Home", "House")}
    assert changes(imported, own, home, {}) == ["MESSAGE_REMOVED #/Home"]
    assert changes(own, imported, {}, home) == []
    moved = imported.replace("home.Home", "home.House")
    assert changes(moved, imported, renamed, home) == ["FIELD_NAMED_TYPE_CHANGED #/M/1"]


def test_messages_may_contain_each_other() -> None:
    old = PROTO3 + "message A { B b = 1; } message B { A a = 1; int32 x = 2; }"
    assert changes(old.replace("int32", "string"), old, {}, {}) == ["FIELD_SCALAR_KIND_CHANGED #/B/2"]


def test_long_chains_and_cycles_of_imported_messages_are_compared() -> None:
    chain = "".join(f"message C{n} {{ C{n + 1} next = 1; C0 first = 2; }}" for n in range(3000))
    old = {"c.proto": f"{PROTO3} {chain} message C3000 {{ int32 last = 1; }}"}
    new = {"c.proto": old["c.proto"].replace("int32", "string")}
    schema = PROTO3 + 'import "c.proto"; message M { C0 c = 1; }'
    assert changes(schema, schema, old, old) == []
    found = changes(schema, schema, new, old)
    assert (found[0], found[-1]) == ("FIELD_SCALAR_KIND_CHANGED #/C3000/1", "FIELD_NAMED_TYPE_CHANGED #/M/1")
    assert len(found) == 6002


def test_the_text_of_a_change() -> None:
    new = parse(field("string a = 1;"), {}, is_new=True)
    (change,) = new.incompatibilities(
        parse(field("int32 a = 1;"), {}, is_new=True), CompatibilityPolicy.STRICT
    )
    assert change.message(reader="new", writer="old") == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path \'#/M/1\' in the '
        'new schema does not match its kind in the old schema"}'
    )


def test_every_kind_of_change_has_a_case() -> None:
    seen = {
        kind.split(" ")[0] for _, _, backward, forward in CASES.values() for kind in (*backward, *forward)
    }
    elsewhere = {"FIELD_NAMED_TYPE_CHANGED", "FIELD_NUMERIC_LABEL_CHANGED"}
    assert seen | elsewhere == {change.name for change in Change}
