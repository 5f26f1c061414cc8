"""Checks that the records of a batch are complete, and finds their timestamps, before a leader writes the batch.

Kafka reads every record that a producer sends. In Python, such a read would take longer than the rest of an append. So
`survey` has three fast methods:

* **runs**, for many records of the same shape in a row. This method reads the first record. Then it compares the
  lengths and counts of the first record with the lengths and counts of all other records, and checks that offset deltas
  increase by one. Strided slices make these comparisons fast.
* **columns**, for many records of different shapes: numpy, which is imported at its first use.
* **steps**, for a few records: one record after another.

These methods accept only valid records of usual kinds, and take a few milliseconds at most. For all other records the
result of `survey` is None. The caller then reads the batch record by record and reports the error, if there is one.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.model.buffers import Buffer
from kcli.protocol.batches.batch import HEADER_SIZE, BatchHeader
from kcli.protocol.wire.varint import MAX_VARLONG_BYTES, VarintError, read_uvarint

__all__ = ["Survey", "survey"]

MANY = 20
"""From this number of records on, the method `runs` is faster than the method `steps` (measured)."""

COLUMNS_FROM = 250
"""From this number of records of different shapes on, the method `columns` is faster than the method `steps`
(measured), although it copies the records."""

COLUMNS_UNTIL = 20_000
"""The most records of different shapes that are read without a pause. The read takes two or three milliseconds."""

MOST_RUNS = 250
"""The most runs that are read without a pause. The read takes about two milliseconds."""

SHORT_RUN = 12
"""If runs have fewer records than this on average, the method `steps` is faster than the method `runs` (measured)."""

COPIED_BYTES = 65_536
"""The largest batch of few records that is copied to `bytes` before the check. A larger batch is read in place."""

MAX_STRUCTURE = 32
"""The most bytes that the lengths and counts in a record of a run may have. In a record with many headers, the lengths
and counts have more bytes. The method `steps` reads such a record."""

_MORE = 0x80
_ONE_BYTE = 64  # offset deltas below take one byte,
_TWO_BYTES = 8192  # below this two,
_THREE_BYTES = 1 << 20  # and below this three
_NO_DELTA = -1
_MAX_INT_BITS = 0xFFFF_FFFF  # over-long varints are rejected: implementations decode them differently
_MAX_LONG_BITS = 0xFFFF_FFFF_FFFF_FFFF
_LATEST_MS = 0x7FFF_FFFF_FFFF_FFFF

# The bytes of the zigzag varints of the offset deltas 0, 1, 2 …: first bytes, second bytes. The bytes repeat after
# 8,192 deltas.
_ONLY = bytes(delta << 1 for delta in range(_ONE_BYTE))
_FIRST = bytes(_MORE | byte for byte in _ONLY) * (_TWO_BYTES // _ONE_BYTE)
_LAST_OF_TWO = b"".join(bytes([high]) * _ONE_BYTE for high in range(_TWO_BYTES // _ONE_BYTE))
_SECOND_OF_THREE = bytes(_MORE | byte for byte in _LAST_OF_TWO)

_EVEN = bytes(range(0, 256, 2))
_CONTINUED = bytes(range(_MORE, 256))


class Survey(NamedTuple):
    """The result for one batch: its largest timestamp, a lower bound of its timestamps, whether its offsets are without
    gaps, and whether at least one key is null."""

    newest_ms: int
    oldest_ms: int
    is_dense: bool
    """Whether the offset deltas are 0, 1, 2 …"""
    has_null_key: bool


class _Tally:
    """The results for the records read so far. Timestamps are zigzag deltas, as in the records."""

    __slots__ = ("expected", "has_null_key", "is_dense", "latest", "negative")

    def __init__(self, expected: int) -> None:
        self.expected = expected  # the largest delta according to the header; not negative
        self.latest = _NO_DELTA  # the largest even (not negative) delta
        self.negative = _NO_DELTA  # the largest odd (negative) delta: the furthest below the base
        self.is_dense = True
        self.has_null_key = False


def survey(
    header: BatchHeader, records: Buffer, begin: int = HEADER_SIZE, end: int | None = None
) -> Survey | None:
    """Checks the records of a batch (magic 2, CreateTime, decompressed) from `begin` to `end`, which is by default the
    end of `records`.

    Returns None if the records contradict the header, or if this module cannot check records of their kind or number.
    """
    count = header.records_count
    end = len(records) if end is None else end
    base_ms = header.base_timestamp_ms
    tally = _Tally(max(header.max_timestamp_ms - base_ms, 0) << 1)
    try:
        if isinstance(records, memoryview) and (count >= MANY or end <= COPIED_BYTES):
            records = bytes(records)  # slices and indexes of bytes are several times as fast
        if count < MANY or isinstance(records, memoryview):
            sound = _step(records, begin, end, 0, count, tally)
        else:
            raw = records
            at, index = _runs(raw, begin, end, count, tally)
            if count - index > COLUMNS_UNTIL:
                return None
            if count - index >= COLUMNS_FROM:
                return _by_columns(header, bytes(raw[begin:end]))
            sound = _step(raw, at, end, index, count, tally)
    except (IndexError, VarintError):
        return None
    if not sound or tally.latest == _NO_DELTA:
        return None  # invalid, or all timestamps are before the base timestamp; no client writes such a batch
    oldest_delta = 0 if tally.negative == _NO_DELTA else -(tally.negative + 1 >> 1)
    newest_ms = base_ms + (tally.latest >> 1)
    if newest_ms > _LATEST_MS:
        return None
    return Survey(newest_ms, base_ms + oldest_delta, tally.is_dense, tally.has_null_key)


def _step(raw: Buffer, at: int, end: int, index: int, count: int, tally: _Tally) -> bool:
    """Reads one record after another, from record number `index` at position `at`. Returns False if a record is
    invalid.

    Most varints have one byte, and are read without a function call. This function is long, because calls would take as
    much time as the work itself.
    """
    latest, negative = tally.latest, tally.negative
    while index < count:
        size = raw[at]
        at += 1
        if size >= _MORE:
            high = raw[at]
            if high < _MORE:
                size += (high << 7) - _MORE
                at += 1
            else:
                size, at = read_uvarint(raw, at - 1)
        stop = at + (size >> 1)
        if size & 1 or stop > end:
            return False
        delta = raw[at + 1]  # 1 is the unused byte of attributes
        at += 2
        if delta >= _MORE:
            delta, at = read_uvarint(raw, at - 1, MAX_VARLONG_BYTES)
            if delta > _MAX_LONG_BITS:
                return False
        if delta & 1:
            negative = max(negative, delta)
        elif delta > latest:
            latest = delta
        offset = raw[at]
        at += 1
        if offset >= _MORE:
            offset, at = read_uvarint(raw, at - 1)
        if offset != index << 1:
            tally.is_dense = False
            if offset > _MAX_INT_BITS:
                return False
        length = raw[at]
        at += 1
        if length >= _MORE:
            length, at = read_uvarint(raw, at - 1)
        if length & 1:
            tally.has_null_key = True
        else:
            at += length >> 1
        length = raw[at]
        at += 1
        if length >= _MORE:
            high = raw[at]
            if high < _MORE:
                length += (high << 7) - _MORE
                at += 1
            else:
                length, at = read_uvarint(raw, at - 1)
        if not length & 1:
            at += length >> 1
        headers = raw[at]
        at += 1
        if headers:
            at = _skip_headers(raw, at - 1, stop)
        if at != stop:
            return False
        index += 1
    tally.latest, tally.negative = latest, negative
    return at == end


def _skip_headers(raw: Buffer, at: int, stop: int) -> int:
    """The position after a record's headers, or -1 if the headers are invalid."""
    count, at = read_uvarint(raw, at)
    if count & 1 or count > stop - at:  # each header has at least two lengths
        return -1
    for _ in range(count >> 1):
        length, at = read_uvarint(raw, at)
        if length & 1:
            return -1  # the key of a header must not be null
        at += length >> 1
        length, at = read_uvarint(raw, at)
        if not length & 1:
            at += length >> 1
        if at > stop:
            return -1
    return at


