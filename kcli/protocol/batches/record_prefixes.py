"""Writes the first fields of many records at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.batches.record_starts import MAX_VARINT_SIZE, MAX_VARLONG_SIZE, Ints

_ATTRIBUTES_BYTES = 1


SMALL_RECORD_BYTES = 128
"""If records have at most this average size, numpy copies them byte by byte. For larger records, copying one record
after another is faster."""


def with_new_prefixes(
    buffer: memoryview, fields: Sequence[Ints], tails: Ints, ends: Ints
) -> list[bytes | memoryview]:
    """Returns two pieces for each record: a new prefix (its first fields), and the unchanged rest `buffer[tail:end]`.

    A prefix has the length, the attributes (always 0), and a varint for each of `fields`. The fields are the timestamp
    deltas, or the timestamp deltas and the offset deltas.
    """
    blob, begins, stops = _prefixes(fields, ends - tails)
    pieces: list[bytes | memoryview] = [b""] * (2 * len(tails))
    pieces[0::2] = [blob[begin:stop] for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)]
    pieces[1::2] = [buffer[tail:end] for tail, end in zip(tails.tolist(), ends.tolist(), strict=True)]
    return pieces


def joined_with_new_prefixes(buffer: bytes, fields: Sequence[Ints], tails: Ints, ends: Ints) -> bytes:
    """Returns the pieces of `with_new_prefixes` as one byte string."""
    if len(buffer) > SMALL_RECORD_BYTES * len(tails):
        return b"".join(with_new_prefixes(memoryview(buffer), fields, tails, ends))
    blob, begins, stops = _prefixes(fields, ends - tails)
    source = np.frombuffer(blob + buffer, np.uint8)
    starts, sizes = np.empty(2 * len(tails), np.int64), np.empty(2 * len(tails), np.int64)
    starts[0::2], starts[1::2] = begins, tails + len(blob)
    sizes[0::2], sizes[1::2] = stops - begins, ends - tails
    before = np.cumsum(sizes) - sizes
    return source[np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))].tobytes()


def _prefixes(fields: Sequence[Ints], rest_sizes: Ints) -> tuple[bytes, Ints, Ints]:
    """Returns one buffer with the prefixes of all records, and the start and the end of each prefix in this buffer."""
    columns = [_zigzag(field) for field in fields]
    sizes = [_sizes(column) for column in columns]
    lengths = _zigzag(_ATTRIBUTES_BYTES + sum(sizes) + rest_sizes)
    length_sizes = _sizes(lengths)
    prefix_bytes = MAX_VARINT_SIZE + _ATTRIBUTES_BYTES + MAX_VARLONG_SIZE * len(fields)
    prefixes = np.zeros((len(rest_sizes), prefix_bytes), np.uint8)
    _write_varints(prefixes, np.zeros(len(rest_sizes), np.int64), lengths, length_sizes)
    at = length_sizes + _ATTRIBUTES_BYTES
    for column, size in zip(columns, sizes, strict=True):
        _write_varints(prefixes, at, column, size)
        at = at + size
    begins = np.arange(len(rest_sizes)) * prefix_bytes
    return prefixes.tobytes(), begins, begins + at


def _zigzag(values: Ints) -> NDArray[np.uint64]:
    return (values << 1 ^ values >> 63).view(np.uint64)


def _sizes(values: NDArray[np.uint64]) -> Ints:
    """The size of each unsigned varint in bytes."""
    sizes = np.ones(len(values), np.int64)
    rest = values >> np.uint64(7)
    while rest.any():
        sizes += rest > 0
        rest >>= np.uint64(7)
    return sizes


def _write_varints(into: NDArray[np.uint8], at: Ints, values: NDArray[np.uint64], sizes: Ints) -> None:
    """Writes `values[r]` as a varint into row r of `into`, from column `at[r]` on. Each row is the prefix of one
    record. `sizes` are the sizes of the varints in bytes."""
    rows = np.arange(len(values))
    for nth in range(int(sizes.max(initial=0))):
        more = sizes[rows] > nth + 1
        byte = (values[rows] >> np.uint64(7 * nth) & np.uint64(0x7F)).astype(np.uint8)
        into[rows, at[rows] + nth] = byte | more.astype(np.uint8) << 7
        rows = rows[more]
