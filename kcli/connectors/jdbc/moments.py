"""Dates and times between a database, Connect's logical types and offsets.

A database without time zones stores the local time of `db.timezone`. Before 15 October 1582, Java's older classes count
in the Julian calendar (date.calendar.system=LEGACY), while databases and Python use the Gregorian calendar always.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.values import EPOCH, Instant

_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_CUTOVER = dt.date(1582, 10, 15)
"""The first day of the Gregorian calendar in java.util.GregorianCalendar."""
_JULIAN_DAY_OF_EPOCH = 2_440_588


@dataclass(frozen=True, slots=True)
class Infinity:
    """PostgreSQL's timestamps `infinity` and `-infinity`, which Python does not have."""

    name: str
    milliseconds: int
    """The number that the JDBC driver of PostgreSQL returns (org.postgresql.PGStatement)."""


INFINITIES = (
    Infinity("infinity", 9_223_372_036_825_200_000),
    Infinity("-infinity", -9_223_372_036_832_400_000),
)


@dataclass(frozen=True, slots=True)
class Zone:
    """The time zone of a database, and whether old dates are counted in the Julian calendar."""

    zone: dt.tzinfo
    legacy: bool = True

    def micros(self, value: dt.datetime) -> int:
        """The microseconds since 1970 of a value of the database. Without a time zone, it is a local time."""
        if value.tzinfo is not None:
            micros = (value - EPOCH) // _MICROSECOND
        elif self.zone is dt.UTC:
            micros = (value - _NAIVE_EPOCH) // _MICROSECOND
        else:
            micros = (value.replace(tzinfo=self.zone) - EPOCH) // _MICROSECOND
        if self.legacy and value.year < 1583 and value.date() < _CUTOVER:
            micros += _julian_shift_days(value.date()) * 86_400_000_000
        return micros

    def local(self, micros: int) -> dt.datetime:
        """The local time of a moment, with its offset from UTC. Raises DataException outside the years 1 to 9999."""
        try:
            local = (EPOCH + micros * _MICROSECOND).astimezone(self.zone)
            if self.legacy and local.year < 1583 and local.date() < _CUTOVER:
                return local - dt.timedelta(days=_shift_of_julian(local.date()))
            return local
        except OverflowError:
            raise DataException(f"Timestamp {micros // 1000} is outside the years 1 to 9999") from None

    def date(self, value: dt.date) -> Instant:
        days = value.toordinal() - _EPOCH_ORDINAL
        if self.legacy and value < _CUTOVER:
            days += _julian_shift_days(value)
        return Instant(days * 86_400_000)

    def time(self, value: dt.time | dt.timedelta) -> Instant:
        """The milliseconds of a time on 1 January 1970. The driver of MySQL returns a time as a duration."""
        if isinstance(value, dt.timedelta):
            local = _NAIVE_EPOCH + value
        else:
            local = dt.datetime.combine(EPOCH.date(), value)
        return Instant(self.micros(local) // 1000)


def _julian_shift_days(date: dt.date) -> int:
    """The days between a date of the Gregorian calendar and the date with the same name in the Julian calendar."""
    month, year = (date.month + 9) % 12, date.year - (date.month < 3)
    julian_day = 365 * year + year // 4 + (153 * month + 2) // 5 + date.day + 1_721_116 + 1
    return julian_day - _JULIAN_DAY_OF_EPOCH - (date.toordinal() - _EPOCH_ORDINAL)


def _shift_of_julian(day: dt.date) -> int:
    """As `_julian_shift_days`, for a day whose name in the Julian calendar is not known yet."""
    shift = _julian_shift_days(day)
    return _julian_shift_days(day - dt.timedelta(days=shift))


Granularity = Callable[[int, Zone], object]
"""Makes the value of a field from microseconds (timestamp.granularity)."""


def _iso(digits: int) -> Granularity:
    def text(micros: int, zone: Zone) -> str:
        local = Zone(zone.zone, legacy=False).local(micros).replace(tzinfo=None)
        return local.isoformat(timespec="microseconds") + "0" * (digits - 6)

    return text


GRANULARITIES: dict[str, Granularity] = {
    "connect_logical": lambda micros, zone: Instant(micros // 1000),
    "micros_long": lambda micros, zone: micros,
    "micros_string": lambda micros, zone: str(micros),
    "micros_iso_datetime_string": _iso(6),
    "nanos_long": lambda micros, zone: micros * 1000,
    "nanos_string": lambda micros, zone: str(micros * 1000),
    "nanos_iso_datetime_string": _iso(9),
}


def offset_of(micros: int) -> dict[str, object]:
    """The part of an offset for a timestamp: milliseconds, and the nanoseconds within the second."""
    return {"timestamp": micros // 1000, "timestamp_nanos": micros % 1_000_000 * 1000}


def micros_of(offset: dict[str, object]) -> int | None:
    """The timestamp of an offset in microseconds, or None if the offset has no timestamp."""
    milliseconds, nanos = offset.get("timestamp"), offset.get("timestamp_nanos")
    if milliseconds is None:
        return None
    if not isinstance(milliseconds, int) or not isinstance(nanos, int | None):
        raise ConnectException(f"Invalid timestamp in the stored offset {offset}")
    if nanos is None:
        return milliseconds * 1000
    return milliseconds // 1000 * 1_000_000 + nanos // 1000
