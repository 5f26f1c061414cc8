"""Which Avro schemas can read which: each row of the registry's rules in both directions, and the messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.formats.avro import compatibility
from kcli.formats.avro.language import parse
from kcli.formats.schemas import CompatibilityPolicy, Incompatibility


def reasons(reader: Any, writer: Any) -> tuple[Incompatibility, ...]:
    one, other = (parse(json.dumps(declared), {}, is_new=False) for declared in (reader, writer))
    return one.incompatibilities(other, CompatibilityPolicy.STRICT)


def kinds(reader: Any, writer: Any) -> list[str]:
    return [f"{reason.kind} {reason.path}" for reason in reasons(reader, writer)]


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


A, B = field("a", "int"), field("b", "int")
OLD = record(A)
DATED = field("a", {"type": "int", "logicalType": "date", "p": 1}, doc="d", order="ignore")
# The old schema, the new one, and the reasons of BACKWARD and of FORWARD.
CHANGES: dict[str, tuple[Any, Any, list[str], list[str]]] = {
    "add field with default": (OLD, record(A, field("b", "int", default=1)), [], []),
    "add field without default": (OLD, record(A, B), ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"], []),
    "remove field with default": (record(A, field("b", "int", default=1)), OLD, [], []),
    "remove field without default": (record(A, B), OLD, [], ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"]),
    "rename field with alias": (
        OLD,
        record(field("z", "int", aliases=["a"])),
        [],
        ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/0"],
    ),
    "int to long": ("int", "long", [], ["TYPE_MISMATCH /"]),
    "int to float": ("int", "float", [], ["TYPE_MISMATCH /"]),
    "int to double": ("int", "double", [], ["TYPE_MISMATCH /"]),
    "long to float": ("long", "float", [], ["TYPE_MISMATCH /"]),
    "long to double": ("long", "double", [], ["TYPE_MISMATCH /"]),
    "float to double": ("float", "double", [], ["TYPE_MISMATCH /"]),
    "string to bytes": ("string", "bytes", [], []),
    "int to string": ("int", "string", ["TYPE_MISMATCH /"], ["TYPE_MISMATCH /"]),
    "type of a field": (
        record(field("a", {"type": "array", "items": "int"})),
        record(field("a", {"type": "array", "items": "string"})),
        ["TYPE_MISMATCH /fields/0/type/items"],
        ["TYPE_MISMATCH /fields/0/type/items"],
    ),
    "values of a map": (
        {"type": "map", "values": "int"},
        {"type": "map", "values": "null"},
        ["TYPE_MISMATCH /values"],
        ["TYPE_MISMATCH /values"],
    ),
    "wider union": ("string", ["null", "string"], [], ["TYPE_MISMATCH /0"]),
    "more branches": (["null", "int"], ["null", "int", "string"], [], ["MISSING_UNION_BRANCH /2"]),
    "other order of branches": (["null", "int"], ["int", "null"], [], []),
    "union of another type": (
        "int",
        ["null", "boolean"],
        ["MISSING_UNION_BRANCH /"],
        ["TYPE_MISMATCH /0", "TYPE_MISMATCH /1"],
    ),
    "enum with one more symbol": (enum("A"), enum("A", "B"), [], ["MISSING_ENUM_SYMBOLS /symbols"]),
    "enum with one more symbol and a default": (enum("A", default="A"), enum("A", "B", default="A"), [], []),
    "enum with one symbol less": (enum("A", "B"), enum("A"), ["MISSING_ENUM_SYMBOLS /symbols"], []),
    "enum with one symbol less and a default": (enum("A", "B"), enum("A", default="A"), [], []),
    "size of a fixed": (fixed(1), fixed(2), ["FIXED_SIZE_MISMATCH /size"], ["FIXED_SIZE_MISMATCH /size"]),
    "name of a fixed": (fixed(1), fixed(1, "G"), ["NAME_MISMATCH /name"], ["NAME_MISMATCH /name"]),
    "name of a record": (OLD, record(A, name="S"), ["NAME_MISMATCH /name"], ["NAME_MISMATCH /name"]),
    "namespace of a record": (OLD, record(A, name="n.R"), [], []),
    "name of a record with an alias": (OLD, record(A, name="S", aliases=["R"]), [], ["NAME_MISMATCH /name"]),
    "words only": (OLD, record(DATED, doc="d", aliases=["Z"]), [], []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_judged_in_both_directions(change: str) -> None:
    old, new, backward, forward = CHANGES[change]
    assert kinds(reader=new, writer=old) == backward
    assert kinds(reader=old, writer=new) == forward


def test_messages_are_those_of_the_registry() -> None:
    def text(reader: Any, writer: Any) -> str:
        (reason,) = reasons(reader, writer)
        return reason.message(reader="new", writer="old")

    assert text(record(A, B), OLD) == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'b'}"
    )
    assert text("int", "string") == (
        "{errorType:'TYPE_MISMATCH', description:'The type (path '/') of a field in the new schema does not match "
        "with the old schema', additionalInfo:'reader type: INT not compatible with writer type: STRING'}"
    )
    assert text(["null", "int"], ["null", "string"]) == (
        "{errorType:'MISSING_UNION_BRANCH', description:'The new schema is missing a type inside a union field at "
        "path '/1' in the old schema', additionalInfo:'reader union lacking writer type: STRING'}"
    )
    assert text(enum("A"), enum("C", "A", "B")) == (
        "{errorType:'MISSING_ENUM_SYMBOLS', description:'The new schema is missing enum symbols '[B, C]' at path "
        "'/symbols' in the old schema', additionalInfo:'[B, C]'}"
    )
    assert text(fixed(1), fixed(2)) == (
        "{errorType:'FIXED_SIZE_MISMATCH', description:'The size of FIXED type field at path '/size' in the new "
        "schema does not match with the old schema', additionalInfo:'expected: 2, found: 1'}"
    )
    assert text(record(name="S"), record(name="n.R")) == (
        "{errorType:'NAME_MISMATCH', description:'The name of the schema has changed (path '/name')', "
        "additionalInfo:'expected: n.R'}"
    )


def test_every_difference_is_reported() -> None:
    new = record(field("a", "string"), field("e", enum("A")), B)
    old = record(A, field("e", enum("A", "X")))
    assert kinds(new, old) == [
        "TYPE_MISMATCH /fields/0/type",
        "MISSING_ENUM_SYMBOLS /fields/1/type/symbols",
        "READER_FIELD_MISSING_DEFAULT_VALUE /fields/2",
    ]


def test_recursive_types_are_compared_once() -> None:
    def tree(**more: Any) -> Any:
        return record(field("left", ["null", "R"]), field("right", ["null", "R"]), field("v", "int", **more))

    assert kinds(tree(), tree(default=1)) == []
    other = record(field("left", ["null", "R"]), field("right", ["null", "R"]), field("v", "string"))
    assert "TYPE_MISMATCH /fields/2/type" in kinds(tree(), other)


def failure(reader: Any, writer: Any) -> str:
    (reason,) = reasons(reader, writer)
    prefix, _, text = reason.message(reader="new", writer="old").partition(": ")
    assert prefix == "Unexpected exception during compatibility check"
    return text


def test_a_field_with_two_sources_is_a_failure() -> None:
    text = failure(record(field("b", "int", aliases=["a"])), record(A, B))
    assert text == "Reader record field b matches multiple fields in writer record schema R"


def test_schemas_that_are_too_complex_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record(field(f"f{nth}", "int"), name=f"T{nth}") for nth in range(20)]
    assert kinds(records, records) == []
    monkeypatch.setattr(compatibility, "PAIRS_MAX", 10)
    assert "too complex" in failure(records, records)
    monkeypatch.undo()
    monkeypatch.setattr(compatibility, "DEPTH_MAX", 2)
    nested = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "int"}}}
    assert "too complex" in failure(nested, nested)
