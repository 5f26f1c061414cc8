"""Values of Connect's data model.

| Java | Python |
| --- | --- |
| Byte, Short, Integer, Float | `Int8`, `Int16`, `Int32`, `Float32`; under a schema, a plain `int` or `float` too |
| Long, Double | `int`, `float` |
| Boolean, String, List, Map | `bool`, `str`, `list`, `dict` |
| byte[], ByteBuffer | `bytes`, `memoryview` |
| BigDecimal, BigInteger, UUID | `decimal.Decimal`, `BigInteger`, `uuid.UUID` |
| java.util.Date | `Instant` |
| Struct | `Struct` |

The number classes keep Java's class of a value that has no schema, because converters and transformations depend on it.
"""

from __future__ import annotations

import datetime as dt

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Int8(int):
    """A Java Byte."""

    __slots__ = ()


class Int16(int):
    """A Java Short."""

    __slots__ = ()


class Int32(int):
    """A Java Integer."""

    __slots__ = ()


class BigInteger(int):
    """A Java BigInteger."""

    __slots__ = ()


class Float32(float):
    """A Java Float. The value is a double that is exactly a float."""

    __slots__ = ()


class Instant(int):
    """A java.util.Date: milliseconds since 1970 in UTC. The logical types Date, Time and Timestamp have such values."""

    __slots__ = ()

    @property
    def datetime(self) -> dt.datetime:
        """The moment in UTC. Raises OverflowError outside the years 1 to 9999."""
        return EPOCH + dt.timedelta(milliseconds=int(self))

    @classmethod
    def of(cls, moment: dt.datetime) -> Instant:
        """The milliseconds of a moment. A moment without a time zone is in UTC."""
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        return cls((aware - EPOCH) // dt.timedelta(milliseconds=1))
