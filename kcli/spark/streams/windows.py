"""Windows of time, and how late a record may come (Kafka Streams' grace, Spark's watermark).

Durations are texts as Spark reads them: "30 seconds", "5 minutes", "1 day 12 hours".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

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
"""Months and years have no fixed length, so Spark has no windows of them."""

_PART = re.compile(rf"\s*(\d+)\s+({'|'.join(_UNITS_MS)})s?", re.IGNORECASE)


def milliseconds(duration: str, what: str) -> int:
    """ValueError says what `what` should be."""
    at, total = 0, 0
    while (part := _PART.match(duration, at)) is not None:
        total += int(part[1]) * _UNITS_MS[part[2].lower()]
        at = part.end()
    if at == 0 or duration[at:].strip():
        raise ValueError(
            f"{what} is {duration!r}: expected a duration like '30 seconds' or '1 hour 30 minutes'"
        )
    return total


def _positive(duration: str, what: str) -> int:
    if (found := milliseconds(duration, what)) == 0:
        raise ValueError(f"{what} is {duration!r}: it must be longer than nothing")
    return found


class Window(Protocol):
    """Gives each record its window. A record later than `grace` behind the newest one seen is left out."""

    @property
    def grace(self) -> str: ...

    def of(self, timestamp: Column) -> Column: ...


@dataclass(frozen=True, slots=True)
class Tumbling:
    """One after the other: each record is in one window of `size`."""

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
    """A window of `size` begins every `advance`: a record is in several where they overlap."""

    size: str
    advance: str
    grace: str = NO_GRACE

    def __post_init__(self) -> None:
        if _positive(self.advance, "advance") > _positive(self.size, "size"):
            raise ValueError(
                f"advance is {self.advance!r} and size {self.size!r}: records between windows would be in none; "
                "advance must not be longer"
            )
        milliseconds(self.grace, "grace")

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.window(timestamp, self.size, self.advance)


@dataclass(frozen=True, slots=True)
class Session:
    """Records of a key with less than `gap` between them are one window."""

    gap: str
    grace: str = NO_GRACE

    def __post_init__(self) -> None:
        _positive(self.gap, "gap")
        milliseconds(self.grace, "grace")

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.session_window(timestamp, self.gap)
