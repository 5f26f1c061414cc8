"""Searches the segments of a log by offset, timestamp and transaction. No function here changes a segment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence

from kcli.model.ids import Offset, Position
from kcli.protocol.batches.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    BatchHeader,
    Record,
    decode_records,
    read_header,
    read_records,
)
from kcli.protocol.batches.compression import decompress_small
from kcli.storage.log.batch_search import headers_near
from kcli.storage.log.index import TimestampOffset
from kcli.storage.log.record_validation import FEW_RECORDS, SMALL_BYTES
from kcli.storage.log.segment import Segment
from kcli.storage.log.transaction_index import AbortedTransaction


def segments_from(segments: Sequence[Segment], offset: Offset) -> Sequence[Segment]:
    """The segments that may contain `offset` or later offsets."""
    if offset >= segments[-1].base_offset:
        return segments[-1:]
    count = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    return segments[max(count - 1, 0) :]


def whole_batches(
    segment: Segment, offset: Offset, max_bytes: int, *, end_offset: Offset | None, at_least_one: bool
) -> tuple[Position, Position] | None:
    """Finds a range of whole batches, and returns its start and end position.

    The range begins with the batch that contains `offset`. It ends before `end_offset`, or at the end of the segment if
    `end_offset` is None. It has at most `max_bytes`. Returns None if this segment has no batch at or after `offset`.
    """
    place = segment.locate(offset, doubting_gaps=True)
    if place is None:
        return None
    start, first_size = place
    end = segment.end_position
    if end_offset is not None:
        limit = segment.locate(end_offset)
        end = end if limit is None else limit[0]
    if end - start > max_bytes:
        end = segment.boundary_at_or_below(start, Position(start + max_bytes))
        if end == start and at_least_one:
            end = Position(start + first_size)
    return start, max(end, start)


Search = Generator[None, None, TimestampOffset | None]
"""A search for a record by its timestamp, in steps of a few milliseconds. A search that takes long yields before its
first long step. The owner of the log may run the steps in another thread."""

HEADERS_OF_A_STEP = 500
SEGMENTS_OF_A_STEP = 20


def search_timestamp(segments: Sequence[Segment], timestamp_ms: int, log_start_offset: Offset) -> Search:
    """Searches for the first record at or after the timestamp. The result is None if all records are older."""
    for nth, segment in enumerate(segments, 1):
        if nth % SEGMENTS_OF_A_STEP == 0:
            yield
        if segment.largest_timestamp_ms() >= timestamp_ms:
            record = yield from _search_segment(segment, timestamp_ms, log_start_offset)
            if record is not None:
                return record
    return None


def search_max_timestamp(segments: Sequence[Segment], log_start_offset: Offset) -> Search:
    """Searches for the first record with the largest timestamp. The result is None if the log has no timestamps."""
    segment = max(segments, key=lambda segment: segment.max_timestamp().timestamp_ms)
    newest_ms = segment.max_timestamp().timestamp_ms
    if newest_ms < 0:
        return None
    return (yield from _search_segment(segment, newest_ms, log_start_offset))


def _search_segment(segment: Segment, timestamp_ms: int, start_offset: Offset) -> Search:
    """Searches a segment for the first record that is neither before `timestamp_ms` nor before `start_offset`."""
    start = max(segment.time_index.lookup(timestamp_ms).offset, start_offset)
    try:
        file = segment.log.file()
        for nth, (position, header) in enumerate(headers_near(segment, start), 1):
            if nth % HEADERS_OF_A_STEP == 0:
                yield
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < start_offset:
                continue
            batch = file.read_at(position, header.size_bytes)
            record = yield from _search_batch(batch, segment.log.path, timestamp_ms, start_offset)
            if record is not None:
                return record
    except FileNotFoundError:
        if not segment.deleted:  # retention may remove it between two steps
            raise
    return None


def _search_batch(batch: bytes, path: str, timestamp_ms: int, start_offset: Offset) -> Search:
    header = read_header(batch)
    records = _few_records(batch, header)
    if records is None:
        yield
        if header.magic == CURRENT_MAGIC:
            from kcli.storage.log.opening import search_batch  # loads numpy

            return (yield from search_batch(batch, header, path, timestamp_ms, start_offset))
        records = read_records(batch)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimestampOffset(record.timestamp_ms, Offset(record.offset))
    return None


def _few_records(batch: bytes, header: BatchHeader) -> Iterator[Record] | None:
    """The records of a batch. None if reading them would take longer than a few milliseconds."""
    if len(batch) > SMALL_BYTES or header.records_count > FEW_RECORDS:
        return None
    if header.magic < CURRENT_MAGIC:
        return None if header.is_compressed else read_records(batch)
    if len(batch) < header.size_bytes or not header.is_compressed:
        return read_records(batch)
    payload = decompress_small(header.codec, memoryview(batch)[HEADER_SIZE:], SMALL_BYTES)
    return None if payload is None else decode_records(header, payload)


def aborted_transactions(
    segments: Sequence[Segment], from_offset: Offset, upper_offset: Offset
) -> list[AbortedTransaction]:
    """The aborted transactions that have records from `from_offset` up to `upper_offset` (exclusive). read_committed
    consumers drop these records."""
    aborted = []
    for segment in segments_from(segments, from_offset):
        entries = segment.txn_index.entries()
        for at in range(_first_ending_at(entries, from_offset), len(entries)):
            entry = entries[at]
            if entry.first_offset < upper_offset:
                aborted.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return aborted
    return aborted


def has_aborted_transactions(segments: Sequence[Segment], from_offset: Offset) -> bool:
    """Whether an aborted transaction ends at or after the offset. Such a transaction may have records after the
    offset."""
    entry_lists = (segment.txn_index.entries() for segment in segments_from(segments, from_offset))
    return any(entries and entries[-1].last_offset >= from_offset for entries in entry_lists)


def _first_ending_at(entries: Sequence[AbortedTransaction], offset: Offset) -> int:
    """The index of the first entry whose marker is at or after the offset. Entries are in the order of their
    markers."""
    return bisect_left(entries, offset, key=lambda entry: entry.last_offset)


def upper_bound_offset(
    segments: Sequence[Segment], offset: Offset, size_bytes: int, log_end_offset: Offset
) -> Offset:
    """Returns an offset after all records of a Fetch answer. The answer lists the aborted transactions up to this
    offset.

    The answer begins at `offset` and has `size_bytes` bytes.
    """
    candidates = segments_from(segments, offset)
    for nth, segment in enumerate(candidates, 1):
        place = segment.locate(offset)
        if place is None:
            continue  # compaction or a crash removed the rest of this segment, so the read begins in the next one
        bound = segment.offset_index.upper_bound(Position(place[0] + size_bytes))
        if bound is not None:
            return bound
        return candidates[nth].base_offset if nth < len(candidates) else log_end_offset
    return log_end_offset
