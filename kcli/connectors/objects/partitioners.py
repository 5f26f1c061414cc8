"""Partitioners choose the directory of a record, as those of Confluent's storage connectors do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from kcli.connectors.objects.names import SEGMENT_BYTES_MAX, safe_segment
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Instant
from kcli.model.java_dates.formats import SimpleDateFormat
from kcli.model.java_dates.zones import offset_at_wall_ms, offset_ms

Extract = Callable[[SinkRecord, int], int]
"""Returns the time of a record in milliseconds. The second argument is the time of the clock."""
Directory = Callable[[SinkRecord, int], str]
"""Returns the directory of a record. The second argument is the time of the record."""

HOURLY_PATH = "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"
DAILY_PATH = "'year'=YYYY/'month'=MM/'day'=dd"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
_SHOWN_CHARACTERS = 100
_FROM_JODA = {"Y": "y", "x": "Y", "e": "u"}
"""Letters of Joda-Time, which the path format has, and the letters of SimpleDateFormat."""


# Times.


def extractor(kind: str, field: str) -> Extract:
    """The function of a timestamp.extractor: wallclock, record or recordfield."""
    if kind == "wallclock":
        return lambda _, now_ms: now_ms
    return _record_time if kind == "record" else lambda record, _: _field_time(record, field)


def _record_time(record: SinkRecord, _now_ms: int) -> int:
    if record.timestamp is None:
        raise DataException(f"The record at offset {record.offset} has no timestamp")
    return record.timestamp


def _field_time(record: SinkRecord, name: str) -> int:
    value = nested_value(record.value, name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            raise DataException(f"The field {name} has no ISO 8601 time: {value}") from None
        return Instant.of(moment)
    raise DataException(f"The field {name} has no time: {java_string(value)}")


def nested_value(value: object, name: str) -> object:
    """The value of a field. A dot leads into a field, unless a field has the whole name.

    Raises DataException if there is no such field.
    """
    current = value
    while not _has(current, name):
        head, dot, name = name.partition(".")
        if not dot or not _has(current, head):
            raise DataException(f"The field {head} is missing in the value {java_string(value)}")
        current = _get(current, head)
    return _get(current, name)


def _has(value: object, name: str) -> bool:
    if isinstance(value, Struct):
        return name in value.schema.positions
    return isinstance(value, dict) and name in value


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, (Struct, dict)) else None


# Directories.


def default_directory(record: SinkRecord, _record_ms: int) -> str:
    return f"partition={record.original_partition}"


@dataclass(frozen=True, slots=True)
class FieldPartitioner:
    """The directory has the values of fields, such as `country=DE/city=Berlin`."""

    names: Sequence[str]
    delimiter: str

    def __call__(self, record: SinkRecord, _record_ms: int) -> str:
        return self.delimiter.join(self._segment(record, name) for name in self.names)

    def _segment(self, record: SinkRecord, name: str) -> str:
        """Raises DataException for a value that cannot be a directory."""
        value = nested_value(record.value, name)
        if not isinstance(value, (str, int)) or isinstance(value, Instant):
            raise DataException(f"The field {name} is no string, integer or boolean: {java_string(value)}")
        segment = f"{safe_segment(name)}={safe_segment(java_string(value))}"
        if len(segment.encode()) > SEGMENT_BYTES_MAX:
            raise DataException(
                f"The field {name} is too long for a directory: expected at most {SEGMENT_BYTES_MAX} bytes,"
                f" found {segment[:_SHOWN_CHARACTERS]}…"
            )
        return segment


class TimePartitioner:
    """The directory is the beginning of a span of time, written with a path format."""

    def __init__(self, path_format: str, duration_ms: int, zone: tzinfo, delimiter: str) -> None:
        self._format = time_format(path_format, zone)
        self._delimiter = delimiter
        self._duration_ms = duration_ms
        self._zone = zone
        self._last: tuple[int, str] | None = None

    def __call__(self, _record: SinkRecord, record_ms: int) -> str:
        wall = record_ms + offset_ms(self._zone, record_ms)
        begin = wall // self._duration_ms * self._duration_ms
        if self._last is None or self._last[0] != begin:
            moment = begin - offset_at_wall_ms(self._zone, begin)
            self._last = begin, self._format.format(moment).replace("/", self._delimiter)
        return self._last[1]


def time_format(pattern: str, zone: tzinfo) -> SimpleDateFormat:
    """The format of a pattern of Joda-Time. Raises ValueError for an invalid pattern."""
    letters, is_quoted = [], False
    for letter in pattern:
        is_quoted ^= letter == "'"
        letters.append(letter if is_quoted else _FROM_JODA.get(letter, letter))
    return SimpleDateFormat("".join(letters), zone)
