"""Java's GregorianCalendar: the Julian calendar, and from 15 October 1582 on the Gregorian calendar.

A day is a number: 1 is 1 January of the year 1 in the Gregorian calendar, as in `datetime.date.toordinal`. A week
begins on Sunday, and the week of 1 January is the first week of its year, as in the locale `en`. The fields of a date
have the letters of SimpleDateFormat.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import date

DAY_MS = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CUTOVER_DAY = date(1582, 10, 15).toordinal()
_CUTOVER_YEAR = 1582
_GREGORIAN_CYCLE_YEARS = 400
_GREGORIAN_CYCLE_DAYS = 146_097
_JULIAN_CYCLE_DAYS = 1461
# The Julian calendar calls this day 1 January of the year 1.
_JULIAN_FIRST_DAY = -1
# The days of a year before each month.
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_BEFORE_MONTH_OF_LEAP_YEAR = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)

FirstDay = Callable[[int, int], int]
"""Returns the first day of a month. Its arguments are the year, and the month from 0 to 11."""


class Moment:
    """The fields of a moment, from the milliseconds of its local time since 1 January 1970."""

    __slots__ = ("_day", "day_of_month", "month", "ms_of_day", "year")

    def __init__(self, wall_ms: int) -> None:
        days, self.ms_of_day = divmod(wall_ms, DAY_MS)
        self._day = days + _EPOCH_DAY
        if self._day >= _CUTOVER_DAY:
            cycles, day = divmod(self._day - 1, _GREGORIAN_CYCLE_DAYS)
            gregorian = date.fromordinal(day + 1)
            self.year = gregorian.year + _GREGORIAN_CYCLE_YEARS * cycles
            self.month, self.day_of_month = gregorian.month - 1, gregorian.day
        else:
            self.year, self.month, self.day_of_month = _julian_date(self._day)

    @property
    def era(self) -> int:
        """0 before Christ, and 1 after."""
        return 1 if self.year > 0 else 0

    @property
    def year_of_era(self) -> int:
        return self.year if self.year > 0 else 1 - self.year

    @property
    def hour(self) -> int:
        return self.ms_of_day // 3_600_000

    @property
    def minute(self) -> int:
        return self.ms_of_day // 60_000 % 60

    @property
    def second(self) -> int:
        return self.ms_of_day // 1000 % 60

    @property
    def millisecond(self) -> int:
        return self.ms_of_day % 1000

    @property
    def day_of_year(self) -> int:
        return self._day - self._first_day(self.year) + 1

    @property
    def day_of_week(self) -> int:
        """1 for Sunday up to 7 for Saturday."""
        return self._day % 7 + 1

    @property
    def week_of_year(self) -> int:
        if self._is_in_next_week_year:
            return 1
        return (self._day - _sunday(self._first_day(self.year))) // 7 + 1

    @property
    def week_year(self) -> int:
        """The year of the week, which may be one more than the year."""
        return self.year + self._is_in_next_week_year

    @property
    def week_of_month(self) -> int:
        first = self._day - self.day_of_month + 1
        return (self._day - _sunday(first)) // 7 + 1

    @property
    def day_of_week_in_month(self) -> int:
        """1 for the first Monday of a month, for example, and 2 for the second."""
        return (self.day_of_month - 1) // 7 + 1

    @property
    def _is_in_next_week_year(self) -> bool:
        return self.month == 11 and self._day >= _sunday(self._first_day(self.year + 1))

    def _first_day(self, year: int) -> int:
        day = gregorian_month(year, 0)
        return day if day >= _CUTOVER_DAY else julian_month(year, 0)


def wall_ms(fields: Mapping[str, int]) -> int:
    """The local time that the fields of a lenient calendar give, in milliseconds since 1 January 1970.

    The order of `fields` is the order in which they were set, because the last ones decide if they contradict each
    other. A field may have any value: the 32nd of January is the 1st of February. Months are counted from 0.
    """
    order = {letter: number for number, letter in enumerate(fields, 1)}
    days, ms_of_day = divmod(_time_of_day(fields, order), DAY_MS)
    if order.get("Y", 0) > order.get("y", 0):
        day = days + _week_day(fields)
    else:
        day = _day(fields, order, days)
    return (day - _EPOCH_DAY) * DAY_MS + ms_of_day


def gregorian_month(year: int, month: int) -> int:
    """The first day of a month (0 to 11) in the Gregorian calendar."""
    past = year - 1
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    months = _BEFORE_MONTH_OF_LEAP_YEAR if is_leap else _BEFORE_MONTH
    return 365 * past + past // 4 - past // 100 + past // 400 + months[month] + 1


def julian_month(year: int, month: int) -> int:
    """The first day of a month (0 to 11) in the Julian calendar."""
    past = year - 1
    months = _BEFORE_MONTH if year % 4 else _BEFORE_MONTH_OF_LEAP_YEAR
    return 365 * past + past // 4 + months[month] + _JULIAN_FIRST_DAY


def _julian_date(day: int) -> tuple[int, int, int]:
    cycles, rest = divmod(day - _JULIAN_FIRST_DAY, _JULIAN_CYCLE_DAYS)
    year_of_cycle = min(rest // 365, 3)
    day_of_year = rest - 365 * year_of_cycle
    months = _BEFORE_MONTH_OF_LEAP_YEAR if year_of_cycle == 3 else _BEFORE_MONTH
    month = bisect_right(months, day_of_year) - 1
    return 4 * cycles + year_of_cycle + 1, month, day_of_year - months[month] + 1


def _sunday(day: int) -> int:
    """The last Sunday on or before a day."""
    return day - day % 7


def _on_or_before(day: int, day_of_week: int) -> int:
    return day - (day - (day_of_week - 1)) % 7


def _time_of_day(fields: Mapping[str, int], order: Mapping[str, int]) -> int:
    if order.get("H", 0) > _last_of_both(order, "K", "a"):
        hours = fields["H"]
    else:
        hours = fields.get("K", 0) + 12 * fields.get("a", 0)
    minutes = hours * 60 + fields.get("m", 0)
    return (minutes * 60 + fields.get("s", 0)) * 1000 + fields.get("S", 0)


def _last_of_both(order: Mapping[str, int], one: str, other: str) -> int:
    """The place of the later of two fields, or 0 if one of them is not set."""
    return max(order[one], order[other]) if one in order and other in order else 0


def _week_day(fields: Mapping[str, int]) -> int:
    """The day that a week year, a week, and a day of the week give."""
    week, weekday = fields.get("w", 1), fields.get("E", 1) - 1
    if not 0 <= weekday < 7:
        # Java takes such a number as one of ISO 8601, where 1 is Monday.
        weeks, monday_first = divmod(weekday, 7)
        week, weekday = week + weeks, (monday_first + 1) % 7
    return _sunday(_first_day_of_year(fields["Y"])) + weekday + 7 * (week - 1)


def _first_day_of_year(year: int) -> int:
    return gregorian_month(year, 0) if year > _CUTOVER_YEAR else julian_month(year, 0)


def _day(fields: Mapping[str, int], order: Mapping[str, int], more_days: int) -> int:
    """The day that the fields give, and `more_days` after it. The cut-over to the Gregorian calendar decides last."""
    year = fields.get("y", 1970)
    if fields.get("G", 1) == 0:
        year = 1 - year
    deciding = _deciding(order)

    def day_in(first_day: FirstDay) -> int:
        return more_days + _day_in(first_day, year, fields, deciding)

    if year > _CUTOVER_YEAR and (day := day_in(gregorian_month)) >= _CUTOVER_DAY:
        return day
    julian = day_in(julian_month)
    if year < _CUTOVER_YEAR or "M" not in deciding:
        return julian
    gregorian = day_in(gregorian_month)
    return gregorian if gregorian >= _CUTOVER_DAY else julian


def _deciding(order: Mapping[str, int]) -> str:
    """The letters of the fields that decide about the day: the group of fields that was completed last."""

    def place(letter: str) -> int:
        return order.get(letter, 0)

    weekday = "E" if "E" in order else ""
    day, day_of_year = place("d"), place("D")
    week_of_month, day_in_month, week = (_last_of_both(order, letter, "E") for letter in "WFw")
    last = max(day, week_of_month, day_in_month, day_of_year, week)
    if last == 0:
        # No group is complete. A day of the week alone is taken as the first such day of the month.
        week_of_month, day_in_month, week = place("W"), max(place("F"), place("E")), place("w")
        last = max(week_of_month, day_in_month, week)
    if last == day:
        return "Md"
    if last == week_of_month and place("W") >= place("w"):
        is_tie = week_of_month == day_in_month and place("F") > place("W")
        return f"M{'F' if is_tie else 'W'}{weekday}"
    if last == day_in_month and place("F") >= place("w"):
        return f"M{'F' if 'F' in order else ''}{weekday}"
    return "D" if last == day_of_year else f"w{weekday}"


def _day_in(first_day: FirstDay, year: int, fields: Mapping[str, int], deciding: str) -> int:
    if "M" not in deciding:
        first = first_day(year, 0)
        if "D" in deciding:
            return first + fields["D"] - 1
        sunday = _sunday(first) + 7 * (fields["w"] - 1)
        return _on_or_before(sunday + 6, fields["E"]) if "E" in deciding else sunday
    more_years, month = divmod(fields.get("M", 0), 12)
    first = first_day(year + more_years, month)
    if "d" in deciding:
        return first + fields.get("d", 1) - 1
    if "W" in deciding:
        sunday = _sunday(first)
        day = _on_or_before(sunday + 6, fields["E"]) if "E" in deciding else sunday
        return day + 7 * (fields["W"] - 1)
    weekday = fields["E"] if "E" in deciding else 1
    number = fields["F"] if "F" in deciding else 1
    if number >= 0:
        return _on_or_before(first + 7 * number - 1, weekday)
    years, next_month = divmod(month + 1, 12)
    last = first_day(year + more_years + years, next_month) - 1
    return _on_or_before(last + 7 * (number + 1), weekday)
