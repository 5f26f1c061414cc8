"""The types of PostgreSQL as types of Connect, with Debezium's names, and the conversion of texts to their values."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from kcli.connectors.cdc import times
from kcli.connectors.cdc.nested_text import array_items, hstore_json
from kcli.connectors.cdc.text_errors import invalid_text
from kcli.formats.connect.logical import decimal_to_bytes
from kcli.formats.connect.schema import (
    DATE_SCHEMA,
    INT32_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import MS_PER_DAY, Float32, Instant

BASE, ENUM, DOMAIN = "b", "e", "d"
"""Kinds of types (pg_type.typtype)."""
_PRECISION_MAX = 6
_TYPMOD_HEADER = 4
_UNLIMITED_BITS = 2_147_483_647
_MONEY_SCALE = 2


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A type of the database, as in pg_type."""

    name: str
    kind: str = BASE
    base: TypeInfo | None = None
    """The type on which a domain is based."""
    base_modifier: int = -1
    item: TypeInfo | None = None
    """The type of the items of an array."""
    labels: tuple[str, ...] = ()
    """The labels of an enum."""


@dataclass(frozen=True, slots=True)
class Modes:
    """The keys that choose among representations. The names of the fields are the names of the keys."""

    decimal_handling: str = "precise"
    time_precision: str = "adaptive"
    binary_handling: str = "bytes"
    interval_handling: str = "numeric"
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of fields."""

    schema: Schema
    convert: Callable[[str], object]
    """The value of a text. Raises DataException."""
    fallback: object
    """The value of a required field whose column is not in the replica identity, as in Debezium."""
    unavailable: object = None
    """The value that stands for an unchanged value that the server does not send."""

    @property
    def optional_schema(self) -> Schema:
        return replace(self.schema, optional=True)

    def value(self, schema: Schema, text: str) -> object:
        """The value for a field with `schema`, which is the schema of this type, or the optional one."""
        value = self.convert(text)
        # A struct fits only a field with exactly its own schema.
        return Struct.of_checked(schema, value.values) if isinstance(value, Struct) else value


def value_type(info: TypeInfo, modifier: int, modes: Modes) -> ValueType:
    """The field type of a column. `modifier` has the precision and the like (pg_attribute.atttypmod)."""
    while info.kind == DOMAIN and info.base is not None:
        modifier = modifier if modifier >= 0 else info.base_modifier
        info = info.base
    if info.item is not None:
        return _array(value_type(info.item, modifier, modes), modes)
    if info.kind == ENUM:
        allowed = ",".join(info.labels)
        schema = Schema(
            SchemaType.STRING, name="io.debezium.data.Enum", version=1, parameters={"allowed": allowed}
        )
        return _text(modes, schema)
    if info.name in _SIMPLE:
        return _SIMPLE[info.name]
    if info.name in _DEPENDENT:
        return _DEPENDENT[info.name](modifier, modes)
    return _text(
        modes, Schema(SchemaType.STRING, name=_TEXT_NAMES.get(info.name), version=_version(info.name))
    )


def _array(item: ValueType, modes: Modes) -> ValueType:
    items = item.optional_schema

    def convert(text: str) -> list[object]:
        return [None if part is None else item.value(items, part) for part in array_items(text)]

    unavailable: object = None if item.unavailable is None else [item.unavailable]
    if item.schema.name is None and item.schema.type in (SchemaType.INT32, SchemaType.INT64):
        unavailable = list(modes.placeholder.encode())
    return ValueType(array_schema(items), convert, [], unavailable)


# Types without a choice.


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise invalid_text("boolean", text)
    return text == "t"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise invalid_text("integer", text) from None


def _floating(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise invalid_text("double precision", text) from None


def _named(kind: SchemaType, name: str, parameters: Mapping[str, str] | None = None) -> Schema:
    return Schema(kind, name=name, version=1, parameters=parameters)


_SIMPLE: Mapping[str, ValueType] = {
    "bool": ValueType(Schema(SchemaType.BOOLEAN), _boolean, False),
    "int2": ValueType(Schema(SchemaType.INT16), _whole, 0),
    "int4": ValueType(Schema(SchemaType.INT32), _whole, 0),
    "int8": ValueType(Schema(SchemaType.INT64), _whole, 0),
    "oid": ValueType(Schema(SchemaType.INT64), _whole, 0),
    "float4": ValueType(
        Schema(SchemaType.FLOAT32), lambda text: Float32.of(_floating(text)), Float32.of(0.0)
    ),
    "float8": ValueType(Schema(SchemaType.FLOAT64), _floating, 0.0),
    "timetz": ValueType(
        _named(SchemaType.STRING, "io.debezium.time.ZonedTime"), times.zoned_clock, "00:00:00Z"
    ),
}
_TEXT_NAMES = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "hstore": "io.debezium.data.Json",
    "uuid": "io.debezium.data.Uuid",
    "xml": "io.debezium.data.Xml",
    "tsvector": "io.debezium.data.TsVector",
    "ltree": "io.debezium.data.Ltree",
}


def _version(name: str) -> int | None:
    return 1 if name in _TEXT_NAMES else None


def _text(modes: Modes, schema: Schema, convert: Callable[[str], object] = str) -> ValueType:
    return ValueType(schema, convert, "", modes.placeholder)


def _hstore(_: int, modes: Modes) -> ValueType:
    schema = _named(SchemaType.STRING, _TEXT_NAMES["hstore"])
    unavailable = hstore_json(f'"{modes.placeholder}"=>"{modes.placeholder}"')
    return replace(_text(modes, schema, hstore_json), fallback="{}", unavailable=unavailable)


# Numbers.


def _numeric(modifier: int, modes: Modes) -> ValueType:
    if modes.decimal_handling == "double":
        return ValueType(Schema(SchemaType.FLOAT64), _floating, 0.0)
    if modes.decimal_handling == "string":
        return _text(modes, Schema(SchemaType.STRING))
    if modifier < _TYPMOD_HEADER:
        return ValueType(
            VARIABLE_SCALE, _finite(lambda text: _variable(_decimal(text))), _variable(Decimal(0))
        )
    precision = (modifier - _TYPMOD_HEADER) >> 16 & 0xFFFF
    # The scale has 11 bits, and may be negative.
    scale = (((modifier - _TYPMOD_HEADER) & 0x7FF) ^ 0x400) - 0x400
    return _fixed(scale, {"scale": str(scale), "connect.decimal.precision": str(precision)})


def _fixed(scale: int, parameters: Mapping[str, str]) -> ValueType:
    schema = replace(decimal_schema(scale), parameters=parameters)
    return ValueType(schema, _finite(partial(_scaled, scale)), _scaled(scale, "0"))


def _finite(convert: Callable[[str], object]) -> Callable[[str], object]:
    """Makes NaN and the infinities null, as in Debezium, because the types of Connect do not have them."""
    return lambda text: None if text in _NOT_FINITE else convert(text)


def _scaled(scale: int, text: str) -> Decimal:
    """The number with exactly `scale` digits after the point. PostgreSQL has rounded it before."""
    sign, digits, exponent = _decimal(text).as_tuple()
    assert isinstance(exponent, int), "`_decimal` returns finite numbers"
    shift = exponent + scale
    if shift >= 0:
        return Decimal((sign, (*digits, *[0] * shift), -scale))
    if any(digits[shift:]):
        raise invalid_text(f"numeric with the scale {scale}", text)
    return Decimal((sign, digits[:shift] or (0,), -scale))


_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise invalid_text("numeric", text) from None


VARIABLE_SCALE = struct_schema(
    {"scale": INT32_SCHEMA, "value": Schema(SchemaType.BYTES)},
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)


def _variable(number: Decimal) -> Struct:
    """The number without the zeros at the end of its fraction, as in Debezium."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "`_decimal` returns finite numbers"
    while exponent < 0 and digits[-1] == 0:
        digits, exponent = digits[:-1] or (0,), exponent + 1
    number = Decimal((sign, (*digits, *[0] * max(exponent, 0)), min(exponent, 0)))
    scale = max(-exponent, 0)
    return Struct.of_checked(VARIABLE_SCALE, [scale, decimal_to_bytes(decimal_schema(scale), number)])


