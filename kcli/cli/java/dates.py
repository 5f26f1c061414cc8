"""Formats dates by the patterns of Java's SimpleDateFormat, with the English names of days and months."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")
_EPOCH_YEAR_DIGITS = 2

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

Write = Callable[[datetime, int], str]


def check(pattern: str) -> None:
    """Raises ValueError, with Java's message, for an invalid pattern."""
    for piece in _PIECE.finditer(pattern):
        if piece[2] is not None and piece[2] not in _LETTERS:
            raise ValueError(f"Illegal pattern character '{piece[2]}'")
        if piece[0] == "'":
            raise ValueError("Unterminated quote")


def format_date(moment: datetime, pattern: str) -> str:
    """Formats `moment`, which must have a time zone, by the pattern. Raises ValueError as `check` does."""
    check(pattern)
    return "".join(_written(piece, moment) for piece in _PIECE.finditer(pattern))


def _written(piece: re.Match[str], moment: datetime) -> str:
    if piece[1] is not None:
        return piece[1].replace("''", "'") or "'"
    if piece[2] is not None:
        return _LETTERS[piece[2]](moment, len(piece[0]))
    return piece[0]


def _number(of: Callable[[datetime], int]) -> Write:
    return lambda moment, width: f"{of(moment):0{width}d}"


def _year(moment: datetime, width: int) -> str:
    return f"{moment.year % 100:02d}" if width == _EPOCH_YEAR_DIGITS else f"{moment.year:0{width}d}"


def _month(moment: datetime, width: int) -> str:
    if width < 3:
        return f"{moment.month:0{width}d}"
    name = _MONTHS[moment.month - 1]
    return name if width > 3 else name[:3]


def _day_name(moment: datetime, width: int) -> str:
    name = _DAYS[moment.weekday()]
    return name if width > 3 else name[:3]


def _offset(moment: datetime) -> str:
    """Returns the offset from UTC, such as `+0200`."""
    return moment.strftime("%z")[:5] or "+0000"


def _iso_offset(moment: datetime, width: int) -> str:
    offset = _offset(moment)
    if offset == "+0000":
        return "Z"
    return {1: offset[:3], 2: offset}.get(width, f"{offset[:3]}:{offset[3:]}")


_LETTERS: dict[str, Write] = {
    "G": lambda _moment, _width: "AD",
    "y": _year,
    "Y": lambda moment, width: _year(moment.replace(year=moment.isocalendar().year), width),
    "M": _month,
    "L": _month,
    "w": _number(lambda moment: moment.isocalendar().week),
    "W": _number(lambda moment: (moment.day + moment.replace(day=1).weekday() - 1) // 7 + 1),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "d": _number(lambda moment: moment.day),
    "F": _number(lambda moment: (moment.day - 1) // 7 + 1),
    "E": _day_name,
    "u": _number(datetime.isoweekday),
    "a": lambda moment, _width: "AM" if moment.hour < 12 else "PM",
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % 12),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": _number(lambda moment: moment.microsecond // 1000),
    "z": lambda moment, _width: moment.tzname() or "UTC",
    "Z": lambda moment, _width: _offset(moment),
    "X": _iso_offset,
}
