"""Writes batches again without some of their records, in the form in which Kafka compacts them.

A batch keeps its base offset, last offset, sequence, producer, leader epoch and codec. The kept records have unchanged
offsets, so their bytes are copied. Only their timestamps may have to be written again, because they are relative to the
base timestamp. The base timestamp becomes that of the first kept record or, if the batch has one, its delete horizon
(KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kcli.protocol.batches.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    encode_batch,
)
from kcli.protocol.batches.batch_headers import CRC_BEGIN
from kcli.protocol.batches.columns import RecordWalk
from kcli.protocol.batches.compression import Codec, compress
from kcli.protocol.batches.record_starts import MAX_VARINT_SIZE, MAX_VARLONG_SIZE, Bools, Ints, varints

DELETE_HORIZON = 0x40
NO_HORIZON = -1

_PREFIX_BYTES = MAX_VARINT_SIZE + 1 + MAX_VARLONG_SIZE
"""The largest size of length, attributes and timestamp delta, with which a record begins."""


@dataclass(frozen=True, slots=True)
class Survivors:
    """The kept records of a `RecordWalk`. `horizons`: the new delete horizon of each of its batches."""

    walk: RecordWalk
    timestamps: Ints
    kept: Bools
    horizons: Ints


def empty_batch(header: BatchHeader) -> bytes:
    """Encodes a batch without records. It is kept for the last sequence of a producer or the last offset of a pass."""
    return encode_batch(
        (),
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        last_offset_delta=header.last_offset_delta,
        max_timestamp_ms=header.max_timestamp_ms,
    )


def modern_batch(header: BatchHeader, kept: list[Record]) -> bytes:
    """Encodes the kept records of a message of an old format as a batch of magic 2."""
    return encode_batch(
        kept,
        base_offset=kept[0].offset,
        codec=header.codec,
        log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
    )


def rewritten_batches(survivors: Survivors, lanes: Ints) -> Iterator[tuple[bytes, int]]:
    """Yields the new bytes and the max timestamp of each batch in `lanes`, in order. Each must have kept records."""
    walk = survivors.walk
    chosen = np.zeros(len(walk.counts), np.bool_)
    chosen[lanes] = True
    rows = np.flatnonzero(survivors.kept & np.repeat(chosen, walk.counts))
    counts = np.bincount(np.repeat(np.arange(len(walk.counts)), walk.counts)[rows], minlength=len(chosen))[
        lanes
    ]
    firsts = np.cumsum(counts) - counts
    stamps = survivors.timestamps[rows]
    headers, horizons = walk.headers[lanes].copy(), survivors.horizons[lanes]
    bases = np.where(horizons != NO_HORIZON, horizons, stamps[firsts])
    by_broker = headers["attributes"] & LOG_APPEND_TIME != 0
    newest = np.where(by_broker, headers["max_timestamp"], np.maximum.reduceat(stamps, firsts)).astype(
        np.int64
    )
    headers["attributes"] |= np.where(horizons != NO_HORIZON, DELETE_HORIZON, 0).astype(np.int16)
    headers["base_timestamp"], headers["max_timestamp"], headers["count"] = bases, newest, counts
    for nth, body in enumerate(_bodies(walk, rows, stamps - np.repeat(bases, counts), firsts)):
        codec = Codec(int(headers["attributes"][nth]) & CODEC_MASK)
        if codec is not Codec.NONE:
            body = compress(codec, body)
        headers["length"][nth] = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
        headers["crc"][nth] = crc32c(body, crc32c(headers[nth].tobytes()[CRC_BEGIN:]))
        yield headers[nth].tobytes() + body, int(newest[nth])


def _bodies(walk: RecordWalk, rows: Ints, deltas: Ints, firsts: Ints) -> Iterator[bytes]:
    """Yields, for each batch, its records `rows` one after another. `firsts`: the first row of each batch."""
    _, at = varints(walk.buffer, walk.starts[rows])
    old_deltas, tails = varints(walk.buffer, at + 1, MAX_VARLONG_SIZE)
    same = np.logical_and.reduceat(deltas == old_deltas, firsts).tolist()
    ends = walk.ends[rows]
    stops = np.append(firsts[1:], len(rows)).tolist()
    view = memoryview(walk.raw)
    restamped: Sequence[bytes | memoryview] = ()
    if not all(same):
        restamped = _restamped(view, deltas, tails, ends)
    for first, stop, is_same in zip(firsts.tolist(), stops, same, strict=True):
        if is_same:
            yield b"".join(_runs(view, rows[first:stop], walk))
        else:
            yield b"".join(restamped[2 * first : 2 * stop])


def _runs(view: memoryview, rows: Ints, walk: RecordWalk) -> list[memoryview]:
    """The pieces of bytes to copy. Consecutive records that are kept form one piece."""
    breaks = np.flatnonzero(np.diff(rows) != 1)
    starts = walk.starts[rows[np.concatenate(([0], breaks + 1))]].tolist()
    ends = walk.ends[rows[np.concatenate((breaks, [len(rows) - 1]))]].tolist()
    return [view[start:end] for start, end in zip(starts, ends, strict=True)]


def _restamped(view: memoryview, deltas: Ints, tails: Ints, ends: Ints) -> list[bytes | memoryview]:
    """Two pieces of bytes for each record: the new length, attributes and timestamp delta, and the unchanged rest."""
    prefixes = np.zeros((len(deltas), _PREFIX_BYTES), np.uint8)
    stamps = _zigzag(deltas)
    stamp_sizes = _sizes(stamps)
    lengths = _zigzag(1 + stamp_sizes + ends - tails)
    length_sizes = _sizes(lengths)
    _write_varints(prefixes, np.zeros(len(deltas), np.int64), lengths, length_sizes)
    _write_varints(prefixes, length_sizes + 1, stamps, stamp_sizes)  # between them the attributes, 0
    blob = prefixes.tobytes()
    begins = np.arange(len(deltas)) * _PREFIX_BYTES
    stops = begins + length_sizes + 1 + stamp_sizes
    pieces: list[bytes | memoryview] = [b""] * (2 * len(deltas))
    pieces[0::2] = [blob[begin:stop] for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)]
    pieces[1::2] = [view[tail:end] for tail, end in zip(tails.tolist(), ends.tolist(), strict=True)]
    return pieces


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
    """Writes one varint into each row, from column `at` on."""
    rows = np.arange(len(values))
    for nth in range(int(sizes.max(initial=0))):
        more = sizes[rows] > nth + 1
        byte = (values[rows] >> np.uint64(7 * nth) & np.uint64(0x7F)).astype(np.uint8)
        into[rows, at[rows] + nth] = byte | more.astype(np.uint8) << 7
        rows = rows[more]


def lasting_horizons(headers: NDArray[np.void]) -> Ints:
    """The delete horizons that batches already have. They are stored in place of the base timestamp."""
    has_one = headers["attributes"] & DELETE_HORIZON != 0
    return np.where(has_one, headers["base_timestamp"], NO_HORIZON).astype(np.int64)
