"""Every kind of change in the three languages under all seven levels, after one version and after two.

A row says whether the new schema reads values of the old one (backward), and the old schema those of the new one
(forward). The seven levels and both histories follow from these two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate, SchemaDefinition
from kcli.registry.decisions.compatibility import incompatibilities
from kcli.registry.decisions.configs import Level
from kcli.registry.decisions.matching import candidate_of
from kcli.registry.decisions.scopes import update_config
from rigs.small_schemas import Topic

YES, NO = True, False


class Row(NamedTuple):
    """A change and whether it is compatible backward and forward, and with the policy LENIENT of JSON Schema."""

    change: str
    old: str
    new: str
    backward: bool
    forward: bool
    lenient_backward: bool | None = None
    lenient_forward: bool | None = None


def record(*fields: object, name: str = "R", **members: object) -> str:
    named = [
        {"name": f"f{index}", "type": field} if isinstance(field, str | list) else field
        for index, field in enumerate(fields)
    ]
    return json.dumps({"type": "record", "name": name, "fields": named, **members})


def field(name: str, kind: object, **members: object) -> dict[str, object]:
    return {"name": name, "type": kind, **members}


def enum(*symbols: str, **members: object) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": symbols, **members})


def fixed(size: int, name: str = "F") -> str:
    return json.dumps({"type": "fixed", "name": name, "size": size})


INT, TEXT = field("a", "int"), field("b", "string")
TEXT_OR_EMPTY = field("b", "string", default="")
NULL_OR_INT = record(["null", "int"])
NODE = '{"type":"record","name":"N","fields":[{"name":"v","type":"%s"},{"name":"n","type":["null","N"]}]}'

AVRO = (
    Row("nothing", record(INT), record(INT), YES, YES),
    Row("add a field with a default", record(INT), record(INT, TEXT_OR_EMPTY), YES, YES),
    Row("add a field without a default", record(INT), record(INT, TEXT), NO, YES),
    Row("remove a field with a default", record(INT, TEXT_OR_EMPTY), record(INT), YES, YES),
    Row("remove a field without a default", record(INT, TEXT), record(INT), YES, NO),
    Row("rename a field", record(INT), record(field("x", "int")), NO, NO),
    Row("rename a field, with an alias", record(INT), record(field("x", "int", aliases=["a"])), YES, NO),
    Row("move a field", record(INT, TEXT), record(TEXT, INT), YES, YES),
    Row("add a default", record(INT), record(field("a", "int", default=1)), YES, YES),
    Row("change a default", record(TEXT_OR_EMPTY), record(field("b", "string", default="x")), YES, YES),
    Row("int to long", record("int"), record("long"), YES, NO),
    Row("int to float", record("int"), record("float"), YES, NO),
    Row("int to double", record("int"), record("double"), YES, NO),
    Row("long to float", record("long"), record("float"), YES, NO),
    Row("float to double", record("float"), record("double"), YES, NO),
    Row("long to int", record("long"), record("int"), NO, YES),
    Row("string to bytes", record("string"), record("bytes"), YES, YES),
    Row("int to string", record("int"), record("string"), NO, NO),
    Row("int to boolean", record("int"), record("boolean"), NO, NO),
    Row("a primitive to a wider one", '"int"', '"long"', YES, NO),
    Row("a type to a union with it", record("int"), NULL_OR_INT, YES, NO),
    Row("a union to one of its types", NULL_OR_INT, record("int"), NO, YES),
    Row("add a type to a union", NULL_OR_INT, record(["null", "int", "string"]), YES, NO),
    Row("remove a type from a union", record(["null", "int", "string"]), NULL_OR_INT, NO, YES),
    Row("reorder a union", NULL_OR_INT, record(["int", "null"]), YES, YES),
    Row("widen a type of a union", NULL_OR_INT, record(["null", "long"]), YES, NO),
    Row("a type to a union without it", record("string"), record(["null", "int"]), NO, NO),
    Row("add a symbol", enum("A"), enum("A", "B"), YES, NO),
    Row("add a symbol, with a default", enum("A", default="A"), enum("A", "B", default="A"), YES, YES),
    Row("remove a symbol", enum("A", "B"), enum("A"), NO, YES),
    Row("remove a symbol, with a default", enum("A", "B"), enum("A", default="A"), YES, YES),
    Row("reorder symbols", enum("A", "B"), enum("B", "A"), YES, YES),
    Row("rename an enum", enum("A"), enum("A").replace('"E"', '"X"'), NO, NO),
    Row("change the size of a fixed", fixed(4), fixed(8), NO, NO),
    Row("rename a fixed", fixed(4), fixed(4, "X"), NO, NO),
    Row("rename a record", record(INT), record(INT, name="X"), NO, NO),
    Row("rename a record, with an alias", record(INT), record(INT, name="X", aliases=["R"]), YES, NO),
    Row("change a namespace", record(INT), record(INT, namespace="x"), YES, YES),
    Row("a record to a primitive", record(INT), '"int"', NO, NO),
    Row("widen items", '{"type":"array","items":"int"}', '{"type":"array","items":"long"}', YES, NO),
    Row("widen values", '{"type":"map","values":"int"}', '{"type":"map","values":"long"}', YES, NO),
    Row("an array to a map", '{"type":"array","items":"int"}', '{"type":"map","values":"int"}', NO, NO),
    Row("add a logical type", '"long"', '{"type":"long","logicalType":"timestamp-millis"}', YES, YES),
    Row("add a doc", record(INT), record(INT, doc="x"), YES, YES),
    Row("add an order", record(INT), record(field("a", "int", order="descending")), YES, YES),
    Row("add a property", record(INT), record(INT, owner="x"), YES, YES),
    Row("widen a recursive record", NODE % "int", NODE % "long", YES, NO),
    Row("change a recursive record", NODE % "int", NODE % "string", NO, NO),
)


def schema(properties: Mapping[str, object], *required: str, **members: object) -> str:
    names = {"required": list(required)} if required else {}
    return json.dumps({"type": "object", "properties": properties, **names, **members})


def closed(properties: Mapping[str, object], *required: str) -> str:
    return schema(properties, *required, additionalProperties=False)


def partial(properties: Mapping[str, object], *required: str) -> str:
    return schema(properties, *required, additionalProperties={"type": "string"})


def typed(kind: str, **members: object) -> str:
    return json.dumps({"type": kind, **members})


NUMBER, STRING = {"type": "number"}, {"type": "string"}
ONE = {"a": NUMBER}
TWO, TWO_DEFAULT = {"a": NUMBER, "b": STRING}, {"a": NUMBER, "b": {"type": "string", "default": ""}}
ANY_OF, WIDER = (
    json.dumps({"anyOf": [STRING, NUMBER]}),
    json.dumps({"anyOf": [STRING, NUMBER, {"type": "null"}]}),
)

JSON = (
    Row("nothing", schema(ONE), schema(ONE), YES, YES, YES, YES),
    Row("open: add an empty property", schema(ONE), schema({"a": NUMBER, "b": {}}), YES, YES, YES, YES),
    Row("open: add a property", schema(ONE), schema(TWO), NO, YES, YES, YES),
    Row("open: add a required property", schema(ONE), schema(TWO, "b"), NO, YES, NO, YES),
    Row("open: add a required default", schema(ONE), schema(TWO_DEFAULT, "b"), NO, YES, YES, YES),
    Row("closed: add a property", closed(ONE), closed(TWO), YES, NO, YES, YES),
    Row("closed: add a required property", closed(ONE), closed(TWO, "b"), NO, NO, NO, YES),
    Row("closed: add a required default", closed(ONE), closed(TWO_DEFAULT, "b"), YES, NO, YES, YES),
    Row("partial: add a covered property", partial(ONE), partial(TWO), YES, YES, YES, YES),
    Row("partial: add another property", partial(ONE), partial({"a": NUMBER, "b": NUMBER}), NO, NO, NO, NO),
    Row("require a property", schema(TWO), schema(TWO, "b"), NO, YES, NO, YES),
    Row("require a property with a default", schema(TWO_DEFAULT), schema(TWO_DEFAULT, "b"), YES, YES, YES, YES),
    Row("open to closed", schema(ONE), closed(ONE), NO, YES, YES, YES),
    Row("open to partial", schema(ONE), partial(ONE), NO, YES, YES, YES),
    Row("integer to number", typed("integer"), typed("number"), YES, NO, YES, NO),
    Row("string to number", typed("string"), typed("number"), NO, NO, NO, NO),
    Row("change words", typed("string", title="x"), typed("string", description="y"), YES, YES, YES, YES),
    Row("raise maxLength", typed("string", maxLength=3), typed("string", maxLength=4), YES, NO, YES, NO),
    Row("add maxLength", typed("string"), typed("string", maxLength=4), NO, YES, NO, YES),
    Row("lower minLength", typed("string", minLength=3), typed("string", minLength=2), YES, NO, YES, NO),
    Row("remove a pattern", typed("string", pattern="a"), typed("string"), YES, NO, YES, NO),
    Row("change a pattern", typed("string", pattern="a"), typed("string", pattern="b"), NO, NO, NO, NO),
    Row("raise maximum", typed("number", maximum=3), typed("number", maximum=4), YES, NO, YES, NO),
    Row("lower minimum", typed("number", minimum=3), typed("number", minimum=2), YES, NO, YES, NO),
    Row("reduce multipleOf", typed("number", multipleOf=4), typed("number", multipleOf=2), YES, NO, YES, NO),
    Row("change multipleOf", typed("number", multipleOf=4), typed("number", multipleOf=3), NO, NO, NO, NO),
    Row("add an enum value", '{"enum":["a"]}', '{"enum":["a","b"]}', YES, NO, YES, NO),
    Row("change an enum value", '{"enum":["a"]}', '{"enum":["b"]}', NO, NO, NO, NO),
    Row("raise maxItems", typed("array", maxItems=3), typed("array", maxItems=4), YES, NO, YES, NO),
    Row("remove uniqueItems", typed("array", uniqueItems=True), typed("array"), YES, NO, YES, NO),
    Row("raise maxProperties", schema(ONE, maxProperties=3), schema(ONE, maxProperties=4), YES, NO, YES, NO),
    Row("widen items", typed("array", items={"type": "integer"}), typed("array", items=NUMBER), YES, NO, YES, NO),
    Row("a type to anyOf with it", json.dumps(STRING), ANY_OF, YES, NO, YES, NO),
    Row("extend anyOf", ANY_OF, WIDER, YES, NO, YES, NO),
    Row("reorder anyOf", ANY_OF, '{"anyOf":[{"type":"number"},{"type":"string"}]}', YES, YES, YES, YES),
    Row("oneOf to anyOf", ANY_OF.replace("anyOf", "oneOf"), ANY_OF, YES, NO, YES, NO),
)  # fmt: skip


def message(*lines: str, head: str = "", tail: str = "") -> str:
    return f'syntax = "proto3"; package p; {head} message M {{ {" ".join(lines)} }} {tail}'


def proto2(*lines: str) -> str:
    return message(*lines).replace("proto3", "proto2")


A, B = "int32 a = 1;", "string b = 2;"
ONE_OF, ONE_OF_TWO = "oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 c = 3; }"
N = "message N { int32 x = 1; }"
N_TEXT = N.replace("int32", "string")

PROTOBUF = (
    Row("nothing", message(A), message(A), YES, YES),
    Row("add a field", message(A), message(A, B), YES, YES),
    Row("rename a field", message(A), message("int32 z = 1;"), YES, YES),
    Row("renumber a field", message(A), message("int32 a = 5;"), YES, YES),
    Row("change the package", message(A), message(A).replace("package p", "package q"), NO, NO),
    Row("int32 to int64", message(A), message("int64 a = 1;"), YES, YES),
    Row("int32 to bool", message(A), message("bool a = 1;"), YES, YES),
    Row("sint32 to sint64", message("sint32 a = 1;"), message("sint64 a = 1;"), YES, YES),
    Row("int32 to sint32", message(A), message("sint32 a = 1;"), NO, NO),
    Row("string to bytes", message(B), message("bytes b = 2;"), YES, YES),
    Row("fixed32 to sfixed32", message("fixed32 a = 1;"), message("sfixed32 a = 1;"), YES, YES),
    Row("fixed64 to sfixed64", message("fixed64 a = 1;"), message("sfixed64 a = 1;"), YES, YES),
    Row("fixed32 to fixed64", message("fixed32 a = 1;"), message("fixed64 a = 1;"), NO, NO),
    Row("float to double", message("float a = 1;"), message("double a = 1;"), NO, NO),
    Row("int32 to string", message(A), message("string a = 1;"), NO, NO),
    Row("a scalar to a message", message(A, tail=N), message("N a = 1;", tail=N), NO, NO),
    Row("a scalar to a map", message(A), message("map<string, int32> a = 1;"), NO, NO),
    Row("optional to repeated", message("optional int32 a = 1;"), message("repeated int32 a = 1;"), NO, NO),
    # Confluent's registry compares labels only if both fields have one.
    Row("a number to numbers", message(A), message("repeated int32 a = 1;"), YES, YES),
    Row("a string to strings", message(B), message("repeated string b = 2;"), YES, YES),
    Row("another message", message("N a = 1;", tail=N), message("O a = 1;", tail=N + " message O {}"), NO, NO),
    Row("add a message", message(A), message(A, tail=N), YES, NO),
    Row("remove a message", message(A, tail=N), message(A), NO, YES),
    Row("add an enum", message(A), message(A, tail="enum E { Z = 0; }"), YES, YES),
    Row("add a constant", message(A, "enum E { Z = 0; }"), message(A, "enum E { Z = 0; Y = 1; }"), YES, YES),
    Row("a field into a new oneof", message(A), message(ONE_OF), YES, YES),
    Row("fields into a new oneof", message(A, B), message("oneof o { int32 a = 1; string b = 2; }"), NO, YES),
    Row("add to a oneof", message(ONE_OF), message(ONE_OF_TWO), YES, NO),
    Row("remove a oneof", message(A, "oneof o { string b = 2; }"), message(A), YES, YES),
    Row("add a required field", proto2("optional int32 a = 1;"), proto2("required int32 c = 3;"), NO, NO),
    Row("change a nested field", message("N a = 1;", tail=N), message("N a = 1;", tail=N_TEXT), NO, NO),
)  # fmt: skip

ROWS = [
    (kind, row) for kind, rows in (("AVRO", AVRO), ("JSON", JSON), ("PROTOBUF", PROTOBUF)) for row in rows
]


@pytest.fixture
def small_languages() -> None:
    """Takes the place of the fixture that all other modules of this folder use."""


def compatible_levels(topic: Topic, kind: str, new: str, policy: str) -> set[Level]:
    definition = SchemaDefinition(new, kind)
    candidate = candidate_of(topic.rules, "s", definition, is_new=False, normalize=False)
    versions = topic.rules.state.live_versions("s")
    return {
        level
        for level in Level
        if not incompatibilities(
            topic.rules.parser,
            ConfigDocument(compatibility_level=level, compatibility_policy=policy),
            candidate,
            versions,
        )
    }


def expected_levels(*, backward: bool, forward: bool, transitive_only: bool) -> set[Level]:
    return {
        level
        for level in Level
        if level is Level.NONE
        or (transitive_only and not level.is_transitive)
        or ((backward or not level.is_backward) and (forward or not level.is_forward))
    }


@pytest.mark.parametrize(("kind", "row"), ROWS, ids=[f"{kind}: {row.change}" for kind, row in ROWS])
def test_a_change_is_compatible_at_its_levels(topic: Topic, kind: str, row: Row) -> None:
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"compatibility": "NONE"})))
    for transitive_only, text in ((False, row.old), (True, row.new)):
        topic.post("s", text, schemaType=kind)
        strict = expected_levels(backward=row.backward, forward=row.forward, transitive_only=transitive_only)
        assert compatible_levels(topic, kind, row.new, "STRICT") == strict
        if row.lenient_backward is not None and row.lenient_forward is not None:
            lenient = expected_levels(
                backward=row.lenient_backward, forward=row.lenient_forward, transitive_only=transitive_only
            )
            assert compatible_levels(topic, kind, row.new, "LENIENT") == lenient
