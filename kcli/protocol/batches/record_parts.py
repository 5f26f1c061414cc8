"""The records of one batch in parts, so that no batch has to be in memory as a whole.

A part is a buffer of whole records, about as large as a piece that the decompression yields. A record that is larger
than LARGE_BYTES is a separate part, a `LargeRecord`. Its reader gets the fields before the key, and reads or skips
the rest in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kcli.errors import InvalidRecordException
from kcli.model.buffers import Buffer
from kcli.protocol.batches.batch import HEADER_SIZE, BatchHeader
from kcli.protocol.batches.byte_stream import ByteStream
from kcli.protocol.batches.compression import inflate
from kcli.protocol.batches.record_starts import Ints
from kcli.protocol.wire.varint import VarintError, read_varint

LARGE_BYTES = 8 << 20
"""Records up to this size are buffered as a whole. The value is eight times Kafka's default max.message.bytes."""

MOST_RECORDS = 65_536
"""The most records in a part. If a caller reads a part into columns, the columns take about 10 MB."""

_RUN = 32
"""If at least this many records have equal sizes, numpy finds their starts. For fewer records, a loop over the records
is as fast."""

_STEPS = 256
"""The number of records that are found one by one before numpy is tried again."""


class RecordPart:
    """Whole records, one after another. `starts` are the positions in `buffer` at which the records begin."""

    __slots__ = ("buffer", "starts")

    def __init__(self, buffer: bytes, starts: Ints) -> None:
        self.buffer = buffer
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts)


class LargeRecord:
    """A record that is read in pieces. `rest` yields the bytes from the length of the key on."""

    __slots__ = ("_area", "_left", "offset_delta", "timestamp_delta")

    def __init__(self, area: ByteStream) -> None:
        self._area = area
        self._left = area.varint()
        area.skip(1)  # the unused byte of attributes
        begun = area.taken - 1
        self.timestamp_delta = area.varlong()
        self.offset_delta = area.varint()
        self._left -= area.taken - begun

    def timestamp_ms(self, header: BatchHeader) -> int:
        if header.is_log_append_time:
            return header.max_timestamp_ms
        return header.base_timestamp_ms + self.timestamp_delta

    def check(self) -> bool:
        """Reads and checks the other fields of the record, and returns whether the key is null. Raises
        InvalidRecordException if the fields do not fill the record exactly."""
        area = self._area
        end = area.taken + self._left
        is_null = self._skip_field(end) < 0
        self._skip_field(end)
        count = area.varint()
        if count < 0 or count * 2 > end - area.taken:
            raise InvalidRecordException(f"Found invalid number of record headers {count}")
        for _ in range(count):
            if self._skip_field(end) < 0:
                raise InvalidRecordException("Found a record header with a null key")
            self._skip_field(end)
        if area.taken != end:
            raise InvalidRecordException(
                f"Invalid record size: {end - area.taken} bytes are left after the fields of a record"
            )
        self._left = 0
        return is_null

    def _skip_field(self, end: int) -> int:
        length = self._area.varint()
        if length > end - self._area.taken:
            raise InvalidRecordException(
                f"A field of {length} bytes where {end - self._area.taken} are left in its record"
            )
        self._area.skip(max(length, 0))
        return length

    def rest(self) -> Iterator[bytes]:
        """The bytes from the length of the key on."""
        yield from self._area.take(self._left)
        self._left = 0

    @property
    def rest_size_bytes(self) -> int:
        return self._left

    def skip(self) -> None:
        """Skips the bytes that were not read."""
        self._area.skip(self._left)
        self._left = 0


def batch_parts(
    batch: Buffer, header: BatchHeader, *, whole: bool = False
) -> Iterator[RecordPart | LargeRecord]:
    """Yields the records of one whole batch of magic 2 in parts, as `record_parts` does."""
    area = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    return record_parts(inflate(header.codec, area), header.records_count, whole=whole)


def record_parts(
    pieces: Iterable[bytes], count: int, *, whole: bool = False
) -> Iterator[RecordPart | LargeRecord]:
    """Yields the `count` records of a batch in parts. `pieces` are its decompressed bytes after the header. A part may
    be empty.

    If `whole` is True, large records are buffered too, and no LargeRecord is yielded. Raises InvalidRecordException if
    the records do not fill these bytes exactly. The content of a record is not checked.
    """
    area = ByteStream(pieces)
    taken = 0
    try:
        while taken < count:
            if not area.grow():
                raise InvalidRecordException(f"Record {taken} of a batch of {count} is cut short")
            while taken < count:
                part = _whole_records(area, min(count - taken, MOST_RECORDS))
                taken += len(part)
                yield part
                if len(part):
                    continue
                size = area.size_of_record()
                if size > LARGE_BYTES and not whole:
                    large = LargeRecord(area)
                    yield large
                    large.skip()
                    taken += 1
                elif size > area.ready_bytes:
                    area.grow_to(size)
                else:
                    break
    except (IndexError, VarintError) as error:
        raise InvalidRecordException(f"Record {taken} of a batch of {count} is cut short: {error}") from None
    if not area.is_at_end():
        raise InvalidRecordException(
            f"Incorrect declared batch size, records still remaining in file: more bytes after the {count} records"
        )


def _whole_records(area: ByteStream, most: int) -> RecordPart:
    """Takes the whole records that are buffered at the front of the stream, at most `most` records."""
    raw, begin = area.front, area.at
    runs: list[Ints] = []
    number, at = 0, begin
    while number < most:
        run, at_next = _run(raw, at, most - number)
        if not len(run):
            run, at_next = _steps(raw, at, min(most - number, _STEPS))
        if not len(run):
            break
        runs.append(run)
        number += len(run)
        at = at_next
    area.advance(at - begin)
    starts = np.concatenate(runs) - begin if runs else np.empty(0, np.int64)
    return RecordPart(raw[begin:at], starts)


def _run(raw: bytes, at: int, most: int) -> tuple[Ints, int]:
    """The starts of the next records that have the same size, and the position after these records. No starts if there
    are only few such records."""
    try:
        length, body = read_varint(raw, at)
    except (IndexError, VarintError):
        return _NONE, at
    size = body - at + length
    number = min(most, (len(raw) - at) // size) if length >= 0 else 0
    if number < _RUN or raw[at : at + _RUN * size : size] != raw[at : at + 1] * _RUN:
        return _NONE, at
    lengths = np.frombuffer(raw, np.uint8, number * size, at).reshape(number, size)[:, : body - at]
    differs = np.flatnonzero((lengths != lengths[0]).any(axis=1))
    number = int(differs[0]) if len(differs) else number
    end = at + number * size
    return np.arange(at, end, size, dtype=np.int64), end


def _steps(raw: bytes, at: int, most: int) -> tuple[Ints, int]:
    """Returns the same as `_run`, for records of any sizes."""
    positions: list[int] = []
    end = len(raw)
    try:
        for _ in range(most):
            size = raw[at]
            if size < _MORE:
                stop = at + 1 + (size >> 1)
            elif (high := raw[at + 1]) < _MORE:
                stop = at + 2 + ((size & 0x7F | high << 7) >> 1)
            else:
                length, body = read_varint(raw, at)
                size, stop = length < 0, body + length
            if size & 1 or stop > end:  # an odd varint is negative
                break
            positions.append(at)
            at = stop
    except (IndexError, VarintError):
        pass
    return np.array(positions, np.int64), at


_NONE: Ints = np.empty(0, np.int64)
_MORE = 0x80
