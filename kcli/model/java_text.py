"""Parses text as Java's standard library does, for text that a user, a file or a client has written.

Python's `int`, `float` and `str.strip` accept more than Java: underscores between digits, spaces around a number, and
the removal of no-break spaces. A value that only Python accepts may be stored, and then Apache Kafka does not start on
the same log directory. So a lint rule refuses these functions on such text outside this module.

The number parsers raise ValueError with the message of Java's NumberFormatException.
"""

from __future__ import annotations

import re
from decimal import Decimal

BYTE_MIN, BYTE_MAX = -(2**7), 2**7 - 1
SHORT_MIN, SHORT_MAX = -(2**15), 2**15 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# Java's String.trim removes every character up to U+0020, and no other white space.
_TRIMMED = "".join(map(chr, range(0x21)))
# The white space that `\s` matches in Java's regular expressions.
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_BLANKS = re.compile(r"[ \t\n\x0b\f\r]+")
# The patterns of doubles are compiled at their first use, because every tool imports this module.
_DECIMAL = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)"
_HEXADECIMAL = r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?"
_BIG_DECIMAL = r"[+-]?(?:\d+(?:\.(?P<fraction>\d*))?|\.(?P<only>\d+))(?:[eE](?P<exponent>[+-]?\d+))?"
# The first character outside the Basic Multilingual Plane: Java's parsers look at UTF-16 units, so they take no digit
# from there on.
_SUPPLEMENTARY = "\U00010000"


def parse_byte(text: str) -> int:
    """`Byte.parseByte`."""
    value = parse_int(text)
    if not BYTE_MIN <= value <= BYTE_MAX:
        raise ValueError(f'Value out of range. Value:"{text}" Radix:10')
    return value


def parse_short(text: str) -> int:
    """`Short.parseShort`."""
    value = parse_int(text)
    if not SHORT_MIN <= value <= SHORT_MAX:
        raise ValueError(f'Value out of range. Value:"{text}" Radix:10')
    return value


def parse_int(text: str) -> int:
    """`Integer.parseInt`: an optional sign and decimal digits of any script, in the range of 32 bits."""
    return _integer(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int:
    """`Long.parseLong`: as `parse_int`, in the range of 64 bits."""
    return _integer(text, LONG_MIN, LONG_MAX)


def natural(text: str) -> int | None:
    """The number in a text of ASCII digits, as in the name of a file. None for any other text, and above 2⁶³ - 1."""
    if not (text.isascii() and text.isdecimal()):
        return None
    try:
        return parse_long(text)
    except ValueError:
        return None


def parse_double(text: str) -> float:
    """`Double.parseDouble`: a decimal or hexadecimal number, NaN or Infinity. The text is trimmed first."""
    trimmed = trim(text)
    if not trimmed:
        raise ValueError("empty String")
    if re.fullmatch(_DECIMAL, trimmed):
        return float(trimmed if trimmed.endswith("y") else trimmed.rstrip("dDfF"))
    if re.fullmatch(_HEXADECIMAL, trimmed):
        return _hexadecimal(trimmed)
    raise ValueError(f'For input string: "{text}"')


def parse_float(text: str) -> float:
    """`Float.parseFloat`: as `parse_double`, but the nearest 32-bit number."""
    from kcli.model.java_floats import nearest_float
    from kcli.model.java_numbers import decimal_to_float

    double = parse_double(text)
    digits = trim(text).rstrip("dDfF")
    if double == 0 or re.fullmatch(_BIG_DECIMAL, digits) is None:
        return nearest_float(double)
    return decimal_to_float(Decimal(digits))


def big_decimal(text: str) -> Decimal:
    """`new BigDecimal(text)`: decimal digits of any script with an optional sign, point and exponent."""
    match = re.fullmatch(_BIG_DECIMAL, text)
    if match is None or max(text) >= _SUPPLEMENTARY:
        raise ValueError(f"Character array is not a decimal number: {text}")
    try:
        exponent = parse_int(match["exponent"] or "0")
    except ValueError:
        raise ValueError("Exponent overflow.") from None
    if not INT_MIN <= len(match["fraction"] or match["only"] or "") - exponent <= INT_MAX:
        raise ValueError("Scale out of range.")
    number = Decimal(text)
    # A BigDecimal has no negative zero.
    return number if number else number.copy_abs()


def parse_boolean(text: str) -> bool:
    """`Boolean.parseBoolean`: true for "true" in any case, false for every other text."""
    return text.lower() == "true"


def trim(text: str) -> str:
    """`String.trim`: removes control characters and spaces (up to U+0020) at both ends. A no-break space stays."""
    return text.strip(_TRIMMED)


def split_list(text: str) -> tuple[str, ...]:
    """The items of a value of type LIST, as ConfigDef splits them: at commas with white space around them.

    An empty text has no items. Empty items between two commas stay.
    """
    trimmed = trim(text)
    return tuple(_COMMA.split(trimmed)) if trimmed else ()


def split_blanks(text: str) -> list[str]:
    """The words of a text, which the white space of ASCII separates. A no-break space is a part of a word."""
    return [word for word in _BLANKS.split(text) if word]


def _integer(text: str, least: int, most: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and max(digits) < _SUPPLEMENTARY:
        # int() refuses texts of thousands of digits, although leading zeros do not change the value.
        significant = digits.lstrip("0") or "0"
        if len(significant) <= len(str(most)):
            value = -int(significant) if text[0] == "-" else int(significant)
            if least <= value <= most:
                return value
    raise ValueError(f'For input string: "{text}"')


def _hexadecimal(text: str) -> float:
    """`float.fromhex` refuses a number out of range, where Java returns Infinity."""
    try:
        return float.fromhex(text.rstrip("dDfF"))
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")
