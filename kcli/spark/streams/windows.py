"""Windows of time, and how late a record may come (Kafka Streams' grace, Spark's watermark).

Durations are texts as Spark reads them: "30 seconds", "5 minutes", "1 day".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column

NO_GRACE = "0 seconds"


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

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.window(timestamp, self.size)


@dataclass(frozen=True, slots=True)
class Hopping:
    """A window of `size` begins every `advance`: a record is in several where they overlap."""

    size: str
    advance: str
    grace: str = NO_GRACE

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.window(timestamp, self.size, self.advance)


@dataclass(frozen=True, slots=True)
class Session:
    """Records of a key with less than `gap` between them are one window."""

    gap: str
    grace: str = NO_GRACE

    def of(self, timestamp: Column) -> Column:
        from pyspark.sql import functions as F

        return F.session_window(timestamp, self.gap)
