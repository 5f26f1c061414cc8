"""The time zones of java.time.ZoneId, by their ids in configurations."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

# java.time.ZoneId.SHORT_IDS, which older configurations use.
_SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


def time_zone(name: str) -> dt.tzinfo | None:
    """The time zone of one of Java's names, such as `Europe/Berlin`, `PST` or `+02:00`. None for an unknown name."""
    name = _SHORT_ZONES.get(name, name)
    if name in ("UTC", "Z", "GMT", "UT"):
        return dt.UTC
    offset = name.removeprefix("UTC").removeprefix("GMT").removeprefix("UT")
    if offset[:1] in ("+", "-"):
        hours, _, minutes = offset[1:].partition(":")
        try:
            return dt.datetime.strptime(f"{offset[0]}{hours:0>2}:{minutes or '00'}", "%z").tzinfo
        except ValueError:
            return None
    try:
        return ZoneInfo(name) if name in available_timezones() else None
    except (ZoneInfoNotFoundError, ValueError):
        return None
