"""Formats and parses dates as Java's SimpleDateFormat does, in the locale `en`."""

from __future__ import annotations

from datetime import UTC

from kcli.model.java_dates.calendar import Moment, wall_ms
from kcli.model.java_dates.patterns import pieces
from kcli.model.java_dates.reader import PlainReader, Reader, UnparseableDate, short_years_begin_ms
from kcli.model.java_dates.writer import Written, writer
from kcli.model.java_dates.zones import Zone, offset_at_wall_ms, offset_ms
from kcli.model.java_numbers import to_long

__all__ = ["SimpleDateFormat", "UnparseableDate"]


class SimpleDateFormat:
    """A pattern. `zone` is the time zone of the texts. A text that names a zone changes it for the next texts.

    Raises ValueError with Java's message for an invalid pattern.
    """

    __slots__ = ("_pieces", "_plain", "_writers", "pattern", "zone")

    def __init__(self, pattern: str, zone: Zone = UTC) -> None:
        self.pattern = pattern
        self.zone = zone
        self._pieces = pieces(pattern)
        self._plain = PlainReader.of(self._pieces)
        self._writers = [writer(piece) for piece in self._pieces]

    def format(self, ms: int) -> str:
        """The text of a moment, in milliseconds since 1970 in UTC."""
        offset = 0 if self.zone is UTC else offset_ms(self.zone, ms)
        written = Written(Moment(ms + offset), ms, offset, self.zone)
        return "".join([write(written) for write in self._writers])

    def parse(self, text: str) -> int:
        """The moment of a text, in milliseconds since 1970 in UTC. Raises UnparseableDate."""
        if self._plain is not None and (wall := self._plain.wall_ms(text)) is not None:
            is_utc = self._plain.is_utc or self.zone is UTC
            return wall if is_utc else wall - offset_at_wall_ms(self.zone, wall)
        reader = Reader(text, self._pieces)
        reader.read()
        fields = reader.fields
        if reader.zone_of_text is not None:
            self.zone = reader.zone_of_text
        ms = self._ms(fields)
        if reader.has_first_short_year and ms < short_years_begin_ms():
            ms = self._ms(fields | {"y": fields["y"] + 100})
        return ms

    def _ms(self, fields: dict[str, int]) -> int:
        wall = wall_ms(fields)
        offset = fields["Z"] if "Z" in fields else offset_at_wall_ms(self.zone, wall)
        return to_long(wall - offset)