class _Shape(NamedTuple):
    """The shape of a record: its size, and the positions of its parts relative to its start."""

    size: int
    structure: list[int]  # bytes of lengths and counts
    timestamp: range
    offset: range


def _runs(raw: bytes | bytearray, at: int, end: int, count: int, tally: _Tally) -> tuple[int, int]:
    """Reads runs of records of the same shape. Stops when the runs become too short, or at an unusual record. Returns
    the position and the number of the next record."""
    index = runs = 0
    while index < count and index >= SHORT_RUN * (runs - 2) and runs < MOST_RUNS:
        shape = _shape(raw, at, end, tally)
        if shape is None:
            break
        taken = _run(raw, at, end, index, count, shape, tally)
        if not taken:
            break
        index += taken
        at += taken * shape.size
        runs += 1
    return at, index


def _shape(raw: bytes | bytearray, start: int, end: int, tally: _Tally) -> _Shape | None:
    """The shape of the record at `start`. None if the record is unusual or the next record has another size."""
    size, at = read_uvarint(raw, start)
    stop = at + (size >> 1)
    if size & 1 or stop > end:
        return None
    if raw[stop : stop + at - start] != raw[start:at]:
        return None  # the next record has another size
    structure = list(range(at - start))
    at += 1
    timestamp = at
    _, at = read_uvarint(raw, at, MAX_VARLONG_BYTES)
    offset = at
    _, at = read_uvarint(raw, at)
    deltas_end = at
    null_key = raw[at] == 1
    lengths = 2
    while lengths:
        length_at = at
        length, at = read_uvarint(raw, at)
        structure += range(length_at - start, at - start)
        if not length & 1:
            at += length >> 1
        lengths -= 1
    headers_at = at
    at = _skip_headers(raw, at, stop)
    if at != stop:
        return None
    if raw[headers_at]:
        _note_headers(raw, headers_at, start, structure)
    else:
        structure.append(headers_at - start)
    if len(structure) > MAX_STRUCTURE:
        return None
    if null_key:
        tally.has_null_key = True
    return _Shape(
        stop - start,
        structure,
        range(timestamp - start, offset - start),
        range(offset - start, deltas_end - start),
    )


