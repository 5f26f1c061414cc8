"""Reads the positions and headers of many record batches (magic 2) into numpy arrays.

`read_headers` goes through the batches of a Fetch response or a segment. It checks sizes, counts and checksums, and
copies the 61-byte headers into one structured array. `columns.decode` then reads the records. Messages of magic 0 and 1
are first converted to batches. An error about a corrupt batch contains the partition and the offset of the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecordError, KafkaError
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    crc_is_valid,
    encode_batch,
    iter_batches,
    read_records,
)
from kcli.protocol.batches.record_starts import MAX_VARLONG_SIZE, Ints, varints
from kcli.protocol.checksum import crc32c

CRC_BEGIN = 21

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)

_ABORT_MARKER = 0
"""The type of the control record that ends an aborted transaction (KIP-98)."""


@dataclass(frozen=True, slots=True)
class BatchHeaders:
    """The positions and headers of the complete batches in `raw`. After these batches, `raw` may contain the beginning
    of another batch."""

    raw: bytes
    positions: Ints
    headers: NDArray[np.void]
    partition: str

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def next_offset(self) -> int:
        """The offset after the last complete batch, or -1 if there is no complete batch."""
        if not len(self):
            return -1
        last = self.headers[-1]
        return int(last["base_offset"]) + int(last["last_offset_delta"]) + 1


def read_headers(raw: bytes, partition: str, *, check_crc: bool = True) -> BatchHeaders:
    """Finds the complete batches in `raw`, which may end with an incomplete batch. Errors contain `partition`.

    Raises CorruptRecordError if a size, magic, count or checksum is invalid.
    """
    positions: list[int] = []
    at, end = 0, len(raw)
    length_of = struct.Struct(">i").unpack_from
    while at + HEADER_SIZE <= end:
        size = length_of(raw, at + 8)[0] + LENGTH_OVERHEAD
        if raw[at + 16] in (0, 1):
            return read_headers(raw[:at] + _modern(raw, at, partition), partition, check_crc=check_crc)
        if raw[at + 16] != 2 or size < HEADER_SIZE:
            raise _unreadable(raw, at, size, partition)
        if at + size > end:
            break
        positions.append(at)
        at += size
    starts = np.array(positions, dtype=np.int64)
    buffer = np.frombuffer(raw, np.uint8)
    headers = np.empty(0, HEADER)
    if positions:
        headers = buffer[starts[:, None] + np.arange(HEADER_SIZE)].view(HEADER).reshape(-1)
    table = BatchHeaders(raw, starts, headers, partition)
    _check_headers(table)
    if check_crc:
        _check_crcs(table)
    return table


def _unreadable(raw: bytes, at: int, size: int, partition: str) -> CorruptRecordError:
    offset = int.from_bytes(raw[at : at + 8], "big", signed=True)
    where = f"the batch at offset {offset} of {partition} (position {at})"
    if raw[at + 16] != 2:
        return CorruptRecordError(f"{where} has magic {raw[at + 16]}; 0, 1 and 2 are known")
    return CorruptRecordError(f"{where} says it is {size} bytes long; a batch has at least {HEADER_SIZE}")


def _modern(raw: bytes, at: int, partition: str) -> bytes:
    """Converts the messages of magic 0 and 1 in `raw`, from `at` on, to batches of magic 2. These messages are rare, so
    a slow loop over the messages is enough."""
    batches: list[bytes] = []
    try:
        for position, header in iter_batches(raw, at):
            if header.magic == 2:
                batches.append(raw[position : position + header.size_bytes])
                continue
            if not crc_is_valid(raw, position, header):
                raise CorruptRecordError("the CRC does not match")
            records = list(read_records(raw, position))
            append_time = header.max_timestamp_ms if header.is_log_append_time else None
            batches.append(
                encode_batch(records, base_offset=records[0].offset, log_append_time_ms=append_time)
            )
    except (CorruptRecordError, KafkaError) as error:
        offset = int.from_bytes(raw[at : at + 8], "big", signed=True)
        raise CorruptRecordError(
            f"messages of an old format of {partition} from offset {offset} on are corrupt: {error}"
        ) from error
    return b"".join(batches)


def _check_headers(table: BatchHeaders) -> None:
    headers = table.headers
    wrong = (headers["count"] < 0) | (headers["last_offset_delta"] < 0) | (headers["base_offset"] < 0)
    wrong |= headers["count"].astype(np.int64) > headers["last_offset_delta"].astype(np.int64) + 1
    rows = np.flatnonzero(wrong)
    if len(rows):
        header = headers[rows[0]]
        raise corrupt(
            table,
            int(rows[0]),
            f"counts {header['count']} records over {header['last_offset_delta'] + 1} offsets",
        )


def _check_crcs(table: BatchHeaders) -> None:
    view = memoryview(table.raw)
    ends = table.positions + table.headers["length"] + LENGTH_OVERHEAD
    checksums = [
        crc32c(view[at + CRC_BEGIN : end])
        for at, end in zip(table.positions.tolist(), ends.tolist(), strict=True)
    ]
    wrong = np.flatnonzero(np.array(checksums, np.uint32) != table.headers["crc"])
    if len(wrong):
        row = int(wrong[0])
        raise corrupt(table, row, f"has CRC {table.headers[row]['crc']}, but its bytes give {checksums[row]}")


def corrupt(table: BatchHeaders, row: int, what: str) -> CorruptRecordError:
    """Makes the error about batch number `row`. Its text has the partition and the offset of the batch."""
    offset, position = int(table.headers[row]["base_offset"]), int(table.positions[row])
    return CorruptRecordError(
        f"the batch at offset {offset} of {table.partition} (position {position}) {what}"
    )


def aborted_batches(table: BatchHeaders, aborted: Iterable[AbortedTransaction]) -> NDArray[np.bool_]:
    """Returns a mask that is True for each batch of an aborted transaction. The batches of a transaction are the
    producer's batches from the first offset of the transaction to its marker."""
    pending = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    drop = np.zeros(len(table), np.bool_)
    if not pending:
        return drop
    open_producers: set[int] = set()
    lasts = (table.headers["base_offset"] + table.headers["last_offset_delta"]).tolist()
    producers = table.headers["producer_id"].tolist()
    for row, attributes in enumerate(table.headers["attributes"].tolist()):
        while pending and pending[-1].first_offset <= lasts[row]:
            open_producers.add(pending.pop().producer_id)
        if not attributes & TRANSACTIONAL or producers[row] not in open_producers:
            continue
        if not attributes & CONTROL:
            drop[row] = True
        elif _control_type(table, row) == _ABORT_MARKER:
            open_producers.discard(producers[row])
    return drop


def _control_type(table: BatchHeaders, row: int) -> int:
    """The type of the only record of a control batch: the second int16 of the record's key. Control batches are never
    compressed."""
    buffer = np.frombuffer(table.raw, np.uint8)
    begin = int(table.positions[row]) + HEADER_SIZE
    at = np.array([begin], np.int64)
    # The length and attributes, the two deltas, the length of the key.
    for max_size, skip in (
        (5, 1),
        (MAX_VARLONG_SIZE, 0),
        (5, 0),
        (5, 0),
    ):
        at = varints(buffer, at, max_size)[1] + skip
    key = int(at[0])
    if key + 4 > begin - HEADER_SIZE + LENGTH_OVERHEAD + int(table.headers[row]["length"]):
        raise corrupt(table, row, "is a control batch too short for its key")
    return int.from_bytes(table.raw[key + 2 : key + 4], "big", signed=True)
