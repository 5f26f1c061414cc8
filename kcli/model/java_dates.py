"""Formats and parses dates by the patterns of Java's SimpleDateFormat, in the locale `en`.

Parsing is lenient, as in Java: a month 13 is the next January, and text after the date is ignored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC

from kcli.model.java_calendar import Moment, wall_ms
from kcli.model.java_numbers import to_int, to_long
from kcli.model.java_text import INT_MAX, INT_MIN, parse_int, parse_long
from kcli.model.java_zones import Zone, name_at, offset_at_wall_ms, offset_ms, zone_name, zone_of

_LETTERS = frozenset("GyMdkHmsSEDFwWahKzZYuXL")
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_ERAS = (("BC", "Before Christ"), ("AD", "Anno Domini"))
_HALF_DAYS = ("AM", "PM")
# A pattern such as yyyyMMdd has fields without a separator. The number of letters is then the number of digits.
_COUNTED = frozenset("ydkHmsSDFwWhKYu")
_ISO_ZONE_LETTERS_MAX = 3
_HOURS_MAX = 23
# The field of an hour that begins with 1, and the number that stands for 0.
_FROM_ONE = {"k": ("H", 24), "h": ("K", 12)}
# A number as DecimalFormat reads it, with the exponent that it accepts even in an integer.
_NUMBER = re.compile(r"(-?)(\d+)(?:E(-?\d+))?")
# A number with a larger exponent is too large for 64 bits, whatever its digits are.
_EXPONENT_MAX = 20
# A year of two digits is in the hundred years that begin 80 years before now.
_YEARS_BEFORE_NOW = 80


class UnparseableDate(ValueError):
    """A text does not match the pattern (java.text.ParseException)."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text of a pattern that stands for itself, or `count` equal letters."""

    text: str = ""
    letter: str = ""
    count: int = 0


class SimpleDateFormat:
    """A pattern. `zone` is the time zone of the texts. A text that names a zone changes it for the next texts.

    Raises ValueError with Java's message for an invalid pattern.
    """

    __slots__ = ("_pieces", "_writers", "pattern", "zone")

    def __init__(self, pattern: str, zone: Zone = UTC) -> None:
        self.pattern = pattern
        self.zone = zone
        self._pieces = _pieces(pattern)
        self._writers: list[Callable[[_Written], str]] = [_writer(piece) for piece in self._pieces]

    def format(self, ms: int) -> str:
        """The text of a moment, in milliseconds since 1970 in UTC."""
        offset = 0 if self.zone is UTC else offset_ms(self.zone, ms)
        written = _Written(Moment(ms + offset), ms, offset, self.zone)
        return "".join([write(written) for write in self._writers])

    def parse(self, text: str) -> int:
        """The moment of a text, in milliseconds since 1970 in UTC. Raises UnparseableDate."""
        reader = _Reader(text, self._pieces)
        reader.read()
        fields = reader.fields
        if reader.zone_of_text is not None:
            self.zone = reader.zone_of_text
        ms = self._ms(fields)
        if reader.has_first_short_year and ms < _short_years_begin_ms():
            ms = self._ms(fields | {"y": fields["y"] + 100})
        return ms

    def _ms(self, fields: dict[str, int]) -> int:
        wall = wall_ms(fields)
        offset = fields["Z"] if "Z" in fields else offset_at_wall_ms(self.zone, wall)
        return to_long(wall - offset)


