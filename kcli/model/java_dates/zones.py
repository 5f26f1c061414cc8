"""Time zones as Java's date formats know them: their English names, and their offsets from UTC.

A zone is a `tzinfo`, or None for the time zone of the process (the variable TZ). A computer without time zone data
knows only the offsets of the names.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kcli.model.java_dates.zone_names import ZONE_NAMES

Zone = tzinfo | None

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_RULE_MS = (datetime(1900, 1, 1) - _EPOCH) // _MILLISECOND
_WINTERS_MS = (
    (datetime(2001, 1, 1) - _EPOCH) // _MILLISECOND,
    (datetime(2001, 7, 1) - _EPOCH) // _MILLISECOND,
)
# The last moment whose local time is a datetime in every zone.
_LAST_MS = (datetime(9999, 12, 29) - _EPOCH) // _MILLISECOND
_CYCLE_MS = 146_097 * 86_400_000


class Named(NamedTuple):
    """The zone of a name that a text may have. `id` is the zone's name in the time zone data."""

    id: str
    minutes: int


def _table() -> tuple[dict[str, Named], dict[tuple[str, int], str]]:
    """The zones by name in lower case, and the long names by abbreviation and offset."""
    zones: dict[str, Named] = {}
    long_names: dict[tuple[str, int], str] = {}
    for abbreviation, long_name, minutes, zone_id in ZONE_NAMES:
        for name in filter(None, (abbreviation, long_name)):
            zones.setdefault(name.lower(), Named(zone_id, minutes))
        long_names.setdefault((abbreviation, minutes), long_name)
    return zones, long_names


_ZONES, _LONG_NAMES = _table()
_LENGTHS = sorted({len(name) for name in _ZONES}, reverse=True)


def name_at(text: str, start: int) -> tuple[Named, int] | None:
    """The zone whose name the text has at `start`, and the end of the name. The longest name is taken."""
    possible = text[start : start + _LENGTHS[0]].lower()
    for length in _LENGTHS:
        named = _ZONES.get(possible[:length]) if length <= len(possible) else None
        if named is not None:
            return named, start + length
    return None


def zone_of(named: Named) -> tzinfo:
    try:
        return UTC if named.id == "Etc/UTC" else ZoneInfo(named.id)
    except ZoneInfoNotFoundError:
        return timezone(timedelta(minutes=named.minutes))


def offset_ms(zone: Zone, moment_ms: int) -> int:
    """The difference of local time and UTC at a moment."""
    if zone is UTC:
        return 0
    return _offset(_local(zone, moment_ms))


def offset_at_wall_ms(zone: Zone, wall_ms: int) -> int:
    """The difference of local time and UTC, for a local time.

    A local time that a zone has twice is in standard time. A local time that a change to summer time skips counts from
    standard time.
    """
    if zone is UTC:
        return 0
    naive = _EPOCH + timedelta(milliseconds=_equivalent(zone, wall_ms))
    both = (naive.replace(fold=fold) for fold in (0, 1))
    return min(
        _offset(moment.astimezone() if zone is None else moment.replace(tzinfo=zone)) for moment in both
    )


def zone_name(zone: Zone, moment_ms: int, *, is_long: bool) -> str:
    """The name of a zone at a moment, such as `PDT` or `Pacific Daylight Time`."""
    local = _local(zone, moment_ms)
    name = local.tzname() or "UTC"
    return _LONG_NAMES.get((name, _offset(local) // 60_000)) or name if is_long else name


def _local(zone: Zone, moment_ms: int) -> datetime:
    return (_EPOCH_UTC + timedelta(milliseconds=_equivalent(zone, moment_ms))).astimezone(zone)


def _equivalent(zone: Zone, ms: int) -> int:
    """A moment with the same offset, for moments without rules of their own: Java has no rules for the time before
    1900, and a datetime has no year after 9999. Rules repeat after 400 years."""
    if ms > _LAST_MS:
        return ms - ((ms - _LAST_MS) // _CYCLE_MS + 1) * _CYCLE_MS
    if ms < _FIRST_RULE_MS:
        # One of these is in standard time, in the north or in the south.
        return min(_WINTERS_MS, key=lambda winter: offset_ms(zone, winter))
    return ms


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset // _MILLISECOND
