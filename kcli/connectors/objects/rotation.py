"""Decides when the objects of a partition are complete.

The decisions depend only on the records since the last stored object, and on the clock only for
rotate.schedule.interval.ms and the extractor Wallclock. So a task that reads the records again makes the same objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from kcli.model.java_dates.zones import offset_at_wall_ms, offset_ms

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class RotationSettings:
    flush_size: int
    interval_ms: int
    """The span of record times in an object. 0 stands for any."""
    schedule_ms: int
    """The time between rotations by the clock, counted from midnight. 0 stands for none."""
    zone: tzinfo
    ends_with_directory: bool
    """Whether objects are complete when a record belongs to another directory, because directories are times."""
    uses_clock: bool
    """Whether the time of a record is that of the clock."""


@dataclass(slots=True)
class Rotation:
    """The records since the last stored object of one partition."""

    settings: RotationSettings
    count: int = 0
    first_ms: int | None = None
    directory: str | None = None
    _next_ms: int | None = None

    def is_due_before(self, directory: str, record_ms: int | None) -> bool:
        """Whether the open objects are complete before a record of this directory and time is added."""
        interval = self.settings.interval_ms
        if not self.count or interval <= 0 or record_ms is None or self.first_ms is None:
            return False
        changed = self.settings.ends_with_directory and directory != self.directory
        return changed or record_ms - self.first_ms >= interval

    def add(self, directory: str, record_ms: int | None) -> None:
        if not self.count:
            self.first_ms = record_ms
        self.count += 1
        self.directory = directory

    @property
    def is_full(self) -> bool:
        return self.count >= self.settings.flush_size

    def is_due_by_clock(self, now_ms: int) -> bool:
        """Whether the clock ends the open objects, even without another record."""
        settings = self.settings
        if settings.schedule_ms > 0:
            if self._next_ms is None:
                self._next_ms = next_scheduled_ms(now_ms, settings.schedule_ms, settings.zone)
            if now_ms >= self._next_ms:
                self._next_ms = next_scheduled_ms(now_ms, settings.schedule_ms, settings.zone)
                return self.count > 0
        if not self.count or not settings.uses_clock or settings.interval_ms <= 0 or self.first_ms is None:
            return False
        return now_ms - self.first_ms >= settings.interval_ms

    def restart(self) -> None:
        """The open objects are stored."""
        self.count = 0
        self.first_ms = self.directory = None


def next_scheduled_ms(now_ms: int, interval_ms: int, zone: tzinfo) -> int:
    """The next moment that is a whole number of intervals after midnight of a time zone."""
    wall = now_ms + offset_ms(zone, now_ms)
    midnight = wall // _DAY_MS * _DAY_MS
    begin = midnight - offset_at_wall_ms(zone, midnight)
    return begin + ((now_ms - begin) // interval_ms + 1) * interval_ms
