"""Writes batches again without some of their records, in the same form as Kafka.

A batch keeps its base offset, last offset, sequence, producer, leader epoch and codec. The kept records have unchanged
offsets, so their bytes are copied. Only the timestamps of the records may have to be written again, because they are
relative to the base timestamp. The new base timestamp is the delete horizon of the batch (KIP-534) or, without a delete
horizon, the timestamp of the first kept record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcli.model.ids import NO_TIMESTAMP
from kcli.protocol.batches.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    encode_batch,
    read_header,
    seal,
)
from kcli.protocol.batches.batch_headers import CRC_BEGIN
from kcli.protocol.batches.columns import RecordWalk
from kcli.protocol.batches.compression import Codec, compress, deflate
from kcli.protocol.batches.record_prefixes import with_new_prefixes
from kcli.protocol.batches.record_starts import MAX_VARLONG_SIZE, Bools, Ints, varints
from kcli.protocol.checksum import crc32c

DELETE_HORIZON = 0x40
NO_HORIZON = -1


@dataclass(frozen=True, slots=True)
class Survivors:
    """The kept records of a `RecordWalk`. `mask` is True for a kept record. `horizons` contains the new delete horizon
    of each batch."""

    walk: RecordWalk
    timestamps: Ints
    mask: Bools
    horizons: Ints


def empty_batch(header: BatchHeader) -> bytes:
    """Encodes a batch without records. Such a batch stays in the log to show the last sequence number of a producer, or
    the last offset of a pass."""
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


def modern_batch(header: BatchHeader, records: list[Record]) -> bytes:
    """Encodes the kept records of a message of an old format as a batch of magic 2."""
    return encode_batch(
        records,
        base_offset=records[0].offset,
        codec=header.codec,
        log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
    )


def rewritten_batches(survivors: Survivors, lanes: Ints) -> Iterator[tuple[bytes, int]]:
    """Yields the new bytes and the max timestamp of each batch. `lanes` are the indexes of the batches in the walk.
    Each batch must have kept records."""
    walk = survivors.walk
    chosen = np.zeros(len(walk.counts), np.bool_)
    chosen[lanes] = True
    rows = np.flatnonzero(survivors.mask & np.repeat(chosen, walk.counts))
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


@dataclass(slots=True)
class TimeRange:
    """Collects the timestamp of the first kept record of a batch, and the largest timestamp."""

    first_ms: int | None = None
    newest_ms: int = NO_TIMESTAMP

    def add(self, times: Ints) -> None:
        """Adds the timestamps of the next records. `times` may be empty."""
        if len(times):
            self.first_ms = int(times[0]) if self.first_ms is None else self.first_ms
            self.newest_ms = max(self.newest_ms, int(times.max()))


def rewritten_giant(
    header: NDArray[np.void], parts: Iterable[Survivors], horizon_ms: int, times: TimeRange, count: int
) -> tuple[bytes, int]:
    """Writes a giant batch again, which is read in parts. Returns its new bytes and its max timestamp. `count` is the
    number of kept records, at least 1."""
    assert times.first_ms is not None, "a record stays"
    header = header.copy()
    newest_ms = (
        int(header["max_timestamp"][0]) if header["attributes"][0] & LOG_APPEND_TIME else times.newest_ms
    )
    base_ms = times.first_ms if horizon_ms == NO_HORIZON else horizon_ms
    header["attributes"] |= 0 if horizon_ms == NO_HORIZON else DELETE_HORIZON
    header["base_timestamp"], header["max_timestamp"], header["count"] = base_ms, newest_ms, count
    codec = Codec(int(header["attributes"][0]) & CODEC_MASK)
    return bytes(seal(read_header(header.tobytes()), deflate(codec, _part_bodies(parts, base_ms)))), newest_ms


def _part_bodies(parts: Iterable[Survivors], base_ms: int) -> Iterator[bytes]:
    for part in parts:
        rows = np.flatnonzero(part.mask)
        if len(rows):
            yield from _bodies(part.walk, rows, part.timestamps[rows] - base_ms, np.zeros(1, np.int64))


def _bodies(walk: RecordWalk, rows: Ints, deltas: Ints, firsts: Ints) -> Iterator[bytes]:
    """Yields the kept records of each batch as one byte string. `rows` are the kept records of all batches. `firsts`
    contains the index in `rows` at which each batch begins."""
    _, at = varints(walk.buffer, walk.starts[rows])
    old_deltas, tails = varints(walk.buffer, at + 1, MAX_VARLONG_SIZE)
    same = np.logical_and.reduceat(deltas == old_deltas, firsts).tolist()
    ends = walk.ends[rows]
    stops = np.append(firsts[1:], len(rows)).tolist()
    view = memoryview(walk.raw)
    restamped: Sequence[bytes | memoryview] = ()
    if not all(same):
        restamped = with_new_prefixes(view, (deltas,), tails, ends)
    for first, stop, is_same in zip(firsts.tolist(), stops, same, strict=True):
        if is_same:
            yield b"".join(_runs(view, rows[first:stop], walk))
        else:
            yield b"".join(restamped[2 * first : 2 * stop])


def _runs(view: memoryview, rows: Ints, walk: RecordWalk) -> list[memoryview]:
    """The pieces of bytes that contain the kept records. Consecutive records form one piece."""
    breaks = np.flatnonzero(np.diff(rows) != 1)
    starts = walk.starts[rows[np.concatenate(([0], breaks + 1))]].tolist()
    ends = walk.ends[rows[np.concatenate((breaks, [len(rows) - 1]))]].tolist()
    return [view[start:end] for start, end in zip(starts, ends, strict=True)]


def lasting_horizons(headers: NDArray[np.void]) -> Ints:
    """The delete horizon that each batch already has, or NO_HORIZON. A batch stores its delete horizon in place of the
    base timestamp."""
    has_one = headers["attributes"] & DELETE_HORIZON != 0
    return np.where(has_one, headers["base_timestamp"], NO_HORIZON).astype(np.int64)
