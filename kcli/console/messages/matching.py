"""Decompresses batches, filters their records and makes rows. All this work runs in a thread, because it is heavy.

A batch of a few kilobytes may have gigabytes after decompression. So records are decoded in parts, only the matching
rows are kept, and the work ends when the page no longer needs it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from kcli.console.messages.fetching import Fetched
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.record import ReadRecord
from kcli.console.messages.rows import Decoders, Json, row
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Columns, Depth, bytes_at, decode, headers_at

CHECK_RECORDS = 64
"""The records between two checks of the deadline. If a record may need a look-up of a schema, the deadline is checked
for each record.
"""


class Stop:
    """A condition that ends the work of threads. It is true after a deadline, or when the page is closed."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def __bool__(self) -> bool:
        return self._closed.is_set() or time.monotonic() >= self._deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A record that matches the filter: its partition, offset and timestamp, and its row for the page."""

    partition: int
    offset: int
    timestamp_ms: int
    row: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The records that a page wants, and how it shows them."""

    decoders: Decoders
    record_filter: RecordFilter | None = None
    limit: int
    show: Callable[[ReadRecord, Decoders], dict[str, Json]] = row
    """Makes the row of a record."""

    @property
    def check_records(self) -> int:
        """The records between two checks of the deadline."""
        return 1 if self.decoders.key.may_wait or self.decoders.value.may_wait else CHECK_RECORDS

    def holds(self, record: ReadRecord) -> bool | None:
        """Whether a record matches the filter. None if the record needs too much work."""
        if self.record_filter is None:
            return True
        decoders, headers = self.decoders, record.headers
        return self.record_filter.matches(
            record,
            lambda raw: decoders.key.tree(raw, headers),
            lambda raw: decoders.value.tree(raw, headers),
        )


@dataclass(slots=True, kw_only=True)
class MatchResult:
    """The result of a chunk. `next_offset` is the offset after the last record that was examined."""

    matches: Sequence[Match] = ()
    records: int = 0
    unknown: int = 0
    next_offset: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    def saw(self, record: ReadRecord) -> None:
        self.records += 1
        self.next_offset = record.offset + 1
        self.last_timestamp_ms = record.timestamp_ms
        if self.first_timestamp_ms is None:
            self.first_timestamp_ms = record.timestamp_ms


def first_matches(fetched: Fetched, end: int, selection: Selection, stop: Stop) -> MatchResult:
    """Returns the first matching records of a chunk before offset `end`, up to the limit of `selection`."""
    matches: list[Match] = []
    result = MatchResult(matches=matches, next_offset=fetched.offset)
    check_records = selection.check_records
    for record in records_of(fetched, end):
        result.saw(record)
        _add(record, selection, matches.append, result)
        if len(matches) >= selection.limit or (result.records % check_records == 0 and stop):
            return result
    result.next_offset = max(result.next_offset, next_offset(fetched, end))
    return result


def last_matches(window: Iterable[Fetched], end: int, selection: Selection, stop: Stop) -> MatchResult:
    """Returns the last matching records of a window before offset `end`, with the last record first."""
    matches: deque[Match] = deque(maxlen=selection.limit)
    result = MatchResult()
    check_records = selection.check_records
    for record in chain.from_iterable(records_of(fetched, end) for fetched in window):
        result.saw(record)
        _add(record, selection, matches.append, result)
        if result.records % check_records == 0 and stop:
            break
    result.matches = tuple(reversed(matches))
    return result


def _add(
    record: ReadRecord, selection: Selection, keep: Callable[[Match], None], result: MatchResult
) -> None:
    holds = selection.holds(record)
    if holds is None:
        result.unknown += 1
    elif holds:
        keep(
            Match(
                partition=record.partition,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                row=selection.show(record, selection.decoders),
            )
        )


def records_of(fetched: Fetched, end: int | None = None) -> Iterator[ReadRecord]:
    """Yields the records of an answer, from the offset that was requested up to `end` (exclusive).

    Raises CorruptRecordError for invalid batches.
    """
    for columns in columns_of(fetched, end):
        yield from _records(columns, fetched.partition)


def columns_of(fetched: Fetched, end: int | None = None) -> Iterator[Columns]:
    """Yields the records of an answer by columns."""
    if fetched.records:
        table = read_headers(fetched.records, f"partition {fetched.partition}")
        yield from decode(
            table, Depth.HEADERS, first_offset=fetched.offset, end_offset=end, aborted=fetched.aborted
        )


def next_offset(fetched: Fetched, end: int) -> int:
    """The offset after the last whole batch of an answer. Without records, the log has no more records before `end`."""
    if not fetched.records:
        return end
    table = read_headers(fetched.records, f"partition {fetched.partition}", check_crc=False)
    return max(table.next_offset, fetched.offset + 1)


def _records(columns: Columns, partition: int) -> Iterator[ReadRecord]:
    assert columns.timestamps is not None and columns.log_append_time is not None
    assert columns.keys is not None and columns.values is not None and columns.headers is not None
    offsets, timestamps = columns.offsets.tolist(), columns.timestamps.tolist()
    append_times = columns.log_append_time.tolist()
    for nth, offset in enumerate(offsets):
        yield ReadRecord(
            partition=partition,
            offset=offset,
            timestamp_ms=timestamps[nth],
            is_append_time=append_times[nth],
            key=bytes_at(columns.buffer, columns.keys, nth),
            value=bytes_at(columns.buffer, columns.values, nth),
            headers=tuple(headers_at(columns.buffer, columns.headers, nth)),
        )
