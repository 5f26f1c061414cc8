"""Decodes record batches (magic 2) by columns: numpy arrays of offsets, timestamps and positions of bytes.

`batch_headers.read_headers` reads the headers of the batches. Then `decode` yields `Columns` of about `CHUNK_RECORDS`
records each. No Python code runs for each record. `record_starts` finds the start of every record. Then one numpy
operation reads a field of all records of a chunk.

With `Depth` the caller chooses how much of each record is read. The rest of the record is neither read nor checked.
Keys, values and headers are not copied: `Spans` have their positions in the chunk's buffer. If nothing is compressed,
this buffer is the input. Every size is checked before it is used. An error about a corrupt batch contains the partition
and the offset of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kcli.errors import KafkaError
from kcli.model.java_utf8 import decode_utf8
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    read_header,
)
from kcli.protocol.batches.batch_headers import BatchHeaders, aborted_batches, corrupt
from kcli.protocol.batches.compression import Codec, InflatesTooFar, decompress
from kcli.protocol.batches.record_parts import RecordPart, batch_parts
from kcli.protocol.batches.record_starts import (
    MAX_VARLONG_SIZE,
    MIN_RECORD_SIZE,
    Bytes,
    Ints,
    record_starts,
    varints,
)

CHUNK_RECORDS = 32_768
"""The number of records in a chunk. With this number, the columns of a chunk fit into the CPU's cache. Numbers from 16k
to 64k are equally fast."""

CHUNK_BYTES = 64 << 20
"""The decompressed size at which a chunk is complete. A batch is never split, so a chunk may be larger."""


MAX_RATIO = 64
"""The highest compression ratio for which a record count is trusted. If the record count in a header needs a higher
ratio, the count is not trusted before the batch is decompressed."""


MIN_INT32 = -1 << 31
"""The lower bound for a length that is read from a record."""


class Depth(IntEnum):
    """The parts of each record that are read. Each level includes the levels before it."""

    OFFSET = 0
    TIMESTAMP = 1
    KEY = 2
    VALUE = 3
    HEADERS = 4


@dataclass(frozen=True, slots=True)
class Spans:
    """Byte strings as positions and lengths in a buffer. The length of a null is -1."""

    starts: Ints
    lengths: Ints

    def __getitem__(self, rows: slice) -> Spans:
        return Spans(self.starts[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class HeaderColumns:
    """The headers of all records, in the order of the records. Record r has the headers from `offsets[r]` to `offsets[r
    + 1]` (exclusive)."""

    offsets: Ints
    keys: Spans
    values: Spans


@dataclass(frozen=True, slots=True)
class Columns:
    """Some records of one partition, in offset order. A column that the chosen `Depth` does not include is None."""

    buffer: bytes
    offsets: Ints
    timestamps: Ints | None = None
    log_append_time: NDArray[np.bool_] | None = None
    keys: Spans | None = None
    values: Spans | None = None
    headers: HeaderColumns | None = None

    def __len__(self) -> int:
        return len(self.offsets)


def decode(
    table: BatchHeaders,
    depth: Depth,
    *,
    first_offset: int = 0,
    end_offset: int | None = None,
    aborted: Iterable[AbortedTransaction] | None = None,
) -> Iterator[Columns]:
    """Yields the data records of `table` from `first_offset` up to `end_offset` (exclusive), in chunks.

    Control batches and the batches of the transactions in `aborted` are left out.
    """
    mask = (table.headers["attributes"] & CONTROL == 0) & (table.headers["count"] > 0)
    mask &= table.headers["base_offset"] + table.headers["last_offset_delta"] >= first_offset
    if end_offset is not None:
        mask &= table.headers["base_offset"] < end_offset
    if aborted is not None:
        mask &= ~aborted_batches(table, aborted)
    rows = np.flatnonzero(mask)
    counts = table.headers["count"][rows].astype(np.int64)
    sizes = table.headers["length"][rows].astype(np.int64)
    chunk = np.maximum((np.cumsum(counts) - 1) // CHUNK_RECORDS, (np.cumsum(sizes) - 1) // CHUNK_BYTES)
    for part in np.split(rows, np.flatnonzero(np.diff(chunk)) + 1):
        if len(part):
            for columns in _decode_chunk(table, part, depth):
                yield _between(columns, first_offset, end_offset)


def _between(columns: Columns, first_offset: int, end_offset: int | None) -> Columns:
    offsets = columns.offsets
    low = int(np.searchsorted(offsets, first_offset))
    high = len(offsets) if end_offset is None else int(np.searchsorted(offsets, end_offset))
    if low == 0 and high == len(offsets):
        return columns
    rows = slice(low, high)
    headers = columns.headers
    if headers is not None:
        entries = slice(int(headers.offsets[low]), int(headers.offsets[high]))
        moved = headers.offsets[low : high + 1] - headers.offsets[low]
        headers = HeaderColumns(moved, headers.keys[entries], headers.values[entries])
    return Columns(
        columns.buffer,
        offsets[rows],
        None if columns.timestamps is None else columns.timestamps[rows],
        None if columns.log_append_time is None else columns.log_append_time[rows],
        None if columns.keys is None else columns.keys[rows],
        None if columns.values is None else columns.values[rows],
        headers,
    )


def _decode_chunk(table: BatchHeaders, rows: Ints, depth: Depth) -> Iterator[Columns]:
    headers = table.headers[rows]
    counts = headers["count"].astype(np.int64)
    if depth is Depth.OFFSET and _is_dense(headers, counts):
        # Every offset has a record, so the offsets are consecutive. They need not be read from the records.
        first = np.cumsum(counts) - counts
        yield Columns(b"", np.arange(int(counts.sum())) + np.repeat(headers["base_offset"] - first, counts))
        return
    for walk in walks(table, rows):
        yield walk.columns(depth)


def walks(table: BatchHeaders, rows: Ints) -> Iterator[RecordWalk]:
    """Yields the records of the batches `rows`, for callers that need the bytes of each record. Every batch must have
    at least one record."""
    for walk in whole_walks(table, rows):
        if isinstance(walk, GiantBatch):
            yield from walk.walks()
        else:
            yield walk


def whole_walks(table: BatchHeaders, rows: Ints) -> Iterator[RecordWalk | GiantBatch]:
    """Yields the same as `walks`, except that a batch that is too large for memory is yielded as a `GiantBatch`."""
    for area in _areas(table, rows):
        if isinstance(area, GiantBatch):
            yield area
        else:
            part, buffer, begins, ends = area
            yield walk_of(table, part, buffer, begins, ends)


@dataclass(frozen=True, slots=True)
class GiantBatch:
    """The batch `row`, which has more than MAX_DECOMPRESSED_BYTES after decompression."""

    table: BatchHeaders
    row: int

    def walks(self) -> Iterator[RecordWalk]:
        """Yields the records of the batch, a part at a time."""
        start = int(self.table.positions[self.row])
        header = read_header(self.table.raw, start)
        try:
            for part in batch_parts(memoryview(self.table.raw)[start:], header, whole=True):
                assert isinstance(part, RecordPart), "large records are buffered too"
                if len(part):
                    yield part_walk(self.table, self.row, part)
        except KafkaError as error:
            raise corrupt(self.table, self.row, f"does not decompress to records: {error}") from error


def _is_dense(headers: NDArray[np.void], counts: Ints) -> bool:
    """Whether the batches have a record for every offset, according to their headers. Also False if a batch has too few
    bytes for the number of records in its header: a wrong number must not cause a large allocation."""
    room = headers["length"].astype(np.int64) * np.where(headers["attributes"] & CODEC_MASK, MAX_RATIO, 1)
    dense = (headers["last_offset_delta"] + 1 == counts) & (counts * MIN_RECORD_SIZE <= room)
    return bool(dense.all())


def _areas(table: BatchHeaders, rows: Ints) -> Iterator[tuple[Ints, bytes, Ints, Ints] | GiantBatch]:
    """Yields tuples (rows, buffer, starts, ends). In `buffer`, the records of the batch `rows[i]` begin at `starts[i]`
    and end at `ends[i]`.

    Without compression the buffer is the input. Otherwise the decompressed batches are joined in new buffers, each of
    about CHUNK_BYTES. A giant batch is yielded separately.
    """
    begins = table.positions[rows] + HEADER_SIZE
    ends = table.positions[rows] + LENGTH_OVERHEAD + table.headers["length"][rows]
    codecs = (table.headers["attributes"][rows] & CODEC_MASK).tolist()
    if not any(codecs):
        yield rows, table.raw, begins, ends
        return
    view = memoryview(table.raw)
    parts: list[bytes | memoryview] = []
    first = size = 0
    for nth, codec in enumerate(codecs):
        area: bytes | memoryview | None = view[int(begins[nth]) : int(ends[nth])]
        if codec:
            area = _decompressed(table, int(rows[nth]), codec, view[int(begins[nth]) : int(ends[nth])])
        if area is not None:
            parts.append(area)
            size += len(area)
        if parts and (area is None or size >= CHUNK_BYTES or nth + 1 == len(codecs)):
            stops = np.cumsum([len(part) for part in parts])
            starts = stops - [len(part) for part in parts]
            yield rows[first : first + len(parts)], b"".join(parts), starts, stops
            parts, first, size = [], nth + 1, 0
        if area is None:
            yield GiantBatch(table, int(rows[nth]))
            first = nth + 1


def _decompressed(table: BatchHeaders, row: int, codec: int, area: memoryview) -> bytes | None:
    """The decompressed bytes of a batch's records. None if they have more than MAX_DECOMPRESSED_BYTES."""
    try:
        known = Codec(codec)
    except ValueError:
        raise corrupt(table, row, f"is compressed by unknown codec {codec}") from None
    try:
        return decompress(known, area)
    except InflatesTooFar:
        return None
    except KafkaError as error:
        raise corrupt(table, row, f"does not decompress: {error}") from error


