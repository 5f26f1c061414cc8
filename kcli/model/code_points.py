"""Sets of code points, and the named classes of Java's regular expressions."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class CodePoints:
    """A set of code points, as sorted ranges (first, last) that do not touch."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> CodePoints:
        merged: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(high, merged[-1][1])
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def all(cls) -> CodePoints:
        return cls(((0, LAST),))

    def __or__(self, other: CodePoints) -> CodePoints:
        return CodePoints.of(*self.ranges, *other.ranges)

    def __and__(self, other: CodePoints) -> CodePoints:
        return (self.negated() | other.negated()).negated()

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def negated(self) -> CodePoints:
        begins = (0, *(high + 1 for _, high in self.ranges))
        ends = (*(low - 1 for low, _ in self.ranges), LAST)
        return CodePoints(tuple((low, high) for low, high in zip(begins, ends, strict=True) if low <= high))

    @property
    def single(self) -> int | None:
        """The only code point of the set, or None."""
        return self.ranges[0][0] if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1] else None

    def written(self) -> str:
        """The set in the syntax that Python's `re` and RE2 share."""
        if self.single is not None:
            return _character(self.single)
        other = self.negated()
        if not self or (other and len(other.ranges) < len(self.ranges)):
            return f"[^{other._inside()}]"
        return f"[{self._inside()}]"

    def _inside(self) -> str:
        return "".join(
            _character(low) if low == high else f"{_character(low)}-{_character(high)}"
            for low, high in self.ranges
        )


def _character(code: int) -> str:
    char = chr(code)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return char if code > 0x7F or char.isalnum() or char == "_" else f"\\{char}"


def with_both_cases(points: CodePoints) -> CodePoints:
    """The set with both cases of each ASCII letter in it, as under the flag (?i)."""
    lower, upper = points & _LOWER, points & _UPPER
    return points | _moved(lower, ord("A") - ord("a")) | _moved(upper, ord("a") - ord("A"))


def _moved(points: CodePoints, by: int) -> CodePoints:
    return CodePoints.of(*((low + by, high + by) for low, high in points.ranges))


def _span(text: str) -> CodePoints:
    """The set of a text such as `azAZ`: pairs of the first and the last character of ranges."""
    return CodePoints.of(*((ord(low), ord(high)) for low, high in zip(text[::2], text[1::2], strict=True)))


_LOWER, _UPPER = _span("az"), _span("AZ")
DIGITS = _span("09")
_WORD = _span("azAZ09__")
_SPACE = _span("\t\r  ")
_HORIZONTAL = _span("\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000")
LINE_END = _span("\n\r\x85\x85\u2028\u2029")
DOT = _span("\n\n\r\r\x85\x85\u2028\u2029").negated()
"""The characters of a dot in Java. Python's dot also matches a carriage return."""
DOT_OF_UNIX = _span("\n\n").negated()

ESCAPED_CLASSES: Mapping[str, CodePoints] = {
    name: points
    for letter, own in {"d": DIGITS, "w": _WORD, "s": _SPACE, "h": _HORIZONTAL, "v": LINE_END}.items()
    for name, points in ((letter, own), (letter.upper(), own.negated()))
}
"""The classes that an escape such as \\d names."""

_POSIX: Mapping[str, CodePoints] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": _span("\0\x7f"),
    "Alpha": _LOWER | _UPPER,
    "Digit": DIGITS,
    "Alnum": _LOWER | _UPPER | DIGITS,
    "Punct": _span("!/:@[`{~"),
    "Graph": _span("!~"),
    "Print": _span(" ~"),
    "Blank": _span("\t\t  "),
    "Cntrl": _span("\0\x1f\x7f\x7f"),
    "XDigit": _span("09afAF"),
    "Space": _SPACE,
}
_ASCII_PROPERTIES: Mapping[str, Callable[[str], bool]] = {
    "IsAlphabetic": str.isalpha,
    "IsLetter": str.isalpha,
    "IsDigit": str.isdecimal,
    "IsLowercase": str.islower,
    "IsUppercase": str.isupper,
    "IsPunctuation": lambda char: unicodedata.category(char).startswith("P"),
    "IsWhite_Space": str.isspace,
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaLetter": str.isalpha,
    "javaDigit": str.isdecimal,
    "javaLetterOrDigit": str.isalnum,
}
_ASCII = range(0x80)


def class_named(name: str, *, ascii_only: bool) -> CodePoints | None:
    """The class that `\\p{name}` names, or None if this release has no exact set for the name."""
    if name in _POSIX:
        return _POSIX[name]
    if ascii_only and name in _ASCII_PROPERTIES:
        return _where(_ASCII_PROPERTIES[name], _ASCII)
    category = name.removeprefix("Is")
    return _of_category(category) if category in _CATEGORIES else None


def _where(accepts: Callable[[str], bool], codes: Iterable[int]) -> CodePoints:
    return CodePoints.of(*((code, code) for code in codes if accepts(chr(code))))


# The categories of Unicode. Those with unassigned characters (C, Cn) depend on the version of Unicode.
_CATEGORIES = frozenset(
    [
        "L",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "M",
        "Mn",
        "Mc",
        "Me",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "S",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Z",
        "Zs",
        "Zl",
        "Zp",
        "Cc",
        "Cf",
    ]
)


@cache
def _of_category(category: str) -> CodePoints:
    return _where(lambda char: unicodedata.category(char).startswith(category), range(LAST + 1))
