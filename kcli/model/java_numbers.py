"""Java's arithmetic: `int` and `long`, which wrap around, and the conversions of BigDecimal.

Clients can send any number, so a sum may not fit.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal

from kcli.model.java_floats import nearest_float

_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<Q")
_LONG_BITS = 64


def to_long(value: int) -> int:
    """The low 64 bits of a number, with a sign: the result of a `long` operation in Java."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def to_int(value: int) -> int:
    """The low 32 bits of a number, with a sign."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def to_short(value: int) -> int:
    """The low 16 bits of a number, with a sign."""
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


def to_byte(value: int) -> int:
    """The low 8 bits of a number, with a sign."""
    return (value + (1 << 7)) % (1 << 8) - (1 << 7)


def decimal_to_long(number: Decimal | int) -> int:
    """`BigDecimal.longValue` and `BigInteger.longValue`: the low 64 bits of the whole part."""
    if isinstance(number, int):
        return to_long(number)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    # A multiple of 10⁶⁴ ends with 64 zero bits. The whole part of a number below 1 is zero. Both may be expensive.
    return 0 if exponent >= _LONG_BITS or number.adjusted() < 0 else to_long(int(number))


def decimal_to_double(number: Decimal | int) -> float:
    """`BigDecimal.doubleValue` and `BigInteger.doubleValue`: the nearest double, or Infinity."""
    try:
        return float(number) if number else 0.0
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def decimal_to_float(number: Decimal | int) -> float:
    """`BigDecimal.floatValue` and `BigInteger.floatValue`: the nearest float, or Infinity."""
    double = decimal_to_double(number)
    single = nearest_float(double)
    if single == double or not math.isfinite(double):
        return single
    exact = Decimal(double)
    if exact == number:
        return single
    # The double becomes the last one before the number, with an odd last bit. So it is never halfway between two
    # floats, and the number is rounded only once.
    if (exact > number) == (double > 0):
        double = math.nextafter(double, 0)
    (bits,) = _BITS.unpack(_DOUBLE.pack(double))
    return nearest_float(_DOUBLE.unpack(_BITS.pack(bits | 1))[0])