def _note_headers(raw: bytes | bytearray, at: int, start: int, structure: list[int]) -> None:
    """Adds the positions of the count and the lengths of the headers to `structure`. The headers must be valid."""
    count_at = at
    count, at = read_uvarint(raw, at)
    structure += range(count_at - start, at - start)
    for _ in range(min(count, MAX_STRUCTURE)):  # two lengths per header; the count is zigzag
        length_at = at
        length, at = read_uvarint(raw, at)
        structure += range(length_at - start, at - start)
        if not length & 1:
            at += length >> 1


def _run(
    raw: bytes | bytearray, at: int, end: int, index: int, count: int, shape: _Shape, tally: _Tally
) -> int:
    """Counts the records with this shape and consecutive offset deltas, starting with record number `index` at the
    position `at`."""
    size = shape.size
    number = min(count, _same_width_until(index)) - index
    number = min(number, (end - at) // size)
    for nth in shape.structure:
        column = raw[at + nth : at + number * size : size]
        byte = column[:1]
        if column != byte * number:
            number -= len(column.lstrip(byte))
    if not _in_order(raw, at, index, number, shape):
        return 0
    columns = [raw[at + nth : at + number * size : size] for nth in shape.timestamp]
    if not columns[-1].isascii() or any(column.translate(None, _CONTINUED) for column in columns[:-1]):
        return 0
    _note_deltas(columns, tally)
    return number


def _same_width_until(index: int) -> int:
    """The end of a range of offset deltas that begins at `index`. The varints of all deltas in the range have the same
    number of bytes. If they have three bytes, the third byte is the same in all of them."""
    if index < _ONE_BYTE:
        return _ONE_BYTE
    return (index // _TWO_BYTES + 1) * _TWO_BYTES


def _in_order(raw: bytes | bytearray, at: int, index: int, number: int, shape: _Shape) -> bool:
    """Whether the offset deltas are `index`, `index` + 1, …"""
    first = index % _TWO_BYTES
    rows = slice(first, first + number)
    if index < _ONE_BYTE:
        expected = [_ONLY[rows]]
    elif index < _TWO_BYTES:
        expected = [_FIRST[rows], _LAST_OF_TWO[rows]]
    elif index < _THREE_BYTES:
        expected = [_FIRST[rows], _SECOND_OF_THREE[rows], bytes([index // _TWO_BYTES]) * number]
    else:
        return False
    if len(shape.offset) != len(expected):
        return False
    return all(
        raw[at + nth : at + number * shape.size : shape.size] == column
        for nth, column in zip(shape.offset, expected, strict=True)
    )


def _note_deltas(columns: list[bytes | bytearray], tally: _Tally) -> None:
    """Adds the timestamp deltas of a run to `tally`. `columns` has the first bytes of all deltas, then the second
    bytes, and so on."""
    column = columns[-1]
    if len(columns) == 1 and not column.translate(None, _EVEN[: (tally.expected >> 1) + 1]):
        if tally.latest != tally.expected:
            seen = tally.expected < 0x100 and tally.expected in column
            tally.latest = max(tally.latest, tally.expected if seen else max(column))
        return
    if len(columns) == 2 and not columns[0].translate(None, _EVEN):
        # No timestamp is before the base timestamp, so the newest timestamp has the largest second byte. If timestamps
        # rise, all records with this second byte are adjacent.
        high = max(_distinct(column))
        rows = slice(column.index(high), column.rindex(high) + 1)
        if len(column[rows].lstrip(bytes([high]))) == 0:
            _note(high << 7 | max(columns[0][rows]) & 0x7F, tally)
            return
    for parts in set(zip(*columns, strict=True)):
        delta = 0
        for byte in reversed(parts):
            delta = delta << 7 | byte & 0x7F
        _note(delta, tally)


def _distinct(column: bytes | bytearray) -> list[int]:
    values = []
    while column:
        values.append(column[0])
        column = column.translate(None, bytes(column[:1]))
    return values


def _note(delta: int, tally: _Tally) -> None:
    if delta & 1:
        tally.negative = max(tally.negative, delta)
    elif delta > tally.latest:
        tally.latest = delta


def _by_columns(header: BatchHeader, raw: bytes) -> Survey | None:
    """Checks many records of different shapes by columns."""
    # Imported here, because the import of numpy is slow.
    from kcli.protocol.batches.survey_columns import survey_columns

    columns = survey_columns(header, raw, 0)
    if columns is None or columns[0] > _LATEST_MS:
        return None
    return Survey(*columns)
