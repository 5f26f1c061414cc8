"""Time windows. Each window waits some time for late records. Kafka Streams calls this time grace, and in Spark it is
the delay of a watermark.

Durations have the form of Spark: "30 seconds", "5 minutes", "1 day 12 hours".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kcli.model.java_text import parse_long, trim

if TYPE_CHECKING:
    from pyspark.sql import Column

NO_GRACE = "0 seconds"

_UNITS_MS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
"""The units of durations, in milliseconds. Months and years are missing, because Spark has no windows whose lengths
vary."""

_PART = re.compile(rf"\s*([0-9]+)\s+({'|'.join(_UNITS_MS)})s?", re.IGNORECASE | re.ASCII)


def milliseconds(duration: str, what: str) -> int:
    """Parses a duration. Raises ValueError if it is invalid. `what` is the name that the error shows for it."""
    at, total = 0, 0
    while (part := _PART.match(duration, at)) is not None:
        total += parse_long(part[1]) * _UNITS_MS[part[2].lower()]
        at = part.end()
    if at == 0 or trim(duration[at:]):
        raise ValueError(
            f"{what} is {duration!r}: expected a duration like '30 seconds' or '1 hour 30 minutes'"
        )
    return total


def _positive(duration: str, what: str) -> int:
    if (length_ms := milliseconds(duration, what)) == 0:
        raise ValueError(f"{what} is {duration!r}: expected more than 0")
    return length_ms


class Window(Protocol):
    """Assigns windows to records. A record is dropped if it is more than `grace` older than the newest record."""

    @property
    def grace(self) -> str: ...

    def of(self, timestamp: Column) -> Column: ...


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of `size` without gaps or overlaps. Each record is in exactly one window."""

    size: str
    grace: str = NO_GRACE

    def __post_init__(self) -> None:
        _positive(self.size, "size")
        milliseconds(self.grace, "grace")

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.window(timestamp, self.size)


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of `size`, one every `advance`. The windows may overlap, so a record may be in several windows."""

    size: str
    advance: str
    grace: str = NO_GRACE

    def __post_init__(self) -> None:
        if _positive(self.advance, "advance") > _positive(self.size, "size"):
            raise ValueError(
                f"advance is {self.advance!r} and size {self.size!r}: expected an advance that is not longer than size"
            )
        milliseconds(self.grace, "grace")

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.window(timestamp, self.size, self.advance)


@dataclass(frozen=True, slots=True)
class Session:
    """A window for consecutive records of a key that are less than `gap` apart. A pause of `gap` ends the window."""

    gap: str
    grace: str = NO_GRACE

    def __post_init__(self) -> None:
        _positive(self.gap, "gap")
        milliseconds(self.grace, "grace")

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.session_window(timestamp, self.gap)
