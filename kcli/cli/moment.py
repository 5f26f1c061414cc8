"""Parses a point in time on the command line: a date, milliseconds since the epoch, or a duration before now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kcli.model.java_text import parse_double, parse_long, trim

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = r"\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)"
_AGO = re.compile(rf"((?:{_PART}\s*)+?)(?:\s*ago)?", re.ASCII)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FORMS = (
    "a date (2026-05-01, 2026-05-01T12:00:00Z; UTC if it has no time zone), milliseconds since the epoch, or an age "
    "(10m, 2h30m ago, 1d, PT10M)"
)


def epoch_ms(text: str, now_ms: int) -> int:
    """Returns the time in milliseconds since the epoch, at least 0. Raises ValueError with the valid forms."""
    text = trim(text)
    if text.isascii() and text.isdecimal():
        try:
            return parse_long(text)
        except ValueError:
            raise ValueError(
                f"'{text}' is not a time: it exceeds the largest timestamp of a record"
            ) from None
    if text == "now":
        return now_ms
    ago = _AGO.fullmatch(text)
    if ago is not None:
        age_ms = sum(parse_double(amount) * _UNITS_MS[unit] for amount, unit in _AMOUNT.findall(ago[1]))
        return 0 if age_ms >= now_ms else now_ms - round(age_ms)  # a very long amount is infinite
    if text.startswith(("P", "-P", "+P")):
        from kcli.cli.java.date_times import milliseconds_of

        return max(0, now_ms - milliseconds_of(text))
    try:
        moment_at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a time: expected {FORMS}") from None
    if moment_at.tzinfo is None:
        moment_at = moment_at.replace(tzinfo=UTC)
    return max(0, (moment_at - _EPOCH) // timedelta(milliseconds=1))
