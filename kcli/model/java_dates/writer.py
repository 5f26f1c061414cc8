"""Formats dates by the patterns of Java's SimpleDateFormat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcli.model.java_dates.calendar import Moment
from kcli.model.java_dates.patterns import DAYS, ERAS, HALF_DAYS, MONTHS, Piece
from kcli.model.java_dates.zones import Zone, zone_name


@dataclass(slots=True)
class Written:
    """A moment that is formatted, its milliseconds, and its offset from UTC in milliseconds."""

    moment: Moment
    ms: int
    offset_ms: int
    zone: Zone


Writer = Callable[[Written], str]


def writer(piece: Piece) -> Writer:
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
            return lambda written: _last_digits(year(written.moment))
        return lambda written: _padded(year(written.moment), count)

    return writer


def _last_digits(year: int) -> str:
    return f"{'-' if year < 0 else ''}{abs(year) % 100:02d}"


def _padded(number: int, count: int) -> str:
    return f"{number:0{count}d}" if number >= 0 else f"-{-number:0{count}d}"


def _month_writer(count: int) -> Writer:
    return lambda written: _shortened(MONTHS[written.moment.month], count)


def _weekday_writer(count: int) -> Writer:
    return lambda written: _shortened(DAYS[written.moment.day_of_week - 1], count)


def _shortened(name: str, count: int) -> str:
    return name if count > 3 else name[:3]


def _rfc_offset(written: Written) -> str:
    minutes = written.offset_ms // 60_000
    sign, minutes = ("+", minutes) if minutes >= 0 else ("-", -minutes)
    return f"{sign}{minutes // 60 * 100 + minutes % 60:04d}"


def _iso_offset_writer(count: int) -> Writer:
    def write(written: Written) -> str:
        if written.offset_ms == 0:
            return "Z"
        offset = _rfc_offset(written)
        return {1: offset[:3], 2: offset}.get(count, f"{offset[:3]}:{offset[3:]}")

    return write


_TEXTS: dict[str, Callable[[int], Writer]] = {
    "G": lambda _: lambda written: ERAS[written.moment.era],
    "y": _year_writer(lambda moment: moment.year_of_era),
    "Y": _year_writer(lambda moment: moment.week_year),
    "M": _month_writer,
    "L": _month_writer,
    "E": _weekday_writer,
    "a": lambda _: lambda written: HALF_DAYS[written.moment.hour // 12],
    "z": lambda count: lambda written: zone_name(written.zone, written.ms, is_long=count > 3),
    "Z": lambda _: _rfc_offset,
    "X": _iso_offset_writer,
}
