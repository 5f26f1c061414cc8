"""Random Avro schemas, changed schemas, and values of schemas."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from random import Random
from typing import Any

from kcli.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Kind,
    Map,
    Part,
    Primitive,
    Record,
    Union,
    branch_name,
)
from kcli.formats.connect.values import Float32

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PROPERTIES = ("b", "a", "connect.name", "précis")
_TEXTS = ("", "x", "é", 'quote " and \\', "\u0001\t\u2028", "😀")
_NUMBERS = (0, -1, 1.0, 0.1, 1e7, 1.5e-7, 123456789012, 1e300, True, None)

_LOGICAL_TYPES = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 20},
    {"type": "bytes", "logicalType": "decimal", "precision": 60},
    {"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 50},
    {"type": "bytes", "logicalType": "big-decimal"},
)
_LOGICAL_FIXED = (
    {"size": 16, "logicalType": "uuid"},
    {"size": 12, "logicalType": "duration"},
    {"size": 5, "logicalType": "decimal", "precision": 11, "scale": 3},
    {"size": 16, "logicalType": "decimal", "precision": 38},
    {"size": 20, "logicalType": "decimal", "precision": 20, "scale": 20},
)

Schema = Any


class SchemaMaker:
    """Makes one schema. Named types have unique names, and are sometimes used again.

    With `has_logical_types`, some types have logical types, and then random values may be out of their ranges.
    """

    def __init__(self, rng: Random, *, has_logical_types: bool = False) -> None:
        self._rng = rng
        self._has_logical_types = has_logical_types
        self._done: list[str] = []
        self._open: list[str] = []
        self._count = 0

    def record(self, depth: int = 3) -> Schema:
        """A record with some fields."""
        rng = self._rng
        schema, full = self._named("record")
        self._open.append(full)
        fields = [self._field(f"f{nth}", depth - 1) for nth in range(rng.randrange(1, 5))]
        self._open.pop()
        self._done.append(full)
        return schema | {"fields": fields} | self._properties()

    def schema(self, depth: int = 3, *, in_union: bool = False) -> Schema:
        """Any schema. A use of an open record is only in a union with null, so that values end."""
        rng = self._rng
        if depth <= 0 or rng.random() < 0.35:
            if self._has_logical_types and rng.random() < 0.5:
                return dict(rng.choice(_LOGICAL_TYPES))
            kind = rng.choice(PRIMITIVES[in_union:])
            return kind if rng.random() < 0.8 else {"type": kind} | self._properties()
        choice = rng.randrange(7 if not in_union else 6)
        match choice:
            case 0:
                return self.record(depth)
            case 1:
                return {"type": "array", "items": self._filled(depth - 1)} | self._properties()
            case 2:
                return {"type": "map", "values": self.schema(depth - 1)} | self._properties()
            case 3:
                return self._enum()
            case 4:
                return self._fixed()
            case 5:
                return rng.choice(self._done) if self._done and not in_union else self._enum()
            case _:
                return self._union(depth)

    def _filled(self, depth: int) -> Schema:
        """A schema whose values have bytes."""
        schema = self.schema(depth)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "null":
            return ["null", "long"]
        return (
            schema
            if isinstance(kind, list) or kind in (*PRIMITIVES, "enum", "fixed", "map")
            else ["null", schema]
        )

    def _union(self, depth: int) -> Schema:
        rng = self._rng
        branches: list[Schema] = ["null"]
        if self._open and rng.random() < 0.3:
            branches.append(rng.choice(self._open))
        kinds: set[str] = {"null"}
        for _ in range(rng.randrange(1, 4)):
            done = len(self._done)
            branch = self.schema(depth - 1, in_union=True)
            kind = branch["type"] if isinstance(branch, dict) else branch
            if kind in kinds:
                del self._done[done:]
                continue
            kinds.add(kind)
            branches.append(branch)
        rng.shuffle(branches)
        return branches

    def _field(self, name: str, depth: int) -> Schema:
        rng = self._rng
        kind = self.schema(depth)
        field: Schema = {"name": name, "type": kind}
        if rng.random() < 0.2:
            field["doc"] = rng.choice(_TEXTS)
        if rng.random() < 0.1:
            field["order"] = rng.choice(("ignore", "DESCENDING", "ascending"))
        if rng.random() < 0.1:
            field["aliases"] = rng.choice((["z", "y"], ["old", "old"]))
        if rng.random() < 0.5 and (default := self._default(kind)) is not None:
            field["default"] = default[0]
        return field | self._properties()

    def _default(self, kind: Schema) -> tuple[Any] | None:
        rng = self._rng
        if isinstance(kind, list):
            return self._default(kind[0])
        name = kind["type"] if isinstance(kind, dict) else kind
        choices: dict[str, tuple[Any, ...]] = {
            "null": (None,),
            "boolean": (True, False),
            "int": (0, -5, 2147483647),
            "long": (1, 2**40, -(2**63)),
            "float": (0.1, 1, -2.5e20, "1.5"),
            "double": (1.0, 1e7, 0.1, 3),
            "bytes": ("", "\u00ff\u0000", "a"),
            "string": ("", "é", "text"),
            "array": ([],),
            "map": ({},),
        }
        if name == "enum":
            return (kind["symbols"][0],)
        return (rng.choice(choices[name]),) if name in choices else None

    def _enum(self) -> Schema:
        schema, full = self._named("enum")
        self._done.append(full)
        symbols = [f"S{nth}" for nth in range(self._rng.randrange(1, 5))]
        schema["symbols"] = symbols
        if self._rng.random() < 0.3:
            schema["default"] = self._rng.choice(symbols)
        return schema | self._properties()

    def _fixed(self) -> Schema:
        schema, full = self._named("fixed")
        self._done.append(full)
        if self._has_logical_types and self._rng.random() < 0.7:
            return schema | dict(self._rng.choice(_LOGICAL_FIXED))
        return schema | {"size": self._rng.randrange(1, 20)} | self._properties()

    def _named(self, kind: str) -> tuple[Schema, str]:
        rng = self._rng
        self._count += 1
        name, space = f"T{self._count}", rng.choice(("", "n", "n.m"))
        schema: Schema = {"type": kind, "name": name, "namespace": space}
        if rng.random() < 0.2:
            schema = {"type": kind, "name": f"q.{name}"}
            space = "q"
        if rng.random() < 0.2:
            schema["doc"] = rng.choice(_TEXTS)
        if rng.random() < 0.1:
            schema["aliases"] = [rng.choice(("Old", "x.Old", f"n.T{self._count + 1}")), "Z"]
        return schema, f"{space}.{name}" if space else name

    def _properties(self) -> Schema:
        rng = self._rng
        if rng.random() < 0.85:
            return {}
        values = (*_TEXTS, *_NUMBERS, [1, {"z": 1, "a": [None]}])
        names = rng.sample(_PROPERTIES, rng.randrange(1, 3))
        return {name: rng.choice(values) for name in names}


def changed(schema: Schema, rng: Random) -> Schema:
    """The schema after some random changes, of which most are of the kinds that programs make."""
    made = copy.deepcopy(schema)
    for _ in range(rng.randrange(1, 4)):
        if nodes := _nodes(made):
            _change(rng.choice(nodes), rng)
    return made


def _nodes(schema: Schema) -> list[Schema]:
    nodes: list[Schema] = []
    if isinstance(schema, list):
        for branch in schema:
            nodes += _nodes(branch)
    elif isinstance(schema, dict):
        nodes.append(schema)
        for inner in (schema.get("items"), schema.get("values")):
            nodes += _nodes(inner)
        for field in schema.get("fields", ()):
            nodes.append(field)
            nodes += _nodes(field["type"])
    return nodes


def _change(node: Schema, rng: Random) -> None:
    kind = node.get("type")
    if "symbols" in node:
        match rng.randrange(3):
            case 0:
                node["symbols"].append(f"N{rng.randrange(1000)}")
            case 1 if len(node["symbols"]) > 1:
                gone = node["symbols"].pop()
                if node.get("default") == gone:
                    node["default"] = node["symbols"][0]
            case _:
                node["default"] = node["symbols"][0]
    elif "size" in node:
        node["size"] += rng.choice((0, 1))
    elif "fields" in node:
        fields = node["fields"]
        match rng.randrange(4):
            case 0:
                fields.append({"name": f"n{rng.randrange(10**9)}", "type": "int", "default": 7})
            case 1:
                fields.append({"name": f"n{rng.randrange(10**9)}", "type": rng.choice(PRIMITIVES)})
            case 2 if len(fields) > 1:
                fields[-1] = {"name": fields[-1]["name"], "type": "string"}
            case _:
                rng.shuffle(fields)
    elif "name" in node:  # a field
        match rng.randrange(4):
            case 0 if isinstance(kind, str) and kind in PRIMITIVES:
                promoted = {
                    "int": "long",
                    "long": "float",
                    "float": "double",
                    "string": "bytes",
                    "bytes": "string",
                }
                node["type"] = promoted.get(kind, kind)
                node.pop("default", None)
            case 1 if isinstance(kind, str) and kind not in ("null",):
                node["type"] = ["null", kind]
                node.pop("default", None)
            case 2:
                node["aliases"] = [node["name"]]
                node["name"] = f"r{rng.randrange(10**9)}"
            case _ if isinstance(kind, list) and len(kind) > 1:
                node["type"] = kind[::-1]
                node.pop("default", None)


def value_of(part: Part, rng: Random, depth: int = 0) -> Any:
    """A random value of a schema. In a union, the value is a pair of the number of the branch and its value."""
    match part:
        case Primitive():
            return _primitive(part.kind, rng)
        case Record():
            return {field.name: value_of(field.type, rng, depth + 1) for field in part.fields}
        case Enum():
            return rng.choice(part.symbols)
        case Fixed():
            return rng.randbytes(part.size)
        case Array():
            return [value_of(part.items, rng, depth + 1) for _ in range(_length(rng, depth))]
        case Map():
            return {f"k{nth}é": value_of(part.values, rng, depth + 1) for nth in range(_length(rng, depth))}
        case Union():
            nulls = [
                nth for nth, b in enumerate(part.branches) if isinstance(b, Primitive) and b.kind is Kind.NULL
            ]
            nth = nulls[0] if depth > 8 and nulls else rng.randrange(len(part.branches))
            return (nth, value_of(part.branches[nth], rng, depth + 1))


def _length(rng: Random, depth: int) -> int:
    return 0 if depth > 6 else rng.choice((0, 1, 2, 3, 3, 70 if depth < 2 else 1))


def _primitive(kind: Kind, rng: Random) -> Any:
    match kind:
        case Kind.NULL:
            return None
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.INT:
            return rng.choice(
                (0, -1, 63, 64, -65, 2**31 - 1, -(2**31), rng.randrange(10**6), rng.randrange(10**8))
            )
        case Kind.LONG:
            return rng.choice((0, 1, 2**63 - 1, -(2**63), rng.randrange(10**15)))
        case Kind.FLOAT:
            return Float32.of(rng.choice((0.0, -0.0, 1.5, 0.1, 1e30, math.inf)))
        case Kind.DOUBLE:
            return rng.choice((0.0, 1.0, 0.1, 1e300, 5e-324, -math.inf))
        case Kind.BYTES:
            return rng.randbytes(rng.choice((0, 1, 5, 9, 16, 17, 200)))
        case _:
            return rng.choice(("", "a", "héé", "😀", "x" * 300))


def column_values(column: Any) -> list[Any]:
    """The values of an Arrow column, with numbers for dates and times, because Python has no dates after 9999."""
    import pyarrow as pa

    kind, is_null = column.type, column.is_null().to_pylist()
    if pa.types.is_struct(kind):
        fields = [column_values(part) for part in column.flatten()]
        names = [field.name for field in kind]
        values: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)]
        values = values or [{} for _ in is_null]
    elif pa.types.is_map(kind):
        pairs = list(zip(column_values(column.keys), column_values(column.items), strict=True))
        values = [dict(pairs[begin:end]) for begin, end in pairwise(column.offsets.to_pylist())]
    elif pa.types.is_list(kind):
        items = column_values(column.values)
        values = [items[begin:end] for begin, end in pairwise(column.offsets.to_pylist())]
    elif pa.types.is_temporal(kind):
        values = column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    else:
        values = column.to_pylist()
    return [None if null else value for null, value in zip(is_null, values, strict=True)]


def named(part: Part, value: Any) -> Any:
    """The value with the names of branches, as the encoder accepts it."""
    match part:
        case Union():
            branch = part.branches[value[0]]
            return branch_name(branch), named(branch, value[1])
        case Record():
            return {field.name: named(field.type, value[field.name]) for field in part.fields}
        case Array():
            return [named(part.items, item) for item in value]
        case Map():
            return {name: named(part.values, item) for name, item in value.items()}
        case _:
            return value
