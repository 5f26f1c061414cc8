"""The texts of Java's `float` and `double`, up to Java 18.

Up to Java 18, the text of a very small or large number sometimes has a digit more than needed, or another last digit.
The same algorithm is here, because records and outputs of Kafka contain such texts. It makes the digits one by one with
whole numbers. It stops as soon as the rest is smaller than half the distance to the next number.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

_FLOAT = struct.Struct("<f")
_FLOAT_BITS = struct.Struct("<I")
_DOUBLE = struct.Struct("<d")
_DOUBLE_BITS = struct.Struct("<Q")

# The range that Java writes without an exponent, and in which the shortest text is Java's text.
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7
_FLOAT_DIGITS = range(6, 10)
"""A float with fewer digits has the same text with six digits, and nine digits are always enough."""

_FRACTION_BITS = 52
_SINGLE_FRACTION_BITS = 23
_SIZES = (32, 64)


def nearest_float(value: float) -> float:
    """The 32-bit number that is nearest to a double: Java's cast to `float`."""
    try:
        nearest: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return nearest


def java_double(value: float) -> str:
    """Formats a double as Java's `Double.toString` does. From 1e-3 up to 1e7, the text is a plain decimal number.
    Smaller and larger numbers have the form `d.dddE±n`.
    """
    if _PLAIN_MIN <= abs(value) < _PLAIN_MAX or value == 0:
        return repr(value)
    if not math.isfinite(value):
        return _not_finite(value)
    (bits,) = _DOUBLE_BITS.unpack(_DOUBLE.pack(abs(value)))
    return _text(value, _Binary.of(bits, fraction_bits=_FRACTION_BITS, exponent_max=1023))


def java_float(value: float) -> str:
    """Formats a 32-bit number, which is given as a double, as Java's `Float.toString` does."""
    if _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        texts = (f"{value:.{digits}g}" for digits in _FLOAT_DIGITS)
        return repr(float(next(text for text in texts if nearest_float(float(text)) == value)))
    if not math.isfinite(value) or value == 0:
        return _not_finite(value) if value else repr(value)
    (bits,) = _FLOAT_BITS.unpack(_FLOAT.pack(abs(value)))
    return _text(value, _Binary.of(bits, fraction_bits=_SINGLE_FRACTION_BITS, exponent_max=127))


def _not_finite(value: float) -> str:
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


@dataclass(frozen=True, slots=True)
class _Binary:
    """The number `fraction` × 2^(`exponent` - 52), where `fraction` has 53 bits. `precision` of them have a meaning."""

    fraction: int
    exponent: int
    precision: int

    @classmethod
    def of(cls, bits: int, *, fraction_bits: int, exponent_max: int) -> _Binary:
        exponent, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
        precision = fraction_bits + 1
        if exponent:
            fraction |= 1 << fraction_bits
        else:
            precision = fraction.bit_length()
            shift = fraction_bits + 1 - precision
            fraction, exponent = fraction << shift, 1 - shift
        return cls(fraction << (_FRACTION_BITS - fraction_bits), exponent - exponent_max, precision)


def _text(value: float, binary: _Binary) -> str:
    digits, exponent = _whole_digits(binary) or _digits(binary)
    minus = "-" if value < 0 else ""
    power = exponent - 1
    if not -3 <= power < 7:
        return f"{minus}{digits[0]}.{digits[1:] or '0'}E{power}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{digits}"
    digits = digits.ljust(power + 2, "0")
    return f"{minus}{digits[: power + 1]}.{digits[power + 1 :]}"


def _whole_digits(binary: _Binary) -> tuple[str, int] | None:
    """The digits of a whole number that fits a long, and the exponent of 0.ddd. None for any other number."""
    trailing = _trailing_zeros(binary.fraction)
    if binary.exponent > 62 or _FRACTION_BITS - trailing > binary.exponent:
        return None
    shift = binary.exponent - _FRACTION_BITS
    number = binary.fraction << shift if shift >= 0 else binary.fraction >> -shift
    # The low digits of a large number have no meaning, so Java rounds there.
    power = binary.exponent - binary.precision - 1
    dropped = len(str(1 << power)) - 1 if power > 1 else 0
    if dropped:
        number, rest = divmod(number, 10**dropped)
        number += rest >= 10**dropped // 2
    text = str(number)
    return text.rstrip("0"), len(text) + dropped


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


def _digits(binary: _Binary) -> tuple[str, int]:
    """The digits of a number, and the exponent of 0.ddd.

    The number is b / s × 10^power with 1 <= b / s < 10, and m / s is half the distance to the next number.
    """
    trailing = _trailing_zeros(binary.fraction)
    fraction, width = binary.fraction >> trailing, _FRACTION_BITS + 1 - trailing
    tiny = max(0, width - binary.exponent - 1)
    power = _estimated_power(binary)
    b5, s5 = max(0, -power), max(0, power)
    b2, s2 = b5 + tiny + binary.exponent, s5 + tiny
    m2 = b2 - binary.precision
    b2 -= width - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if width == 1:
        # Below a power of two, the distance to the next number is only half as long.
        m2 -= 1
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    bits = max(width + b2 + _bits_of_power_of_five(b5), s2 + 1 + _bits_of_power_of_five(s5 + 1))
    limit = next((1 << size - 1 for size in _SIZES if bits < size), None)
    return _generated(fraction * 5**b5 << b2, 5**s5 << s2, 5**b5 << m2, power, limit)


def _stops(b: int, m: int, tens: int, limit: int | None) -> tuple[bool, bool]:
    """Whether the digits are exact enough as they are, and whether they are with the last digit rounded up.

    Java calculates in `int` and `long` if all numbers are below `limit`, and then a sum can become negative.
    """
    if limit is None:
        return b < m, b + m >= tens
    if m >= limit:
        return True, True
    return b < m, tens < b + m < limit


def _generated(b: int, s: int, m: int, power: int, limit: int | None) -> tuple[str, int]:
    tens = s * 10
    digits: list[int] = []
    is_first = True
    while True:
        digit, rest = divmod(b, s)
        b, m = rest * 10, m * 10
        low, high = _stops(b, m, tens, limit)
        if is_first and digit == 0 and not high:
            power -= 1
        else:
            digits.append(digit)
        if is_first and not -3 <= power < 8:
            # A number with an exponent has at least two digits.
            low = high = False
        is_first = False
        if low or high:
            break
    if high and (not low or b * 2 > tens or (b * 2 == tens and digits[-1] % 2)):
        power += _round_up(digits)
    return "".join(map(str, digits)), power + 1


def _round_up(digits: list[int]) -> bool:
    """Adds one to the last digit. Returns whether the number is a power of ten afterwards."""
    at = len(digits) - 1
    while at > 0 and digits[at] == 9:
        digits[at] = 0
        at -= 1
    if digits[at] == 9:
        digits[at] = 1
        return True
    digits[at] += 1
    return False


def _estimated_power(binary: _Binary) -> int:
    """An estimate of the power of ten, which may be one too large."""
    mantissa = binary.fraction / (1 << _FRACTION_BITS)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + binary.exponent * 0.301029995663981)


def _bits_of_power_of_five(power: int) -> int:
    """The bits of 5^power, as Java estimates them."""
    return (5**power).bit_length() if 0 < power < 27 else power * 3
