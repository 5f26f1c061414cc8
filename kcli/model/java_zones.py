"""Time zones as Java's date formats know them: their English names, and their offsets from UTC.

A zone is a `tzinfo`, or None for the time zone of the process (the variable TZ). A computer without time zone data
knows only the offsets of the names.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Zone = tzinfo | None

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The first and the last moment whose local time is a datetime in every zone.
_FIRST_MS = (datetime(1, 1, 3) - _EPOCH) // _MILLISECOND
_LAST_MS = (datetime(9999, 12, 29) - _EPOCH) // _MILLISECOND


class Named(NamedTuple):
    """The zone of a name that a text may have. `id` is the zone's name in the time zone data."""

    id: str
    minutes: int


# The abbreviation, the long name, the offset in minutes, and the id. If several zones have an abbreviation, the
# zone that Java lists first has it here.
_NAMES = (
    ("UTC", "Coordinated Universal Time", 0, "Etc/UTC"),
    ("PST", "Pacific Standard Time", -480, "America/Los_Angeles"),
    ("PDT", "Pacific Daylight Time", -420, "America/Los_Angeles"),
    ("MST", "Mountain Standard Time", -420, "America/Denver"),
    ("MDT", "Mountain Daylight Time", -360, "America/Denver"),
    ("CST", "Central Standard Time", -360, "America/Chicago"),
    ("CDT", "Central Daylight Time", -300, "America/Chicago"),
    ("EST", "Eastern Standard Time", -300, "America/New_York"),
    ("EDT", "Eastern Daylight Time", -240, "America/New_York"),
    ("AST", "Atlantic Standard Time", -240, "America/Halifax"),
    ("ADT", "Atlantic Daylight Time", -180, "America/Halifax"),
    ("NST", "Newfoundland Standard Time", -210, "America/St_Johns"),
    ("NDT", "Newfoundland Daylight Time", -150, "America/St_Johns"),
    ("AKST", "Alaska Standard Time", -540, "America/Anchorage"),
    ("AKDT", "Alaska Daylight Time", -480, "America/Anchorage"),
    ("HST", "Hawaii-Aleutian Standard Time", -600, "Pacific/Honolulu"),
    ("BRT", "Brasilia Standard Time", -180, "America/Sao_Paulo"),
    ("BRST", "Brasilia Summer Time", -120, "America/Sao_Paulo"),
    ("ART", "Argentina Standard Time", -180, "America/Argentina/Buenos_Aires"),
    ("WET", "Western European Standard Time", 0, "Europe/Lisbon"),
    ("WEST", "Western European Summer Time", 60, "Europe/Lisbon"),
    ("GMT", "Greenwich Mean Time", 0, "Etc/GMT"),
    ("BST", "British Summer Time", 60, "Europe/London"),
    ("CET", "Central European Standard Time", 60, "Europe/Paris"),
    ("CEST", "Central European Summer Time", 120, "Europe/Paris"),
    ("EET", "Eastern European Standard Time", 120, "Europe/Athens"),
    ("EEST", "Eastern European Summer Time", 180, "Europe/Athens"),
    ("CAT", "Central Africa Time", 120, "Africa/Harare"),
    ("SAST", "South Africa Standard Time", 120, "Africa/Johannesburg"),
    ("EAT", "East Africa Time", 180, "Africa/Nairobi"),
    ("MSK", "Moscow Standard Time", 180, "Europe/Moscow"),
    ("IRST", "Iran Standard Time", 210, "Asia/Tehran"),
    ("GST", "Gulf Standard Time", 240, "Asia/Dubai"),
    ("PKT", "Pakistan Standard Time", 300, "Asia/Karachi"),
    ("IST", "India Standard Time", 330, "Asia/Kolkata"),
    ("ICT", "Indochina Time", 420, "Asia/Bangkok"),
    ("WIB", "Western Indonesia Time", 420, "Asia/Jakarta"),
    ("HKT", "Hong Kong Standard Time", 480, "Asia/Hong_Kong"),
    ("SGT", "Singapore Standard Time", 480, "Asia/Singapore"),
    ("AWST", "Australian Western Standard Time", 480, "Australia/Perth"),
    ("JST", "Japan Standard Time", 540, "Asia/Tokyo"),
    ("KST", "Korean Standard Time", 540, "Asia/Seoul"),
    ("ACST", "Australian Central Standard Time", 570, "Australia/Adelaide"),
    ("ACDT", "Australian Central Daylight Time", 630, "Australia/Adelaide"),
    ("AEST", "Australian Eastern Standard Time", 600, "Australia/Sydney"),
    ("AEDT", "Australian Eastern Daylight Time", 660, "Australia/Sydney"),
    ("NZST", "New Zealand Standard Time", 720, "Pacific/Auckland"),
    ("NZDT", "New Zealand Daylight Time", 780, "Pacific/Auckland"),
)


def _table() -> tuple[dict[str, Named], dict[str, str]]:
    """The zones by name in lower case, and the long names by abbreviation."""
    zones: dict[str, Named] = {}
    long_names: dict[str, str] = {}
    for abbreviation, long_name, minutes, zone_id in _NAMES:
        named = Named(zone_id, minutes)
        zones[abbreviation.lower()] = zones[long_name.lower()] = named
        long_names[abbreviation] = long_name
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
    naive = _EPOCH + timedelta(milliseconds=_bounded(wall_ms))
    both = (naive.replace(fold=fold) for fold in (0, 1))
    return min(
        _offset(moment.astimezone() if zone is None else moment.replace(tzinfo=zone)) for moment in both
    )


def zone_name(zone: Zone, moment_ms: int, *, is_long: bool) -> str:
    """The name of a zone at a moment, such as `PDT` or `Pacific Daylight Time`."""
    name = _local(zone, moment_ms).tzname() or "UTC"
    return _LONG_NAMES.get(name, name) if is_long else name


def _local(zone: Zone, moment_ms: int) -> datetime:
    return (_EPOCH_UTC + timedelta(milliseconds=_bounded(moment_ms))).astimezone(zone)


def _bounded(ms: int) -> int:
    return min(max(ms, _FIRST_MS), _LAST_MS)


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset // _MILLISECOND
