"""The common schema of the items of an array or a map whose text is in a header, and their values under this schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.header_text import value_text
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.logical import date_from_days, time_from_ms
from kcli.formats.connect.schema import DATE, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.values import (
    Float32,
    Float64,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    java_class,
)
from kcli.model.java_numbers import to_byte, to_int, to_short

_BY_SIZE = (
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
)


class CommonSchema:
    """Finds a schema that fits all items. `schema` is None if no schema fits, or if all items are null."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._is_possible = True

    def add(self, item: Schema | None) -> None:
        if item is None or not self._is_possible:
            return
        self.schema = item if self.schema is None else _common(self.schema, item)
        self._is_possible = self.schema is not None


def _common(one: Schema, other: Schema) -> Schema | None:
    """The schema of two numbers is that of the larger type. Two schemas of one type are not compared, as in Java."""
    if one.type is other.type:
        return other
    if one.type not in _BY_SIZE or other.type not in _BY_SIZE:
        return None
    return max(one, other, key=lambda schema: _BY_SIZE.index(schema.type))


def fitted(schema: Schema, value: object) -> object:
    """The value of an item under the common schema. Raises DataException."""
    if value is None:
        raise DataException("Unable to convert a null value to a schema that requires a value")
    convert = _LOGICAL.get(schema.name or "") or _PLAIN.get(schema.type)
    return value if convert is None else convert(value)


def _number(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, Instant):
        return value
    raise DataException(f"Unable to convert {java_string(value)} (class {java_class(value)}) to a number")


def _instant_or(made: Callable[[int], Instant]) -> Callable[[object], object]:
    return lambda value: value if isinstance(value, Instant) else made(int(_number(value)))


_PLAIN: Mapping[SchemaType, Callable[[object], object]] = {
    SchemaType.INT8: lambda value: Int8(to_byte(int(_number(value)))),
    SchemaType.INT16: lambda value: Int16(to_short(int(_number(value)))),
    SchemaType.INT32: lambda value: Int32(to_int(int(_number(value)))),
    SchemaType.INT64: lambda value: Int64(int(_number(value))),
    SchemaType.FLOAT32: lambda value: Float32.of(float(_number(value))),
    SchemaType.FLOAT64: lambda value: Float64(float(_number(value))),
    SchemaType.STRING: value_text,
}
_LOGICAL: Mapping[str, Callable[[object], object]] = {
    DATE: _instant_or(lambda days: date_from_days(to_int(days))),
    TIME: _instant_or(lambda milliseconds: time_from_ms(to_int(milliseconds))),
    TIMESTAMP: _instant_or(Instant),
}