def walk_of(table: BatchHeaders, rows: Ints, buffer: bytes, begins: Ints, ends: Ints) -> RecordWalk:
    """Makes a `RecordWalk` over the records of the batches `rows`. In `buffer`, the encoded records of the batch
    `rows[i]` begin at `begins[i]` and end at `ends[i]`.
    """
    counts = table.headers["count"][rows].astype(np.int64)
    crowded = np.flatnonzero(counts * MIN_RECORD_SIZE > ends - begins)
    if len(crowded):
        nth = int(crowded[0])
        size = int(ends[nth] - begins[nth])
        raise corrupt(table, int(rows[nth]), f"counts {counts[nth]} records in {size} bytes")
    starts, record_ends, wrong = record_starts(np.frombuffer(buffer, np.uint8), begins, ends, counts)
    if wrong >= 0:
        raise corrupt(table, int(rows[wrong]), "holds records that do not fill it exactly")
    return RecordWalk(table, rows, buffer, counts, starts, record_ends)


def part_walk(table: BatchHeaders, row: int, part: RecordPart) -> RecordWalk:
    """Makes a `RecordWalk` over one part of the records of the batch `row`."""
    ends = np.append(part.starts[1:], len(part.buffer))
    if (ends - part.starts < MIN_RECORD_SIZE).any():
        raise corrupt(table, row, f"holds a record of less than {MIN_RECORD_SIZE} bytes")
    return RecordWalk(table, np.array([row]), part.buffer, np.array([len(part)]), part.starts, ends)