def _money(_: int, modes: Modes) -> ValueType:
    """The text depends on lc_monetary, which the connection sets to C: `-$1,234.50`."""

    def plain(text: str) -> str:
        return text.replace("$", "").replace(",", "")

    number = (
        _fixed(_MONEY_SCALE, {"scale": str(_MONEY_SCALE)})
        if modes.decimal_handling == "precise"
        else _numeric(-1, modes)
    )
    return replace(number, convert=lambda text: number.convert(plain(text)))


# Points.

POINT = struct_schema(
    {
        "x": Schema(SchemaType.FLOAT64),
        "y": Schema(SchemaType.FLOAT64),
        "wkb": Schema(SchemaType.BYTES, optional=True),
        "srid": Schema(SchemaType.INT32, optional=True),
    },
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
_WKB = struct.Struct("<BIdd")
_LITTLE_ENDIAN, _WKB_POINT = 1, 1


def _point(text: str) -> Struct:
    x, comma, y = text.removeprefix("(").removesuffix(")").partition(",")
    if not comma:
        raise invalid_text("point", text)
    return _point_of(_floating(x), _floating(y))


def _point_of(x: float, y: float) -> Struct:
    return Struct.of_checked(POINT, [x, y, _WKB.pack(_LITTLE_ENDIAN, _WKB_POINT, x, y), None])


# Bytes and bits.


def _bytea(_: int, modes: Modes) -> ValueType:
    encode = _BINARY[modes.binary_handling]

    def convert(text: str) -> object:
        try:
            if not text.startswith("\\x"):
                raise ValueError
            return encode(bytes.fromhex(text[2:]))
        except ValueError:
            raise invalid_text("bytea", text) from None

    kind = SchemaType.BYTES if modes.binary_handling == "bytes" else SchemaType.STRING
    return ValueType(Schema(kind), convert, encode(b""), encode(modes.placeholder.encode()))


_BINARY: Mapping[str, Callable[[bytes], object]] = {
    "bytes": lambda data: data,
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode(),
    "hex": lambda data: data.hex(),
}


def _bits(modifier: int, _: Modes) -> ValueType:
    if modifier == 1:
        return ValueType(Schema(SchemaType.BOOLEAN), lambda text: text == "1", False)
    length = str(modifier if modifier > 0 else _UNLIMITED_BITS)
    return ValueType(_named(SchemaType.BYTES, "io.debezium.data.Bits", {"length": length}), _bit_bytes, b"")


def _bit_bytes(text: str) -> bytes:
    """The bits as a number in the order of little-endian, as in Debezium."""
    if text.strip("01"):
        raise invalid_text("bit", text)
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")


# Dates and times.


def _date(_: int, modes: Modes) -> ValueType:
    if modes.time_precision == "connect":
        return ValueType(DATE_SCHEMA, lambda text: Instant(times.days(text) * MS_PER_DAY), Instant(0))
    return ValueType(_named(SchemaType.INT32, "io.debezium.time.Date"), times.days, 0)


def _time(modifier: int, modes: Modes) -> ValueType:
    if modes.time_precision == "connect":
        return ValueType(TIME_SCHEMA, lambda text: Instant(times.clock_us(text) // 1000), Instant(0))
    if modes.time_precision == "adaptive" and _precision(modifier) <= 3:
        return ValueType(
            _named(SchemaType.INT32, "io.debezium.time.Time"), lambda text: times.clock_us(text) // 1000, 0
        )
    return ValueType(_named(SchemaType.INT64, "io.debezium.time.MicroTime"), times.clock_us, 0)


def _timestamp(modifier: int, modes: Modes) -> ValueType:
    if modes.time_precision == "connect":
        return ValueType(TIMESTAMP_SCHEMA, lambda text: Instant(_micros(text) // 1000), Instant(0))
    if _precision(modifier) <= 3:
        return ValueType(
            _named(SchemaType.INT64, "io.debezium.time.Timestamp"), lambda text: _micros(text) // 1000, 0
        )
    return ValueType(_named(SchemaType.INT64, "io.debezium.time.MicroTimestamp"), _micros, 0)


def _micros(text: str) -> int:
    micros = times.moment_us(text)
    return times.infinite_us(text) if micros is None else micros


def _timestamptz(modifier: int, modes: Modes) -> ValueType:
    return ValueType(
        _named(SchemaType.STRING, "io.debezium.time.ZonedTimestamp"),
        partial(times.zoned_moment, digits=_precision(modifier)),
        "1970-01-01T00:00:00Z",
    )


def _interval(_: int, modes: Modes) -> ValueType:
    if modes.interval_handling == "string":
        schema = _named(SchemaType.STRING, "io.debezium.time.Interval")
        return ValueType(schema, lambda text: str(times.interval(text)), "P0Y0M0DT0H0M0S")
    schema = _named(SchemaType.INT64, "io.debezium.time.MicroDuration")
    return ValueType(schema, lambda text: times.interval(text).total_us, 0)


def _precision(modifier: int) -> int:
    return modifier if 0 <= modifier <= _PRECISION_MAX else _PRECISION_MAX


_DEPENDENT: Mapping[str, Callable[[int, Modes], ValueType]] = {
    "numeric": _numeric,
    "money": _money,
    "bytea": _bytea,
    "bit": _bits,
    "varbit": _bits,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
    "hstore": _hstore,
    "point": lambda *_: ValueType(POINT, _point, _point_of(0.0, 0.0)),
}
