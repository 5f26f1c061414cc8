"""Reads the usual form of values from JSON, with one function for each schema.

The functions raise Unusual for any other form, and the caller then uses `JsonDecoder`, which is exact and slow. A
property test compares the results of both.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from functools import partial
from math import isinf

from kcli.formats.connect.errors import ConnectException, JavaException
from kcli.formats.connect.json_decoder import null_value
from kcli.formats.connect.json_structs import Decode, struct_decoder
from kcli.formats.connect.json_tree import DIGITS_MAX, scanner
from kcli.formats.connect.logical import date_from_days, decimal_from_bytes, time_from_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.values import Float32, Instant
from kcli.model.java_floats import nearest_float
from kcli.model.java_text import (
    BYTE_MAX,
    BYTE_MIN,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    SHORT_MAX,
    SHORT_MIN,
)

_SAFE_DIGITS = 18
"""Every number with this many digits is a long."""
_SAFE_INTEGER = 2**53
"""Up to this number, each integer is a double."""


class Unusual(ValueError):
    """JSON that only the exact reader may read."""


class FastDecoder:
    """Makes functions that take a tree of `scan_typed` or, without a schema, of `scan_plain`."""

    def __init__(self, *, replaces_null: bool) -> None:
        self._replaces_null = replaces_null
        self._plain: Mapping[SchemaType, Callable[[Schema], Decode]] = {
            SchemaType.INT8: partial(self._whole, BYTE_MIN, BYTE_MAX),
            SchemaType.INT16: partial(self._whole, SHORT_MIN, SHORT_MAX),
            SchemaType.INT32: partial(self._whole, INT_MIN, INT_MAX),
            SchemaType.INT64: partial(self._whole, LONG_MIN, LONG_MAX),
            SchemaType.FLOAT32: partial(self._of_class, float, _float),
            SchemaType.FLOAT64: self._double,
            SchemaType.BOOLEAN: partial(self._of_class, bool, None),
            SchemaType.STRING: partial(self._of_class, str, None),
            SchemaType.BYTES: partial(self._of_class, str, _bytes),
            SchemaType.ARRAY: self._array,
            SchemaType.MAP: self._map,
            SchemaType.STRUCT: self._struct,
        }
        self._logical: Mapping[str, Callable[[Schema], Decode]] = {
            DECIMAL: lambda schema: self._of_class(str, partial(_decimal, schema), schema),
            DATE: partial(self._instant, INT_MIN, INT_MAX, date_from_days),
            TIME: partial(self._instant, INT_MIN, INT_MAX, time_from_ms),
            TIMESTAMP: partial(self._instant, LONG_MIN, LONG_MAX, Instant),
        }

    def decoder(self, schema: Schema) -> Decode:
        """The function that reads values of a schema. It raises Unusual or DataException."""
        make = self._logical.get(schema.name) if schema.name is not None else None
        return (make or self._plain[schema.type])(schema)

    def _other(self, schema: Schema, node: object) -> object:
        if node is not None:
            raise Unusual
        return null_value(schema, replaces_null=self._replaces_null)

    def _whole(self, least: int, most: int, schema: Schema) -> Decode:
        other = partial(self._other, schema)

        def decode(node: object) -> object:
            return node if type(node) is int and least <= node <= most else other(node)

        return decode

    def _of_class(self, kind: type, convert: Callable[..., object] | None, schema: Schema) -> Decode:
        other = partial(self._other, schema)
        if convert is None:
            return lambda node: node if type(node) is kind else other(node)
        return lambda node: convert(node) if type(node) is kind else other(node)

    def _double(self, schema: Schema) -> Decode:
        def decode(node: object) -> object:
            if type(node) is float:
                return node
            if type(node) is int and -_SAFE_INTEGER <= node <= _SAFE_INTEGER:
                return float(node)
            return self._other(schema, node)

        return decode

    def _array(self, schema: Schema) -> Decode:
        assert schema.value_schema is not None, "a JSON schema of an array has the schema of its items"
        item = self.decoder(schema.value_schema)
        other = partial(self._other, schema)

        def decode(node: object) -> object:
            return [item(each) for each in node] if type(node) is list else other(node)

        return decode

    def _map(self, schema: Schema) -> Decode:
        assert schema.key_schema is not None and schema.value_schema is not None, "a JSON schema has both"
        read = self.decoder(schema.value_schema)
        is_object = schema.key_schema.type is SchemaType.STRING
        other = partial(self._other, schema)

        def decode(node: object) -> object:
            if type(node) is dict and is_object:
                return {name: read(item) for name, item in node.items()}
            return other(node)

        return decode

    def _struct(self, schema: Schema) -> Decode:
        decoders = [self.decoder(field.schema) for field in schema.fields]
        return struct_decoder(schema, decoders, other=partial(self._other, schema))

    def _instant(self, least: int, most: int, made: Callable[[int], Instant], schema: Schema) -> Decode:
        other = partial(self._other, schema)

        def decode(node: object) -> object:
            return made(node) if type(node) is int and least <= node <= most else other(node)

        return decode


def _float(node: float) -> object:
    single = nearest_float(node)
    other = single + 2 * (node - single)
    if single != node and nearest_float(other) == other:
        # The double is halfway between two floats, and only the digits in the text decide.
        raise Unusual
    return Float32(single)


def _bytes(node: str) -> object:
    try:
        return binascii.a2b_base64(node, strict_mode=True)
    except ValueError:
        raise Unusual from None


def _decimal(schema: Schema, node: str) -> object:
    try:
        return decimal_from_bytes(schema, binascii.a2b_base64(node, strict_mode=True))
    except (ValueError, ConnectException, JavaException):
        raise Unusual from None


def _parse_long(digits: str) -> int:
    if len(digits) > _SAFE_DIGITS:
        raise Unusual
    return int(digits)


def _parse_double(digits: str) -> float:
    number = float(digits)
    if number and not isinf(number) and len(digits) <= DIGITS_MAX:
        return number
    if digits.strip("-0.") == "" and len(digits) <= DIGITS_MAX:
        # A BigDecimal has no negative zero.
        return 0.0
    raise Unusual


scan_plain = scanner(_parse_long, _parse_double)
scan_typed = scanner(int, _parse_double)
