"""Writes values as JSON, as Kafka Connect's JsonConverter does.

An encoder is made once for a schema. It takes the usual class of a value first, and leaves null, defaults and errors to
one function for all types.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from json.encoder import encode_basestring as quoted

from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.java_strings import java_decimal
from kcli.formats.connect.json_structs import Encode, struct_encoder
from kcli.formats.connect.logical import date_to_days, decimal_to_bytes, scale_of, time_to_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import (
    Float32,
    Float64,
    FrozenMap,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    java_class,
)
from kcli.model.java_floats import java_double, java_float, nearest_float
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

_DEFAULTS_MAX = 1000
"""The most defaults whose text is remembered."""

_WITH_SUBCLASSES = (str, dict, list, tuple)

_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_WIDE = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")


def java_escapes(text: str) -> str:
    """JSON text with the escapes that Jackson writes: capital letters, and two escapes for a character over U+FFFF."""
    if "\\u00" in text:
        text = _ESCAPE.sub(
            lambda match: match[0] if match[0][1] != "u" else f"\\u{match[0][2:].upper()}", text
        )
    return text if text.isascii() else _WIDE.sub(_units, text)


def _units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class JsonEncoder:
    def __init__(self, *, decimals_as_numbers: bool, replaces_null: bool) -> None:
        self._decimals_as_numbers = decimals_as_numbers
        self._replaces_null = replaces_null
        self._default_text = lru_cache(_DEFAULTS_MAX)(self._new_default_text)
        self._plain: Mapping[SchemaType, Callable[[Schema], Encode]] = {
            SchemaType.INT8: partial(self._whole, Int8, BYTE_MIN, BYTE_MAX),
            SchemaType.INT16: partial(self._whole, Int16, SHORT_MIN, SHORT_MAX),
            SchemaType.INT32: partial(self._whole, Int32, INT_MIN, INT_MAX),
            SchemaType.INT64: partial(self._whole, Int64, LONG_MIN, LONG_MAX),
            SchemaType.FLOAT32: partial(self._of_classes, {Float32: _float, float: _rounded}),
            SchemaType.FLOAT64: partial(self._of_classes, {float: _double, Float64: _double}),
            SchemaType.BOOLEAN: partial(self._of_classes, {bool: _boolean}),
            SchemaType.STRING: self._string,
            SchemaType.BYTES: partial(self._of_classes, {bytes: _bytes, memoryview: _bytes}),
            SchemaType.ARRAY: self._array,
            SchemaType.MAP: self._map,
            SchemaType.STRUCT: self._struct,
        }
        self._logical: Mapping[str, Callable[[Schema], Encode]] = {
            DECIMAL: self._decimal,
            DATE: partial(self._instant, "Date", date_to_days),
            TIME: partial(self._instant, "Time", time_to_ms),
            TIMESTAMP: partial(self._instant, "Timestamp", int),
        }
        self._schemaless: Mapping[type, Callable[..., str]] = {
            type(None): lambda _value: "null",
            bool: _boolean,
            int: self.encoder(Schema(SchemaType.INT64)),
            **dict.fromkeys((Int8, Int16, Int32, Int64), repr),
            Float32: _float,
            float: _double,
            Float64: _double,
            str: quoted,
            bytes: _bytes,
            memoryview: _bytes,
            **dict.fromkeys((list, tuple), self._schemaless_array),
            **dict.fromkeys((dict, FrozenMap), self._schemaless_map),
            Struct: _mismatch,
        }

    def encoder(self, schema: Schema | None) -> Encode:
        """The function that writes values of a schema. It raises DataException."""
        if schema is None:
            return self._without_schema
        make = self._logical.get(schema.name) if schema.name is not None else None
        return (make or self._plain[schema.type])(schema)

    def _new_default_text(self, schema: Schema) -> str:
        return self.encoder(schema)(schema.default)

    def _unusual(self, schema: Schema, value: object) -> str:
        """Writes null. Raises DataException for a value of another class."""
        if value is not None:
            raise DataException(f"Invalid type for {schema.type.name}: class {java_class(value)}")
        if schema.default is not None and self._replaces_null:
            return self._default_text(schema)
        if schema.optional:
            return "null"
        raise DataException(
            "Conversion error: null value for field that is required and has no default value"
        )

    # Encoders of types.

    def _whole(self, exact: type[int], least: int, most: int, schema: Schema) -> Encode:
        unusual = partial(self._unusual, schema)

        def encode(value: object) -> str:
            kind = type(value)
            if (kind is int and least <= value <= most) or kind is exact:  # type: ignore[operator]
                return repr(value)
            return unusual(value)

        return encode

    def _of_classes(self, writers: Mapping[type, Callable[..., str]], schema: Schema) -> Encode:
        def encode(value: object) -> str:
            write = writers.get(type(value))
            if write is not None:
                return write(value)
            if value is not None and schema.type is SchemaType.BYTES:
                raise DataException(f"Invalid type for bytes type: class {java_class(value)}")
            return self._unusual(schema, value)

        return encode

    def _string(self, schema: Schema) -> Encode:
        unusual = partial(self._unusual, schema)

        def encode(value: object) -> str:
            return quoted(value) if isinstance(value, str) else unusual(value)

        return encode

    def _array(self, schema: Schema) -> Encode:
        item = self.encoder(schema.value_schema)
        unusual = partial(self._unusual, schema)

        def encode(value: object) -> str:
            if not isinstance(value, (list, tuple)):
                return unusual(value)
            return f"[{','.join([item(each) for each in value])}]"

        return encode

    def _map(self, schema: Schema) -> Encode:
        write_key, write = self.encoder(schema.key_schema), self.encoder(schema.value_schema)
        unusual = partial(self._unusual, schema)
        key_type = schema.key_schema.type if schema.key_schema is not None else None

        def encode(value: object) -> str:
            if not isinstance(value, dict):
                return unusual(value)
            match key_type:
                case None:
                    raise JavaException("java.lang.NullPointerException", "the map has no schema of its keys")
                case SchemaType.STRING:
                    fields = {_field_name(write_key(key)): write(item) for key, item in value.items()}
                    return f"{{{','.join([f'{name}:{text}' for name, text in fields.items()])}}}"
                case _:
                    pairs = [f"[{write_key(key)},{write(item)}]" for key, item in value.items()]
                    return f"[{','.join(pairs)}]"

        return encode

    def _struct(self, schema: Schema) -> Encode:
        encoders = [self.encoder(field.schema) for field in schema.fields]
        return struct_encoder(schema, encoders, unusual=partial(self._unusual, schema), mismatch=_mismatch)

    # Encoders of logical types.

    def _decimal(self, schema: Schema) -> Encode:
        def encode(value: object) -> str:
            if value is None:
                return self._unusual(schema, None)
            if not isinstance(value, Decimal):
                found = java_class(value)
                raise DataException(f"Invalid type for Decimal, expected BigDecimal but was class {found}")
            scale_of(value)
            return (
                java_decimal(value) if self._decimals_as_numbers else _bytes(decimal_to_bytes(schema, value))
            )

        return encode

    def _instant(self, name: str, stored: Callable[[Instant], int], schema: Schema) -> Encode:
        def encode(value: object) -> str:
            if type(value) is Instant:
                return repr(stored(value))
            if value is None:
                return self._unusual(schema, None)
            if isinstance(value, (dt.date, dt.time)):
                return repr(stored(Instant.of(value)))
            found = java_class(value)
            raise DataException(f"Invalid type for {name}, expected Date but was class {found}")

        return encode

    # Encoders of values without a schema.

    def _without_schema(self, value: object) -> str:
        write = self._schemaless.get(type(value))
        if write is not None:
            return write(value)
        for kind in _WITH_SUBCLASSES:
            if isinstance(value, kind):
                return self._schemaless[kind](value)
        found = java_class(value)
        raise DataException(f"Java class class {found} does not have corresponding schema type.")

    def _schemaless_array(self, value: object) -> str:
        assert isinstance(value, (list, tuple)), "the class was checked before"
        write = self._without_schema
        return f"[{','.join([write(item) for item in value])}]"

    def _schemaless_map(self, value: object) -> str:
        assert isinstance(value, dict), "the class was checked before"
        write = self._without_schema
        if all(isinstance(key, str) for key in value):
            return f"{{{','.join([f'{quoted(key)}:{write(item)}' for key, item in value.items()])}}}"
        return f"[{','.join([f'[{write(key)},{write(item)}]' for key, item in value.items()])}]"


def _boolean(value: object) -> str:
    return "true" if value else "false"


def _double(value: float) -> str:
    return java_double(value) if math.isfinite(value) else quoted(java_double(value))


def _float(value: float) -> str:
    return java_float(value) if math.isfinite(value) else quoted(java_float(value))


def _rounded(value: float) -> str:
    return _float(nearest_float(value))


def _bytes(value: bytes | memoryview) -> str:
    return f'"{b64encode(value).decode("ascii")}"'


def _field_name(text: str) -> str:
    """The name of a field for a key that was written as JSON."""
    return text if text.startswith('"') else f'"{text}"'


def _mismatch(value: object) -> str:
    raise DataException("Mismatching schema.")