class RecordWalk:
    """Reads the records of a chunk of batches, one field of all records at a time.

    `rows` are the batches, and `counts` has the number of records of each batch. `raw[starts[r]:ends[r]]` is the whole
    record r.
    """

    def __init__(
        self, table: BatchHeaders, rows: Ints, buffer: bytes, counts: Ints, starts: Ints, ends: Ints
    ) -> None:
        self.table, self.rows, self.raw = table, rows, buffer
        self.buffer: Bytes = np.frombuffer(buffer, np.uint8)
        self.headers = table.headers[rows]
        self.counts, self.starts, self.ends = counts, starts, ends

    def columns(self, depth: Depth, *, any_offsets: bool = False) -> Columns:
        """Reads the columns. If `any_offsets` is True, the offset deltas are not checked, because the caller replaces
        them."""
        _, at = varints(self.buffer, self.starts)
        deltas, at = varints(self.buffer, at + 1, MAX_VARLONG_SIZE)  # 1 is the unused byte of attributes
        timestamps, log_append_time = self._timestamps(deltas)
        deltas, at = varints(self.buffer, at)
        offsets = np.repeat(self.headers["base_offset"].astype(np.int64), self.counts) + deltas
        if not any_offsets:
            self._check_offsets(offsets, deltas)
        keys = values = headers = None
        if depth >= Depth.KEY:
            keys, at = self._spans(at, "key")
        if depth >= Depth.VALUE:
            values, at = self._spans(at, "value")
        if depth >= Depth.HEADERS:
            headers = self._headers(at)
        else:
            self._check(at >= self.ends, "runs beyond its end")
        return Columns(self.raw, offsets, timestamps, log_append_time, keys, values, headers)

    def _timestamps(self, deltas: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        append_time = self.headers["attributes"] & LOG_APPEND_TIME != 0
        by_broker = np.repeat(append_time, self.counts)
        timestamps = np.repeat(self.headers["base_timestamp"].astype(np.int64), self.counts) + deltas
        if append_time.any():
            of_broker = np.repeat(self.headers["max_timestamp"].astype(np.int64), self.counts)
            timestamps = np.where(by_broker, of_broker, timestamps)
        return timestamps, by_broker

    def _spans(self, at: Ints, field: str) -> tuple[Spans, Ints]:
        lengths, begin = _lengths(self.buffer, at)
        end = begin + np.maximum(lengths, 0)
        self._check((lengths < -1) | (end > self.ends), f"has a {field} that runs beyond its end")
        return Spans(begin, lengths), end

    def _headers(self, at: Ints) -> HeaderColumns:
        counts, at = varints(self.buffer, at)
        # Each header has at least two bytes: the lengths of its key and its value.
        self._check((counts < 0) | (counts * 2 > self.ends - at), "counts more headers than it can hold")
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        total = int(offsets[-1])
        keys = Spans(np.empty(total, np.int64), np.empty(total, np.int64))
        values = Spans(np.empty(total, np.int64), np.empty(total, np.int64))
        rows, nth = np.flatnonzero(counts), 0
        while len(rows):
            entry = offsets[rows] + nth
            for spans, least in ((keys, 0), (values, -1)):
                lengths, begin = _lengths(self.buffer, at[rows])
                end = begin + np.maximum(lengths, 0)
                self._check(
                    (lengths < least) | (end > self.ends[rows]), "has a header that runs beyond its end", rows
                )
                spans.starts[entry], spans.lengths[entry] = begin, lengths
                at[rows] = end
            nth += 1
            rows = rows[counts[rows] > nth]
        self._check(at != self.ends, "does not end after its headers")
        return HeaderColumns(offsets, keys, values)

    def _check_offsets(self, offsets: Ints, deltas: Ints) -> None:
        """Checks that the offset deltas of a batch rise and do not exceed the last offset delta in its header."""
        lasts = np.repeat(self.headers["last_offset_delta"].astype(np.int64), self.counts)
        wrong = (deltas < 0) | (deltas > lasts)
        wrong[1:] |= offsets[1:] <= offsets[:-1]
        self._check(wrong, "has an offset outside its batch or not above the one before")

    def _check(self, wrong: NDArray[np.bool_], what: str, rows: Ints | None = None) -> None:
        if not wrong.any():
            return
        record = int(np.flatnonzero(wrong)[0])
        if rows is not None:
            record = int(rows[record])
        lane = int(np.searchsorted(np.cumsum(self.counts), record, side="right"))
        nth = record - int(self.counts[:lane].sum())
        raise corrupt(self.table, int(self.rows[lane]), f"is corrupt: its record {nth + 1} {what}")


def _lengths(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The lengths of fields. As in Kafka, every negative length means null. The result is -1 for a null."""
    lengths, end = varints(buffer, at)
    is_null = (lengths < -1) & (lengths >= MIN_INT32)
    if is_null.any():
        lengths[is_null] = -1
    return lengths, end


def bytes_at(buffer: bytes, spans: Spans, nth: int) -> bytes | None:
    """Returns the byte string number `nth` of `spans`, as bytes or None. Copies the bytes, so this function is too slow
    for all records of a batch."""
    length = int(spans.lengths[nth])
    start = int(spans.starts[nth])
    return None if length < 0 else buffer[start : start + length]


def headers_at(buffer: bytes, headers: HeaderColumns, nth: int) -> list[tuple[str, bytes | None]]:
    """The headers of record number `nth`."""
    entries = range(int(headers.offsets[nth]), int(headers.offsets[nth + 1]))
    return [
        (
            decode_utf8(bytes_at(buffer, headers.keys, entry) or b""),
            bytes_at(buffer, headers.values, entry),
        )
        for entry in entries
    ]
