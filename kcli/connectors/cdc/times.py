"""Dates, times and intervals in the texts of PostgreSQL (DateStyle ISO, TimeZone UTC, IntervalStyle iso_8601).

Python's classes end at the year 9999, and PostgreSQL's types do not, so the texts become numbers without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcli.connectors.cdc.text_errors import invalid_text

MICROS_PER_DAY = 86_400_000_000
_MICROS_PER_HOUR = 3_600_000_000
_MICROS_PER_MINUTE = 60_000_000
_MICROS_PER_SECOND = 1_000_000
_MICROS_PER_MONTH = 30.4375 * MICROS_PER_DAY
"""Debezium counts a month as a twelfth of 365.25 days."""
_DATE = re.compile(r"([0-9]{4,7})-([0-9]{2})-([0-9]{2})( BC)?")
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?"
_ZONE = r"([+-])([0-9]{2})(?::([0-9]{2}))?(?::([0-9]{2}))?"
_CLOCK = re.compile(f"{_TIME}(?:{_ZONE})?")
_MOMENT = re.compile(rf"([0-9]{{4,7}}-[0-9]{{2}}-[0-9]{{2}}) ({_TIME}(?:{_ZONE})?)( BC)?")
_INTERVAL = re.compile(
    r"P(?:(-?[0-9]+)Y)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+)D)?"
    r"(?:T(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?)([0-9]+)(?:\.([0-9]{1,6}))?S)?)?"
)
_INFINITIES = {"infinity": 1, "-infinity": -1}
# The milliseconds with which PostgreSQL's JDBC driver represents infinite moments.
_INFINITE_MS = {1: 9_223_372_036_825_200_000, -1: -9_223_372_036_832_400_000}
_INFINITE_DAYS = {1: 2_147_483_647, -1: -2_147_483_648}


def days(text: str) -> int:
    """The days of a `date` since 1970. An infinite date is the largest or the smallest int32, as in Debezium."""
    if text in _INFINITIES:
        return _INFINITE_DAYS[_INFINITIES[text]]
    match = _DATE.fullmatch(text)
    if match is None:
        raise invalid_text("date", text)
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    return _civil_days(1 - year if match[4] else year, month, day)


def moment_us(text: str) -> int | None:
    """The microseconds of a `timestamp` or `timestamptz` since 1970. None for an infinite one."""
    if text in _INFINITIES:
        return None
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise invalid_text("timestamp", text)
    return days(f"{match[1]}{match[11] or ''}") * MICROS_PER_DAY + clock_us(match[2])


def infinite_us(text: str) -> int:
    """The number that stands for `infinity` or `-infinity`, in place of microseconds, as in Debezium."""
    return _INFINITE_MS[_INFINITIES[text]]


def clock_us(text: str) -> int:
    """The microseconds of a `time` since midnight. Those of a `timetz` are in UTC, and may be negative."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise invalid_text("time", text)
    seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
    if match[5]:
        zone = int(match[6]) * 3600 + int(match[7] or 0) * 60 + int(match[8] or 0)
        seconds -= zone if match[5] == "+" else -zone
    return seconds * _MICROS_PER_SECOND + int((match[4] or "").ljust(6, "0"))


def clock_text(micros: int, digits: int | None) -> str:
    """A time of a day as ISO 8601 text. `digits` is the number of digits of the second. None leaves out zeros."""
    seconds, fraction = divmod(micros, _MICROS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    shown = f"{fraction:06}"[:digits] if digits is not None else f"{fraction:06}".rstrip("0")
    return f"{hour:02}:{minute:02}:{second:02}{'.' if shown else ''}{shown}"


def zoned_moment(text: str, digits: int | None) -> str:
    """A `timestamptz` as io.debezium.time.ZonedTimestamp, such as `2024-02-29T10:00:01.250000Z`.

    A `timestamp` as io.debezium.time.IsoTimestamp has no zeros at the end of its fraction: `digits` is None.
    """
    micros = moment_us(text)
    if micros is None:
        return text
    day, clock = divmod(micros, MICROS_PER_DAY)
    return f"{date_text(day)}T{clock_text(clock, digits)}Z"


def iso_date(text: str) -> str:
    """A `date` as io.debezium.time.IsoDate, such as `2024-02-29Z`."""
    return text if text in _INFINITIES else f"{date_text(days(text))}Z"


def zoned_clock(text: str) -> str:
    """A `timetz` as io.debezium.time.ZonedTime, in UTC. A `time` as io.debezium.time.IsoTime."""
    return f"{clock_text(clock_us(text) % MICROS_PER_DAY, None)}Z"


@dataclass(frozen=True, slots=True)
class Interval:
    months: int
    days: int
    micros: int

    @property
    def total_us(self) -> int:
        """The microseconds of the interval, as io.debezium.time.MicroDuration."""
        return round(self.months * _MICROS_PER_MONTH) + self.days * MICROS_PER_DAY + self.micros

    def __str__(self) -> str:
        """The text of io.debezium.time.Interval, such as `P1Y2M3DT4H5M6.7S`."""
        years, months = _split(self.months, 12)
        minutes, micros = _split(self.micros, _MICROS_PER_MINUTE)
        hours, minutes = _split(minutes, 60)
        seconds, fraction = divmod(abs(micros), _MICROS_PER_SECOND)
        shown = f"{seconds}.{fraction:06}".rstrip("0").rstrip(".")
        sign = "-" if micros < 0 else ""
        return f"P{years}Y{months}M{self.days}DT{hours}H{minutes}M{sign}{shown}S"


def interval(text: str) -> Interval:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise invalid_text("interval", text)
    years, months, day, hours, minutes = (int(match[group] or 0) for group in range(1, 6))
    seconds = int(match[7] or 0) * _MICROS_PER_SECOND + int((match[8] or "").ljust(6, "0"))
    micros = hours * _MICROS_PER_HOUR + minutes * _MICROS_PER_MINUTE + (-seconds if match[6] else seconds)
    return Interval(years * 12 + months, day, micros)


def date_text(day: int) -> str:
    """A day since 1970 as ISO 8601 text. As in Java, a year outside of 0 to 9999 has a sign."""
    year, month, day = _civil_date(day)
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{'+' if year > 0 else '-'}{abs(year):04}"
    return f"{shown}-{month:02}-{day:02}"


def _split(number: int, size: int) -> tuple[int, int]:
    """Divides towards zero, so that both parts have the sign of the number."""
    whole, rest = divmod(abs(number), size)
    return (-whole, -rest) if number < 0 else (whole, rest)


# The Gregorian calendar in eras of 400 years (146,097 days). A year begins in March, so a leap day is its last day.


def _civil_days(year: int, month: int, day: int) -> int:
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _civil_date(day: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(day + 719_468, 146_097)
    leap_days = day_of_era // 1460 - day_of_era // 36_524 + day_of_era // 146_096
    year_of_era = (day_of_era - leap_days) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
