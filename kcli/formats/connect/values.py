"""Values of Connect's data model.

| Java | Python |
| --- | --- |
| Byte, Short, Integer, Long | `Int8`, `Int16`, `Int32`, `Int64`; or a plain `int` |
| Float, Double | `Float32`, `Float64`; or a plain `float` |
| Boolean, String, List, Map | `bool`, `str`, `list` or `tuple`, `dict` |
| byte[], ByteBuffer | `bytes`, `memoryview` |
| BigDecimal, BigInteger, UUID | `decimal.Decimal`, `BigInteger`, `uuid.UUID` |
| java.util.Date | `Instant`; `datetime`, `date` and `time` become an `Instant` |
| Struct | `Struct` |

The number classes keep Java's class of a value, because some converters and transformations depend on it. A plain `int`
or `float` has no such class: under a schema it fits every integer type or every floating point type, and without a
schema it is a Long or a Double. A key of a map must have a hash, so `as_key` makes a `tuple` of a list and a
`FrozenMap` of a map.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

from kcli.model.java_floats import nearest_float

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MS_PER_DAY = 86_400_000
_MILLISECOND = dt.timedelta(milliseconds=1)


class Int8(int):
    """A Java Byte."""

    __slots__ = ()


class Int16(int):
    """A Java Short."""

    __slots__ = ()


class Int32(int):
    """A Java Integer."""

    __slots__ = ()


class Int64(int):
    """A Java Long that must not pass for another integer type."""

    __slots__ = ()


class BigInteger(int):
    """A Java BigInteger."""

    __slots__ = ()


class Float32(float):
    """A Java Float. The value is a double that is exactly a float."""

    __slots__ = ()

    @classmethod
    def of(cls, value: float) -> Float32:
        """The float that is nearest to a double."""
        return cls(nearest_float(value))


class Float64(float):
    """A Java Double that must not pass for a Float."""

    __slots__ = ()


class Instant(int):
    """A java.util.Date: milliseconds since 1970 in UTC. The logical types Date, Time and Timestamp have such values."""

    __slots__ = ()

    @property
    def datetime(self) -> dt.datetime:
        """The moment in UTC. Raises OverflowError outside the years 1 to 9999."""
        return EPOCH + dt.timedelta(milliseconds=self)

    @classmethod
    def of(cls, moment: dt.datetime | dt.date | dt.time) -> Instant:
        """The milliseconds of a moment, of the midnight of a day, or of a time on 1 January 1970.

        A moment without a time zone is in UTC. Microseconds are cut off.
        """
        if isinstance(moment, dt.time):
            moment = dt.datetime.combine(EPOCH, moment)
        elif not isinstance(moment, dt.datetime):
            moment = dt.datetime.combine(moment, dt.time())
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        return cls((aware - EPOCH) // _MILLISECOND)


class FrozenMap(dict[object, object]):
    """A Map that is a key of a Map. Nothing changes it."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def as_key(value: object) -> object:
    """The value as a key of a map."""
    if isinstance(value, (list, tuple)):
        return tuple(map(as_key, value))
    if isinstance(value, dict):
        return FrozenMap((as_key(key), as_key(item)) for key, item in value.items())
    return value


def java_class(value: object) -> str:
    """The name of the Java class of a value, as `Class.getName` returns it."""
    kind = type(value)
    name = getattr(kind, "java_class", None)
    if name is not None:
        return str(name)
    return _JAVA_CLASSES.get(kind) or f"{kind.__module__}.{kind.__qualname__}"


_JAVA_CLASSES: dict[type, str] = {
    Int8: "java.lang.Byte",
    Int16: "java.lang.Short",
    Int32: "java.lang.Integer",
    Int64: "java.lang.Long",
    int: "java.lang.Long",
    Float32: "java.lang.Float",
    Float64: "java.lang.Double",
    float: "java.lang.Double",
    bool: "java.lang.Boolean",
    str: "java.lang.String",
    list: "java.util.ArrayList",
    tuple: "java.util.ArrayList",
    dict: "java.util.LinkedHashMap",
    FrozenMap: "java.util.LinkedHashMap",
    bytes: "[B",
    memoryview: "java.nio.HeapByteBuffer",
    Decimal: "java.math.BigDecimal",
    BigInteger: "java.math.BigInteger",
    UUID: "java.util.UUID",
    **dict.fromkeys((Instant, dt.datetime, dt.date, dt.time), "java.util.Date"),
    type(None): "null",
}
