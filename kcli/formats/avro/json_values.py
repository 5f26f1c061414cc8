"""Converts values in JSON, as people write them and as defaults have them, to values that can be encoded.

The JSON encoding of Avro writes a value of a union as an object with the name of its branch, such as {"string": "x"}.
The name may be missing if the value fits only one branch.
"""

from __future__ import annotations

import math

from kcli.formats.avro.json_text import Json, JsonObject
from kcli.formats.avro.numbers import InvalidAvro
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
from kcli.formats.codec import Value
from kcli.model.java_numbers import decimal_to_double
from kcli.model.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def value_of(part: Part, tree: Json) -> Value:
    """Converts a value in the JSON encoding of Avro. Raises InvalidAvro."""
    return _Conversion(is_default=False).of(part, tree)


def default_value(part: Part, tree: Json) -> Value:
    """Converts a default. Raises InvalidAvro. A default has no names of branches, and takes the first that it fits."""
    return _Conversion(is_default=True).of(part, tree)


class _Conversion:
    def __init__(self, *, is_default: bool) -> None:
        self._is_default = is_default

    def of(self, part: Part, tree: Json) -> Value:
        match part:
            case Primitive():
                return _primitive(part.kind, tree)
            case Enum():
                if isinstance(tree, str) and tree not in part.symbols:
                    raise InvalidAvro(f"Unknown symbol in enum {tree}")
                return _text(tree, "enum")
            case Fixed():
                raw = _latin_bytes(tree, "fixed")
                if len(raw) != part.size:
                    raise InvalidAvro(f"Expected fixed length {part.size}, but got {len(raw)}")
                return raw
            case Array():
                if not isinstance(tree, list):
                    raise _expected("array-start", tree)
                return [self.of(part.items, item) for item in tree]
            case Map():
                if not isinstance(tree, dict):
                    raise _expected("map-start", tree)
                return {name: self.of(part.values, item) for name, item in tree.items()}
            case Record():
                return self._record(part, tree)
            case Union():
                return self._union(part, tree)

    def _record(self, record: Record, tree: Json) -> Value:
        if not isinstance(tree, dict):
            raise _expected("record-start", tree)
        types = {field.name: field.type for field in record.fields}
        for name in tree:
            if name not in types:
                raise InvalidAvro(f"the record {record.name.full} has no field {name}")
        for field in record.fields:
            if field.name not in tree and field.default is None:
                raise InvalidAvro(f"Expected field name not found: {field.name}")
        return {name: self.of(types[name], value) for name, value in tree.items()}

    def _union(self, union: Union, tree: Json) -> Value:
        if (
            not self._is_default
            and isinstance(tree, dict)
            and (named := self._named(union, tree)) is not None
        ):
            return named
        values: list[tuple[str, Value]] = []
        for branch in union.branches:
            try:
                values.append((branch_name(branch), self.of(branch, tree)))
            except InvalidAvro:
                continue
            if self._is_default:
                break
        if len(values) > 1:
            names = ", ".join(name for name, _ in values)
            raise InvalidAvro(
                f'the value fits {names}: write {{"{values[0][0]}": value}} for the first of them'
            )
        if not values:
            raise _expected("start-union", tree)
        return values[0]

    def _named(self, union: Union, tree: JsonObject) -> Value:
        """The value of an object with the name of a branch, or None for any other object."""
        if len(tree) != 1:
            return None
        ((name, value),) = tree.items()
        branch = next((branch for branch in union.branches if branch_name(branch) == name), None)
        return None if branch is None else (name, self.of(branch, value))


def _primitive(kind: Kind, tree: Json) -> Value:
    match kind, tree:
        case Kind.NULL, None:
            return None
        case Kind.BOOLEAN, bool():
            return tree
        case ((Kind.INT | Kind.LONG | Kind.FLOAT | Kind.DOUBLE), bool()):
            raise _expected(kind, tree)
        case Kind.INT, int() if INT_MIN <= tree <= INT_MAX:
            return tree
        case Kind.LONG, int() if LONG_MIN <= tree <= LONG_MAX:
            return tree
        case ((Kind.FLOAT | Kind.DOUBLE), int() | float()):
            return decimal_to_double(tree) if isinstance(tree, int) else tree
        case ((Kind.FLOAT | Kind.DOUBLE), str()) if tree in _NOT_FINITE:
            return _NOT_FINITE[tree]
        case Kind.STRING, str():
            return tree
        case Kind.BYTES, str():
            return _latin_bytes(tree, "bytes")
        case _:
            raise _expected(kind, tree)


def _text(tree: Json, kind: str) -> str:
    if not isinstance(tree, str):
        raise _expected(kind, tree)
    return tree


def _latin_bytes(tree: Json, kind: str) -> bytes:
    try:
        return _text(tree, kind).encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidAvro(f"expected {kind} as text with characters up to U+00FF") from None


def _expected(kind: str, tree: Json) -> InvalidAvro:
    return InvalidAvro(f"Expected {kind}. Got {_token(tree)}")


def _token(tree: Json) -> str:
    """The name of Jackson for the first token of a value."""
    match tree:
        case None:
            return "VALUE_NULL"
        case bool():
            return "VALUE_TRUE" if tree else "VALUE_FALSE"
        case int():
            return "VALUE_NUMBER_INT"
        case float():
            return "VALUE_NUMBER_FLOAT"
        case str():
            return "VALUE_STRING"
        case list():
            return "START_ARRAY"
        case dict():
            return "START_OBJECT"
