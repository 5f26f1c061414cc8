"""Reads values from JSON trees, as Kafka Connect's JsonConverter does.

Java takes numbers without a check of their range, and reads a value of another type often as zero, null or empty.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

from kcli.formats.connect.errors import ConnectException, DataException, JavaException
from kcli.formats.connect.logical import date_from_days, decimal_from_bytes, time_from_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant, as_key
from kcli.model.java_numbers import (
    decimal_to_double,
    decimal_to_float,
    decimal_to_long,
    to_byte,
    to_int,
    to_short,
)
from kcli.model.java_text import INT_MAX, INT_MIN


def node_type(node: object) -> str:
    """The name of Jackson's JsonNodeType."""
    if node is None:
        return "NULL"
    names = {bool: "BOOLEAN", int: "NUMBER", Decimal: "NUMBER", str: "STRING", list: "ARRAY", dict: "OBJECT"}
    return names.get(type(node), "MISSING")


def is_integer(node: object) -> bool:
    return type(node) is int


class JsonDecoder:
    def __init__(self, *, replaces_null: bool) -> None:
        self._replaces_null = replaces_null
        self._plain: Mapping[SchemaType, Callable[[Schema, object], object]] = {
            SchemaType.INT8: lambda _schema, node: to_byte(_long(node)),
            SchemaType.INT16: lambda _schema, node: to_short(_long(node)),
            SchemaType.INT32: lambda _schema, node: to_int(_long(node)),
            SchemaType.INT64: lambda _schema, node: _long(node),
            SchemaType.FLOAT32: lambda _schema, node: Float32(decimal_to_float(_number(node))),
            SchemaType.FLOAT64: lambda _schema, node: decimal_to_double(_number(node)),
            SchemaType.BOOLEAN: lambda _schema, node: node is True,
            SchemaType.STRING: lambda _schema, node: node if isinstance(node, str) else None,
            SchemaType.BYTES: _bytes,
            SchemaType.ARRAY: self._array,
            SchemaType.MAP: self._map,
            SchemaType.STRUCT: self._struct,
        }

    def decode(self, schema: Schema | None, node: object) -> object:
        """The value of a tree. Raises DataException."""
        if schema is None:
            return self._without_schema(node)
        if node is None:
            return null_value(schema, replaces_null=self._replaces_null)
        logical = _LOGICAL.get(schema.name) if schema.name is not None else None
        return (logical or self._plain[schema.type])(schema, node)

    def _array(self, schema: Schema, node: object) -> object:
        # Java iterates over the node: an object gives its values, and any other node gives nothing.
        items = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return [self.decode(schema.value_schema, item) for item in items]

    def _map(self, schema: Schema, node: object) -> object:
        assert schema.key_schema is not None, "a JSON schema of a map has the schema of its keys"
        if schema.key_schema.type is SchemaType.STRING:
            if not isinstance(node, dict):
                raise DataException(
                    f"Maps with string fields should be encoded as JSON objects, but found {node_type(node)}"
                )
            return {name: self.decode(schema.value_schema, item) for name, item in node.items()}
        if not isinstance(node, list):
            found = node_type(node)
            raise DataException(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {found}"
            )
        return dict(self._entry(schema, entry) for entry in node)

    def _entry(self, schema: Schema, entry: object) -> tuple[object, object]:
        if not isinstance(entry, list):
            raise DataException(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
        if len(entry) != 2:
            raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
        key, item = self.decode(schema.key_schema, entry[0]), self.decode(schema.value_schema, entry[1])
        return as_key(key), item

    def _struct(self, schema: Schema, node: object) -> object:
        if not isinstance(node, dict):
            raise DataException(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
        made = Struct(schema)
        for field in schema.fields:
            made.put(field.name, self.decode(field.schema, node.get(field.name)))
        return made

    def _without_schema(self, node: object) -> object:
        match node:
            case bool() | str() | None:
                return node
            case int():
                return decimal_to_long(node)
            case Decimal():
                return decimal_to_double(node)
            case list():
                return [self._without_schema(item) for item in node]
            case dict():
                return {name: self._without_schema(item) for name, item in node.items()}
            case _:
                return None


def null_value(schema: Schema, *, replaces_null: bool) -> object:
    if schema.default is not None and replaces_null:
        return schema.default
    if schema.optional:
        return None
    raise DataException(f"Invalid null value for required {schema.type.name} field")


def _number(node: object) -> int | Decimal:
    """A number, or zero for any other node."""
    return node if isinstance(node, (int, Decimal)) and not isinstance(node, bool) else 0


def _long(node: object) -> int:
    return decimal_to_long(_number(node))


def _bytes(_schema: Schema, node: object) -> object:
    if not isinstance(node, str):
        return None
    try:
        return base64_bytes(node)
    except JavaException as error:
        raise DataException("Invalid bytes field") from error


def _decimal(schema: Schema, node: object) -> object:
    if isinstance(node, Decimal) or is_integer(node):
        return Decimal(node)  # type: ignore[arg-type]
    if not isinstance(node, str):
        raise DataException(
            "Invalid type for Decimal, underlying representation should be numeric or bytes "
            f"but was {node_type(node)}"
        )
    try:
        return decimal_from_bytes(schema, base64_bytes(node))
    except (JavaException, ConnectException) as error:
        raise DataException("Invalid bytes for Decimal field") from error


def _small(name: str, value_of: Callable[[int], Instant], _schema: Schema, node: object) -> object:
    if not is_integer(node) or not INT_MIN <= node <= INT_MAX:  # type: ignore[operator]
        raise DataException(
            f"Invalid type for {name}, underlying representation should be integer but was {node_type(node)}"
        )
    return value_of(node)  # type: ignore[arg-type]


def _timestamp(_schema: Schema, node: object) -> object:
    if not is_integer(node):
        raise DataException(
            "Invalid type for Timestamp, underlying representation should be integral "
            f"but was {node_type(node)}"
        )
    return Instant(_long(node))


_LOGICAL: Mapping[str, Callable[[Schema, object], object]] = {
    DECIMAL: _decimal,
    DATE: partial(_small, "Date", date_from_days),
    TIME: partial(_small, "Time", time_from_ms),
    TIMESTAMP: _timestamp,
}


def base64_bytes(text: str) -> bytes:
    """Decodes Base64 as Jackson does. Raises JavaException."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return _lax_base64(text)


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_CONTROL_AND_SPACE = "".join(map(chr, range(0x21)))


def _lax_base64(text: str) -> bytes:
    """Jackson takes white space between groups of four characters, and groups after a padding."""
    decoded = bytearray()
    rest = text.lstrip(_CONTROL_AND_SPACE)
    while rest:
        group, rest = rest[:4], rest[4:].lstrip(_CONTROL_AND_SPACE)
        digits = group.rstrip("=")
        if len(group) != 4 or len(digits) < 2 or any(char not in _ALPHABET for char in digits):
            raise JavaException(
                "com.fasterxml.jackson.databind.exc.InvalidFormatException",
                "Cannot access contents of TextNode as binary due to broken Base64 encoding",
            )
        bits = 0
        for char in digits.ljust(4, "A"):
            bits = bits << 6 | _ALPHABET.index(char)
        decoded += bits.to_bytes(3)[: len(digits) - 1]
    return bytes(decoded)
