"""Parses dates by the patterns of Java's SimpleDateFormat.

Parsing is lenient, as in Java: a month 13 is the next January, and text after the date is ignored.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import MAXYEAR, date
from itertools import zip_longest

from kcli.model.java_dates.calendar import DAY_MS, Moment, wall_ms
from kcli.model.java_dates.patterns import DAYS, ERAS, HALF_DAYS, MONTHS, Piece
from kcli.model.java_dates.zones import Zone, name_at, zone_of
from kcli.model.java_numbers import to_int
from kcli.model.java_text import INT_MAX, INT_MIN, parse_int, parse_long

_HOURS_MAX = 23
# The field of an hour that begins with 1, and the number that stands for 0.
_FROM_ONE = {"k": ("H", 24), "h": ("K", 12)}
# The fields of a `PlainReader`, and its first year, which is the first whole year of the Gregorian calendar.
_PLAIN = frozenset("yMdHmsSX")
_PLAIN_YEAR_MIN = 1583
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# A number as DecimalFormat reads it, with the exponent that it accepts even in an integer.
_NUMBER = re.compile(r"(-?)(\d+)(?:E(-?\d+))?")
# A number with a larger exponent is too large for 64 bits, whatever its digits are.
_EXPONENT_MAX = 20
# A year of two digits is in the hundred years that begin 80 years before now.
_YEARS_BEFORE_NOW = 80


class UnparseableDate(ValueError):
    """A text does not match the pattern (java.text.ParseException)."""


def short_years_begin_ms() -> int:
    """The moment from which a year of two digits counts: 80 years ago."""
    now = Moment(_now_ms())
    fields = {"y": now.year - _YEARS_BEFORE_NOW, "M": now.month, "d": now.day_of_month, "S": now.ms_of_day}
    return wall_ms(fields)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _first_short_year() -> int:
    return Moment(_now_ms()).year - _YEARS_BEFORE_NOW


def _full_year(year: int) -> int:
    begin = _first_short_year()
    return year + begin // 100 * 100 + (100 if year < begin % 100 else 0)


@dataclass(frozen=True, slots=True)
class PlainReader:
    """Reads a text that has a year, a month and a day at once, because most texts are of this kind."""

    pattern: re.Pattern[str]
    letters: tuple[str, ...]
    is_utc: bool
    """Whether the text ends with the letter Z for UTC."""

    @classmethod
    def of(cls, pieces: list[Piece]) -> PlainReader | None:
        """The reader of a pattern, or None if the pattern has other fields."""
        letters = [piece.letter for piece in pieces if piece.letter]
        is_plain = all(
            piece.text or (piece.letter in _PLAIN and piece.is_number is (piece.letter != "X"))
            for piece in pieces
        )
        has_short_year = any(piece.letter == "y" and piece.count < 3 for piece in pieces)
        if (
            not is_plain
            or has_short_year
            or len(set(letters)) < len(letters)
            or not set("yMd") <= set(letters)
        ):
            return None
        parts = [
            _plain_part(piece, following)
            for piece, following in zip_longest(pieces, pieces[1:], fillvalue=Piece())
        ]
        return cls(
            re.compile("".join(parts)), tuple(letter for letter in letters if letter != "X"), "X" in letters
        )

    def wall_ms(self, text: str) -> int | None:
        """The local time of a text in milliseconds, or None if only a `Reader` can read it."""
        match = self.pattern.match(text)
        if match is None:
            return None
        fields = dict(zip(self.letters, map(int, match.groups()), strict=True))
        year, month = fields["y"], fields["M"]
        if not (_PLAIN_YEAR_MIN <= year <= MAXYEAR and 1 <= month <= 12):
            return None
        get = fields.get
        days = date(year, month, 1).toordinal() - _EPOCH_DAY + fields["d"] - 1
        return days * DAY_MS + ((get("H", 0) * 60 + get("m", 0)) * 60 + get("s", 0)) * 1000 + get("S", 0)


def _plain_part(piece: Piece, following: Piece) -> str:
    if piece.text:
        return re.escape(piece.text)
    if piece.letter == "X":
        return "Z"
    # As in DecimalFormat, digits that follow, and an exponent, would belong to the number.
    return f"([0-9]{{{piece.count}}})" if following.is_number else "([0-9]{1,9}+)(?![0-9E])"


class Reader:
    """Reads the fields of a text. The letters of `fields` are the letters of `java_calendar.wall_ms`, and `Z` for an
    offset from UTC in milliseconds."""

    __slots__ = ("_at", "_pieces", "_text", "fields", "has_first_short_year", "zone_of_text")

    def __init__(self, text: str, pieces: list[Piece]) -> None:
        self._text = text
        self._pieces = pieces
        self._at = 0
        self.fields: dict[str, int] = {}
        self.zone_of_text: Zone = None
        self.has_first_short_year = False

    def read(self) -> None:
        for number, piece in enumerate(self._pieces):
            if piece.text:
                if not self._text.startswith(piece.text, self._at):
                    raise self._unparseable()
                self._at += len(piece.text)
                continue
            following = self._pieces[number + 1] if number + 1 < len(self._pieces) else None
            self._field(piece, is_counted=following is not None and following.is_number)

    def _unparseable(self) -> UnparseableDate:
        return UnparseableDate(f'Unparseable date: "{self._text}"')

    def _set(self, letter: str, value: int) -> None:
        # A field that is set again becomes the last one.
        self.fields.pop(letter, None)
        self.fields[letter] = value

    def _field(self, piece: Piece, *, is_counted: bool) -> None:
        start = self._at
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        if self._at >= len(self._text):
            raise self._unparseable()
        match piece.letter:
            case "M" | "L" if piece.count > 2:
                self._name("M", start)
            case "G" | "E" | "a":
                self._name(piece.letter, start)
            case "z" | "Z":
                self._zone(start)
            case "X":
                self._iso_zone(piece.count)
            case _:
                end = start + piece.count if is_counted else len(self._text)
                self._number(piece, end)

    def _name(self, letter: str, start: int) -> None:
        """Reads the longest name, in any case. As in Java, blanks before the name are not skipped."""
        text = self._text[start : start + _NAME_LENGTH_MAX].lower()
        name = max(filter(text.startswith, _NAMES[letter]), key=len, default=None)
        if name is None:
            raise self._unparseable()
        self._set(letter, _NAMES[letter][name])
        self._at = start + len(name)

    def _number(self, piece: Piece, end: int) -> None:
        first = self._at
        match = _NUMBER.match(self._text, first, end) if end <= len(self._text) else None
        if match is None:
            raise self._unparseable()
        value = _int_value(match)
        self._at = match.end()
        letter = piece.letter
        if letter in "yY":
            if piece.count <= 2 and self._at - first == 2 and match[0].isdecimal():
                value = _full_year(value)
                self.has_first_short_year |= letter == "y" and value == _first_short_year()
            self._set(letter, value)
        elif letter in "ML":
            self._set("M", value - 1)
        elif letter == "u":
            # 7 is Sunday. Other numbers out of range stay as they are, because a lenient calendar takes them.
            self._set("E", value % 7 + 1 if 1 <= value <= 7 else value)
        else:
            field, zero = _FROM_ONE.get(letter, (letter, None))
            self._set(field, 0 if value == zero else value)

    def _zone(self, start: int) -> None:
        sign = self._text[self._at]
        if sign in "+-":
            self._offset(self._at + 1, sign, count=0, has_colon=False)
        elif self._text[start : start + 3].lower() == "gmt":
            sign = self._text[start + 3 : start + 4]
            if sign and sign in "+-":
                self._offset(start + 4, sign, count=0, has_colon=True)
            else:
                self._set("Z", 0)
                self._at = start + 3
        elif (named := name_at(self._text, self._at)) is not None:
            self._set("Z", named[0].minutes * 60_000)
            self.zone_of_text = zone_of(named[0])
            self._at = named[1]
        else:
            raise self._unparseable()

    def _iso_zone(self, count: int) -> None:
        sign = self._text[self._at]
        if sign == "Z":
            self._set("Z", 0)
            self._at += 1
        elif sign in "+-":
            self._offset(self._at + 1, sign, count=count, has_colon=count == 3)
        else:
            raise self._unparseable()

    def _offset(self, start: int, sign: str, *, count: int, has_colon: bool) -> None:
        """Reads hours and minutes. `count` is the number of letters X: one means only hours. Otherwise 0."""
        hours = "[0-9]{1,2}" if has_colon and count == 0 else "[0-9]{2}"
        minutes = "()" if count == 1 else ":([0-5][0-9])" if has_colon else "([0-5][0-9])"
        match = re.compile(f"({hours}){minutes}").match(self._text, start)
        if match is None or parse_int(match[1]) > _HOURS_MAX:
            raise self._unparseable()
        offset = (parse_int(match[1]) * 60 + parse_int(match[2] or "0")) * 60_000
        self._set("Z", -offset if sign == "-" else offset)
        self._at = match.end()


def _both_lengths(names: tuple[str, ...], first: int) -> dict[str, int]:
    return {text.lower(): number for number, name in enumerate(names, first) for text in (name, name[:3])}


_NAMES: dict[str, dict[str, int]] = {
    "G": {name.lower(): era for era, name in enumerate(ERAS)},
    "M": _both_lengths(MONTHS, 0),
    "E": _both_lengths(DAYS, 1),
    "a": {name.lower(): half for half, name in enumerate(HALF_DAYS)},
}
_NAME_LENGTH_MAX = max(len(name) for names in _NAMES.values() for name in names)


def _int_value(match: re.Match[str]) -> int:
    """`Number.intValue` of a number with an exponent. A number of at most 64 bits loses its high bits, and a larger
    number becomes the largest int."""
    sign, digits, exponent = match.groups()
    significant = digits.lstrip("0") or "0"
    if exponent is not None and significant != "0":
        significant = _shifted(significant, _exponent(exponent))
    try:
        return to_int(parse_long(sign + significant))
    except ValueError:
        return INT_MIN if sign else INT_MAX


def _shifted(digits: str, power: int) -> str:
    """The whole part of a number times a power of ten."""
    if power < 0:
        return digits[:power] or "0"
    return digits + "0" * power


def _exponent(text: str) -> int:
    """The exponent, but not more than the bound above which every number is too large."""
    try:
        return min(parse_int(text), _EXPONENT_MAX)
    except ValueError:
        return INT_MIN if text.startswith("-") else _EXPONENT_MAX