def _pieces(pattern: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    at, literal = 0, ""
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            literal += text
        elif not (char.isascii() and char.isalpha()):
            literal, at = literal + char, at + 1
        else:
            if char not in _LETTERS:
                raise ValueError(f"Illegal pattern character '{char}'")
            end = at + 1
            while pattern[end : end + 1] == char:
                end += 1
            if char == "X" and end - at > _ISO_ZONE_LETTERS_MAX:
                raise ValueError(f"invalid ISO 8601 format: length={end - at}")
            if literal:
                pieces.append(_Piece(text=literal))
            pieces.append(_Piece(letter=char, count=end - at))
            at, literal = end, ""
    return [*pieces, _Piece(text=literal)] if literal else pieces


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The text of a quotation that begins at `start`, and its end. Two quotes are a quote, inside and outside."""
    if pattern.startswith("''", start):
        return "'", start + 2
    text, at = "", start + 1
    while (end := pattern.find("'", at)) >= 0:
        text += pattern[at:end]
        if not pattern.startswith("''", end):
            return text, end + 1
        text, at = text + "'", end + 2
    raise ValueError("Unterminated quote")


# Formatting.


@dataclass(slots=True)
class _Written:
    """A moment that is formatted, its milliseconds, and its offset from UTC in milliseconds."""

    moment: Moment
    ms: int
    offset_ms: int
    zone: Zone


Writer = Callable[[_Written], str]


def _writer(piece: _Piece) -> Writer:
    if piece.text:
        text = piece.text
        return lambda _: text
    letter, count = piece.letter, piece.count
    if letter in _NUMBERS:
        number = _NUMBERS[letter]
        return lambda written: f"{number(written.moment):0{count}d}"
    if letter in "ML" and count < 3:
        return lambda written: f"{written.moment.month + 1:0{count}d}"
    return _TEXTS[letter](count)


_NUMBERS: dict[str, Callable[[Moment], int]] = {
    "d": lambda moment: moment.day_of_month,
    "D": lambda moment: moment.day_of_year,
    "F": lambda moment: moment.day_of_week_in_month,
    "w": lambda moment: moment.week_of_year,
    "W": lambda moment: moment.week_of_month,
    "u": lambda moment: (moment.day_of_week - 2) % 7 + 1,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.millisecond,
}


def _year_writer(year: Callable[[Moment], int]) -> Callable[[int], Writer]:
    def writer(count: int) -> Writer:
        if count == 2:
            return lambda written: f"{abs(year(written.moment)) % 100:02d}"
        return lambda written: _padded(year(written.moment), count)

    return writer


def _padded(number: int, count: int) -> str:
    return f"{number:0{count}d}" if number >= 0 else f"-{-number:0{count}d}"


def _month_writer(count: int) -> Writer:
    return lambda written: _shortened(_MONTHS[written.moment.month], count)


def _weekday_writer(count: int) -> Writer:
    return lambda written: _shortened(_DAYS[written.moment.day_of_week - 1], count)


def _shortened(name: str, count: int) -> str:
    return name if count > 3 else name[:3]


def _rfc_offset(written: _Written) -> str:
    minutes = written.offset_ms // 60_000
    sign, minutes = ("+", minutes) if minutes >= 0 else ("-", -minutes)
    return f"{sign}{minutes // 60 * 100 + minutes % 60:04d}"


def _iso_offset_writer(count: int) -> Writer:
    def write(written: _Written) -> str:
        if written.offset_ms == 0:
            return "Z"
        offset = _rfc_offset(written)
        return {1: offset[:3], 2: offset}.get(count, f"{offset[:3]}:{offset[3:]}")

    return write


_TEXTS: dict[str, Callable[[int], Writer]] = {
    "G": lambda count: lambda written: _ERAS[written.moment.era][count > 3],
    "y": _year_writer(lambda moment: moment.year_of_era),
    "Y": _year_writer(lambda moment: moment.week_year),
    "M": _month_writer,
    "L": _month_writer,
    "E": _weekday_writer,
    "a": lambda _: lambda written: _HALF_DAYS[written.moment.hour // 12],
    "z": lambda count: lambda written: zone_name(written.zone, written.ms, is_long=count > 3),
    "Z": lambda _: _rfc_offset,
    "X": _iso_offset_writer,
}


# Parsing.


def _short_years_begin_ms() -> int:
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


class _Reader:
    """Reads the fields of a text. The letters of `fields` are the letters of `java_calendar.wall_ms`, and `Z` for an
    offset from UTC in milliseconds."""

    __slots__ = ("_at", "_pieces", "_text", "fields", "has_first_short_year", "zone_of_text")

    def __init__(self, text: str, pieces: list[_Piece]) -> None:
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
            self._field(piece, is_counted=following is not None and _is_counted(following))

    def _unparseable(self) -> UnparseableDate:
        return UnparseableDate(f'Unparseable date: "{self._text}"')

    def _set(self, letter: str, value: int) -> None:
        # A field that is set again becomes the last one.
        self.fields.pop(letter, None)
        self.fields[letter] = value

    def _field(self, piece: _Piece, *, is_counted: bool) -> None:
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

    def _number(self, piece: _Piece, end: int) -> None:
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


def _is_counted(piece: _Piece) -> bool:
    return piece.letter in _COUNTED or (piece.letter in ("M", "L") and piece.count < 3)


def _both_lengths(names: tuple[str, ...], first: int) -> dict[str, int]:
    return {text.lower(): number for number, name in enumerate(names, first) for text in (name, name[:3])}


_NAMES: dict[str, dict[str, int]] = {
    "G": {name.lower(): era for era, names in enumerate(_ERAS) for name in names},
    "M": _both_lengths(_MONTHS, 0),
    "E": _both_lengths(_DAYS, 1),
    "a": {name.lower(): half for half, name in enumerate(_HALF_DAYS)},
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
    """The exponent, within the bounds outside of which every number is 0 or too large."""
    try:
        return min(max(parse_int(text), -_EXPONENT_MAX), _EXPONENT_MAX)
    except ValueError:
        return -_EXPONENT_MAX if text.startswith("-") else _EXPONENT_MAX
