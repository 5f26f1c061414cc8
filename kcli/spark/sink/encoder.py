"""Encodes Arrow columns as the records areas of batches, without a Python loop over rows.

A records area is the part of a batch after its header: the records, one after another. This module encodes the records
area uncompressed. `seal` compresses the records area and adds the header. `kcli.protocol.batches.columns` decodes
batches.

A record is `length, attributes, deltas, key length | key | value length | value | headers`. The parts before keys and
values are short runs of varints. These runs are built for all rows as one byte matrix. Then one join in Arrow puts the
runs between the keys and values. The buffer of the joined array has the records areas of all batches, one after
another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.protocol.batches.batch import HEADER_SIZE, LENGTH_OVERHEAD, TRANSACTIONAL
from kcli.protocol.batches.batch_headers import CRC_BEGIN, HEADER
from kcli.protocol.batches.compression import Codec, compress
from kcli.protocol.batches.record_starts import Ints
from kcli.protocol.checksum import crc32c

BATCH_BYTES = 512 << 10
"""The size of a batch before compression. It is half the default of max.message.bytes.

A batch may exceed this size by one record. The size is large, because each batch costs the broker and every reader some
time, whatever its size is.
"""

BATCH_RECORDS = 1 << 20
"""The largest number of records in a batch. Without this limit, a batch of empty records could have too many
records."""

_ATTRIBUTES_SIZE = 1
"""The size of the attributes of a record in bytes. Kafka does not use these attributes."""


@dataclass(frozen=True, slots=True)
class RecordsArea:
    """The records area of a batch that is not sealed yet. All its records are rows of one `group`."""

    group: int
    count: int
    records: memoryview
    times: tuple[int, int] | None = None
    """The timestamp of the first record, and the greatest timestamp. If `times` is None, all records get the time that
    is passed to `seal`."""


def encode_records(
    groups: Ints,
    keys: pa.Array,
    values: pa.Array,
    headers: pa.ListArray | None,
    timestamps: Ints | None = None,
) -> Iterator[RecordsArea]:
    """Yields one records area for each batch. An area has at most about BATCH_BYTES, and only rows of one group.

    The rows must already be sorted by `groups`.

    A group is the number of a partition of a topic. `keys` and `values` are large_binary. `headers` is a list of
    structs (key: string, value: binary). `timestamps` are in ms.
    """
    key_lengths, value_lengths = _lengths(keys), _lengths(values)
    tails = _header_tails(headers, len(groups))
    tail_lengths = np.ones(len(groups), np.int64) if headers is None else _lengths(tails)
    sizes = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0) + tail_lengths
    firsts = _batch_firsts(groups, sizes)
    counts = np.diff(firsts, append=len(groups))
    deltas = np.arange(len(groups)) - np.repeat(firsts, counts)
    zero = np.zeros(len(groups), np.int64)
    delays = zero if timestamps is None else zigzag(timestamps - np.repeat(timestamps[firsts], counts))
    bodies = sizes + _ATTRIBUTES_SIZE + varint_sizes(delays)
    for field in (deltas, key_lengths, value_lengths):
        bodies += varint_sizes(zigzag(field))
    before_key = varint_columns(zigzag(bodies), zero, delays, zigzag(deltas), zigzag(key_lengths))
    before_value = varint_columns(zigzag(value_lengths))
    joined = pc.binary_join_element_wise(
        before_key,
        keys,
        before_value,
        values,
        tails,
        pa.scalar(b"", pa.large_binary()),
        null_handling="replace",
        null_replacement="",
    )
    offsets = _offsets(joined)
    area = memoryview(joined.buffers()[2])
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        records = area[int(offsets[first]) : int(offsets[first + count])]
        times = None
        if timestamps is not None:
            times = int(timestamps[first]), int(timestamps[first : first + count].max())
        yield RecordsArea(int(groups[first]), count, records, times)


def seal(
    area: RecordsArea,
    codec: Codec,
    now_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    level: int | None = None,
    is_transactional: bool = False,
) -> bytes:
    """Returns a batch of magic 2 as a producer sends it, with base offset 0.

    The leader of the partition sets the base offset.
    """
    body = compress(codec, area.records, level) if codec else area.records
    header = np.zeros(1, HEADER)
    header["length"] = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
    header["leader_epoch"] = -1
    header["magic"] = 2
    header["attributes"] = codec | (TRANSACTIONAL if is_transactional else 0)
    header["last_offset_delta"] = area.count - 1
    header["base_timestamp"], header["max_timestamp"] = area.times or (now_ms, now_ms)
    header["producer_id"] = producer_id
    header["producer_epoch"] = producer_epoch
    header["base_sequence"] = base_sequence
    header["count"] = area.count
    header["crc"] = crc32c(body, crc32c(header.tobytes()[CRC_BEGIN:]))
    return b"".join((header.tobytes(), body))


def _batch_firsts(groups: Ints, sizes: Ints) -> Ints:
    """Returns the first row of each batch. A batch ends when it is full or when the group changes."""
    starts = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1)) if len(groups) else np.empty(0, np.int64)
    per_row = sizes + 20  # an upper bound for the varints of a record
    before = np.cumsum(per_row) - per_row
    rows = np.arange(len(groups))
    of_group = np.repeat(starts, np.diff(starts, append=len(groups)))
    full = (before - before[of_group]) // BATCH_BYTES + (rows - of_group) // BATCH_RECORDS
    changed = np.diff(full, prepend=0) != 0
    changed[starts] = True
    return np.flatnonzero(changed)


def _header_tails(headers: pa.ListArray | None, rows: int) -> pa.Array:
    """Returns the bytes that follow the value of each record: the number of headers, then the headers.

    A null list counts as empty.
    """
    if headers is None:
        return pa.scalar(b"\0", pa.large_binary())
    lists = headers.cast(pa.large_list(headers.type.value_type))
    offsets = np.asarray(lists.offsets)
    entries = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) if rows else lists.values
    keys = pc.fill_null(entries.field(0), "").cast(pa.large_string()).cast(pa.large_binary())
    values = entries.field(1).cast(pa.large_binary())
    encoded = pc.binary_join_element_wise(
        varint_columns(zigzag(_lengths(keys))),
        keys,
        varint_columns(zigzag(_lengths(values))),
        values,
        pa.scalar(b"", pa.large_binary()),
        null_handling="replace",
        null_replacement="",
    )
    edges = _offsets(encoded)[offsets - offsets[0]]
    of_row = _large_binary(memoryview(encoded.buffers()[2] or b""), edges)
    counts = varint_columns(zigzag(np.diff(offsets)))
    return pc.binary_join_element_wise(counts, of_row, pa.scalar(b"", pa.large_binary()))


def zigzag(values: Ints) -> Ints:
    """Maps signed numbers to unsigned numbers, because varints encode only unsigned numbers."""
    return (values << 1) ^ (values >> 63)


def varint_sizes(unsigned: Ints) -> Ints:
    """Returns the number of bytes of each number (below 2^35) as a varint."""
    sizes = np.ones(len(unsigned), np.int64)
    for bits in range(7, int(unsigned.max(initial=0)).bit_length(), 7):
        sizes += unsigned >= 1 << bits
    return sizes


def varint_columns(*columns: Ints) -> pa.Array:
    """Encodes each row as large_binary: the varints of its numbers in all columns, one after another."""
    sizes = [varint_sizes(column) for column in columns]
    edges = np.zeros(len(columns[0]) + 1, np.int64)
    np.cumsum(sum(sizes), out=edges[1:])
    out = np.empty(int(edges[-1]), np.uint8)
    at = edges[:-1].copy()
    for column, size in zip(columns, sizes, strict=True):
        _scatter(out, at, column, size)
        at += size
    return _large_binary(out.data, edges)


def _scatter(out: np.ndarray[tuple[int], np.dtype[np.uint8]], at: Ints, column: Ints, size: Ints) -> None:
    longest = int(size.max(initial=0))
    for nth in range(longest):
        bits = (column >> (7 * nth)) & 0x7F
        more = size > nth + 1
        if nth == 0:
            out[at] = bits | np.where(more, 0x80, 0)
        else:
            rows = np.flatnonzero(size > nth)
            out[at[rows] + nth] = bits[rows] | np.where(more[rows], 0x80, 0)


def _lengths(values: pa.Array) -> Ints:
    """Returns the size of each value, or -1 for null."""
    lengths = np.diff(_offsets(values))
    if values.null_count:
        lengths[np.asarray(values.is_null())] = -1
    return lengths


def _offsets(values: pa.Array) -> Ints:
    """Returns the offsets of a large_binary array, which may be a slice of a longer array."""
    if not len(values):
        return np.zeros(1, np.int64)
    return np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]


def _large_binary(data: memoryview, edges: Ints) -> pa.Array:
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, buffers)
