"""Parses date-times and durations on the command line of kafka-consumer-groups, as Java does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from kcli.model.java_text import parse_int, parse_long

_DATETIME = re.compile(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2})T(\d{1,2}):(\d{1,2}):(\d{1,2})\.(\d{1,3})(Z|[+-]\d{2}(?::?\d{2})?)",
    re.ASCII,
)
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def epoch_ms_of(text: str) -> int:
    """Returns the time `YYYY-MM-DDTHH:mm:ss.sss[Z|±hh[:mm]]` in milliseconds since the epoch.

    The default zone is UTC. Raises ValueError with Java's message.
    """
    _, separator, clock = text.partition("T")
    if not separator or not clock:
        raise ValueError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    zoned = text if any(mark in clock for mark in "+-Z") else f"{text}Z"
    match = _DATETIME.fullmatch(zoned)
    unparseable = ValueError(f'java.text.ParseException: Unparseable date: "{zoned}"')
    if match is None:
        raise unparseable
    year, month, day, hour, minute, second, millisecond = map(parse_int, match.groups()[:7])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(match[8]))
    except ValueError:
        raise unparseable from None
    return int(moment.timestamp()) * 1000 + millisecond


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    minutes = parse_int(text[1:3]) * 60 + parse_int(text[3:].lstrip(":") or "0")
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def milliseconds_of(text: str) -> int:
    """Returns the duration `PnDTnHnMn.nS` in milliseconds. Raises ValueError with Java's message."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.group(2, 4, 5, 6)) or (match[3] is not None and len(match[3]) == 1):
        raise ValueError("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    try:
        counts = [parse_long(amount or "0") for amount in (days, hours, minutes, seconds)]
        whole = timedelta(days=counts[0], hours=counts[1], minutes=counts[2], seconds=counts[3])
    except (ValueError, OverflowError):
        raise ValueError("Text cannot be parsed to a Duration") from None
    nanoseconds = parse_int((fraction or "").ljust(9, "0"))
    milliseconds = whole // timedelta(milliseconds=1)
    milliseconds += (
        -(nanoseconds // 1_000_000) if (seconds or "").startswith("-") else nanoseconds // 1_000_000
    )
    return -milliseconds if sign == "-" else milliseconds
