"""The types of PostgreSQL as types of Connect, with Debezium's names, and the conversion of texts to their values."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial

from kcli.connectors.cdc import times
from kcli.connectors.cdc.nested_text import array_items, hstore_json, hstore_pairs
from kcli.connectors.cdc.text_errors import invalid_text
from kcli.connectors.cdc.time_types import (
    date_type,
    interval_type,
    time_type,
    timestamp_type,
    timestamptz_type,
)
from kcli.connectors.cdc.value_types import DOMAIN, ENUM, Modes, TypeInfo, ValueType, named, numeric_size
from kcli.formats.connect.logical import decimal_to_bytes
from kcli.formats.connect.schema import (
    INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32

_UNLIMITED_BITS = 2_147_483_647
_MONEY_SCALE = 2


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
        named(SchemaType.STRING, "io.debezium.time.ZonedTime"), times.zoned_clock, "00:00:00Z"
    ),
}
_TEXT_NAMES = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "hstore": "io.debezium.data.Json",
    "uuid": "io.debezium.data.Uuid",
    "xml": "io.debezium.data.Xml",
    "tsvector": "io.debezium.data.Tsvector",
    "ltree": "io.debezium.data.Ltree",
}


def _version(name: str) -> int | None:
    return 1 if name in _TEXT_NAMES else None


def _text(modes: Modes, schema: Schema, convert: Callable[[str], object] = str) -> ValueType:
    return ValueType(schema, convert, "", modes.placeholder)


def _hstore(_: int, modes: Modes) -> ValueType:
    if modes.hstore_handling == "map":
        unavailable_map = {modes.placeholder: modes.placeholder}
        return ValueType(_HSTORE_MAP, hstore_pairs, {}, unavailable_map)
    schema = named(SchemaType.STRING, _TEXT_NAMES["hstore"])
    unavailable = hstore_json(f'"{modes.placeholder}"=>"{modes.placeholder}"')
    return replace(_text(modes, schema, hstore_json), fallback="{}", unavailable=unavailable)


_HSTORE_MAP = Schema(SchemaType.MAP, key_schema=STRING_SCHEMA, value_schema=OPTIONAL_STRING_SCHEMA)


# Numbers.


def _numeric(modifier: int, modes: Modes) -> ValueType:
    if modes.decimal_handling == "double":
        return ValueType(Schema(SchemaType.FLOAT64), _floating, 0.0)
    size = numeric_size(modifier)
    if modes.decimal_handling == "string":
        convert = str if size is None else partial(_scaled_text, size[1])
        return _text(modes, Schema(SchemaType.STRING), convert)
    if size is None:
        return ValueType(
            VARIABLE_SCALE, _finite(lambda text: _variable(_decimal(text))), _variable(Decimal(0))
        )
    precision, scale = size
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


def _scaled_text(scale: int, text: str) -> str:
    """The text of a number with `scale` digits after the point. Only defaults of columns have other texts."""
    if text in _NOT_FINITE or len(text.partition(".")[2]) == scale:
        return text
    return format(_scaled(scale, text), "f")


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
    kind, encode = binary_form(modes)

    def convert(text: str) -> object:
        try:
            if not text.startswith("\\x"):
                raise ValueError
            return encode(bytes.fromhex(text[2:]))
        except ValueError:
            raise invalid_text("bytea", text) from None

    return ValueType(Schema(kind), convert, encode(b""), encode(modes.placeholder.encode()))


def binary_form(modes: Modes) -> tuple[SchemaType, Callable[[bytes], object]]:
    """The type of fields of bytes, and the function that makes their values."""
    kind = SchemaType.BYTES if modes.binary_handling == "bytes" else SchemaType.STRING
    return kind, _BINARY[modes.binary_handling]


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
    return ValueType(named(SchemaType.BYTES, "io.debezium.data.Bits", {"length": length}), _bit_bytes, b"")


def _bit_bytes(text: str) -> bytes:
    """The bits as a number in the order of little-endian, as in Debezium."""
    if text.strip("01"):
        raise invalid_text("bit", text)
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")


_DEPENDENT: Mapping[str, Callable[[int, Modes], ValueType]] = {
    "numeric": _numeric,
    "money": _money,
    "bytea": _bytea,
    "bit": _bits,
    "varbit": _bits,
    "date": date_type,
    "time": time_type,
    "timestamp": timestamp_type,
    "timestamptz": timestamptz_type,
    "interval": interval_type,
    "hstore": _hstore,
    "point": lambda *_: ValueType(POINT, _point, _point_of(0.0, 0.0)),
}
