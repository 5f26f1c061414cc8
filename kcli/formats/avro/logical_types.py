"""Finds the logical type of a declaration. A logical type that does not fit its type is ignored, as in Java."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kcli.formats.avro.schema import Kind, Logical, LogicalType, Properties

_KINDS: Mapping[Logical, tuple[Kind, ...]] = {
    Logical.DECIMAL: (Kind.BYTES, Kind.FIXED),
    Logical.BIG_DECIMAL: (Kind.BYTES,),
    Logical.UUID: (Kind.STRING, Kind.FIXED),
    Logical.DURATION: (Kind.FIXED,),
    Logical.DATE: (Kind.INT,),
    Logical.TIME_MILLIS: (Kind.INT,),
    Logical.TIME_MICROS: (Kind.LONG,),
    Logical.TIMESTAMP_MILLIS: (Kind.LONG,),
    Logical.TIMESTAMP_MICROS: (Kind.LONG,),
    Logical.TIMESTAMP_NANOS: (Kind.LONG,),
    Logical.LOCAL_TIMESTAMP_MILLIS: (Kind.LONG,),
    Logical.LOCAL_TIMESTAMP_MICROS: (Kind.LONG,),
    Logical.LOCAL_TIMESTAMP_NANOS: (Kind.LONG,),
}
_SIZES = {Logical.UUID: 16, Logical.DURATION: 12}
_NAMES = {logical.value: logical for logical in Logical}


def logical_type(kind: Kind, properties: Properties, size: int = 0) -> LogicalType | None:
    """Returns the logical type of a type. `size` is the size of a fixed."""
    name = properties.get("logicalType")
    logical = _NAMES.get(name) if isinstance(name, str) else None
    if logical is None or kind not in _KINDS[logical]:
        return None
    if logical is Logical.DECIMAL:
        return _decimal(kind, properties, size)
    if kind is Kind.FIXED and size != _SIZES[logical]:
        return None
    return LogicalType(logical)


def _decimal(kind: Kind, properties: Properties, size: int) -> LogicalType | None:
    precision, scale = properties.get("precision"), properties.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    most = math.floor(math.log10(2) * (8 * size - 1)) if kind is Kind.FIXED else precision
    is_valid = 0 < precision <= most and 0 <= scale <= precision
    return LogicalType(Logical.DECIMAL, precision, scale) if is_valid else None
