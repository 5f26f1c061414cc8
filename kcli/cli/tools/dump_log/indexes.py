"""Dumps offset, time and transaction indexes, and producer snapshots.

The fields of one entry:

* .index: `int32 relative offset | int32 position`
* .timeindex: `int64 timestamp | int32 relative offset`
* .txnindex: `int16 version | int64 producer id, first offset, last offset, last stable offset`
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kcli.cli.output import Output, warn
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.dump_log.batches import INDEXED_READ_BYTES, batches, optional_long
from kcli.cli.tools.dump_log.decoders import uncaught
from kcli.model.ids import NO_TIMESTAMP
from kcli.model.java_text import parse_long
from kcli.protocol.batches.batch import MAX_SEQUENCE, read_records
from kcli.protocol.checksum import crc32c

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_TRANSACTION_VERSION = 0
_SNAPSHOT_VERSION = 1
# The CRC of a producer snapshot covers the bytes after its fields version and crc.
_SNAPSHOT_CRC_END = 6


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    file: str
    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIndexRow:
    file: str
    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransactionRow:
    file: str
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    file: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    current_txn_first_offset: int | None
    last_timestamp_ms: int
    first_sequence: int | None
    last_sequence: int | None
    last_offset: int | None
    offset_delta: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SanityRow:
    """The output row of a valid index. An invalid index ends the tool with an error."""

    file: str
    is_sane: bool


@dataclass(slots=True)
class IndexFaults:
    """The faults of indexes by absolute path, reported on stderr when all files have been read."""

    mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    wrong_timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    falling_timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    offsets_not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def report(self) -> None:
        _report(
            "Mismatches in :", "  Index offset: {}, log offset: {}",
            {path: faults[::-1] for path, faults in self.mismatches.items()},
        )  # fmt: skip
        _report(
            "Found timestamp mismatch in :", "  Index timestamp: {}, log timestamp: {}", self.wrong_timestamps
        )
        _report(
            "Found out of order timestamp in :",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
            self.falling_timestamps,
        )
        _report(
            "The following indexed offsets are not found in :",
            "Indexed offset: {}, found log offset: {}",
            self.offsets_not_found,
        )


def _report(title: str, line: str, faults: dict[str, list[tuple[int, int]]]) -> None:
    for path, pairs in faults.items():
        warn(title + path)
        for pair in pairs:
            warn(line.format(*pair))


def _note(faults: dict[str, list[tuple[int, int]]], path: str, fault: tuple[int, int]) -> None:
    faults.setdefault(os.path.abspath(path), []).append(fault)


# Offset index ------------------------------------------------------------------------------------------------------


def dump_offset_index(
    path: str,
    output: Output,
    *,
    sanity_only: bool,
    verify_only: bool,
    max_message_size: int,
    faults: IndexFaults,
) -> None:
    log = _beside(path, ".log")
    log_size_bytes = os.stat(log).st_size
    content = _read(path)
    base_offset = first_offset_of(path)
    if len(content) < _OFFSET_ENTRY.size:
        output.say(f"{path} is empty.")
        return
    if sanity_only:
        _check_size(path, content, _OFFSET_ENTRY.size)
        last = base_offset + _OFFSET_ENTRY.unpack_from(content, len(content) - _OFFSET_ENTRY.size)[0]
        _check_last_offset(path, last, base_offset)
        output.row(SanityRow(file=path, is_sane=True), f"{path} passed sanity check.")
        return
    for entry in _offset_entries(content, base_offset):
        _check_position(log, entry.position, log_size_bytes)
        batch = next(batches(log, entry.position, max_message_size, INDEXED_READ_BYTES), None)
        if batch is None:
            raise uncaught("java.util.NoSuchElementException")
        if batch.header.last_offset != entry.offset:
            _note(faults.mismatches, path, (entry.offset, batch.header.last_offset))
        if not verify_only:
            output.row(
                IndexRow(file=path, offset=entry.offset, position=entry.position),
                f"offset: {entry.offset} position: {entry.position}",
            )


def _check_position(log: str, position: int, size_bytes: int) -> None:
    """Raises an error with the text of Kafka's file reader if an index entry points beyond the end of the log."""
    of = f"FileRecords(size={size_bytes}, file={log}, start=0, end=2147483647)"
    if position < 0:
        raise uncaught(
            "java.lang.IllegalArgumentException", f"Invalid position: {position} in read from {of}"
        )
    if position > size_bytes:
        raise uncaught(
            "java.lang.IllegalArgumentException",
            f"Slice from position {position} exceeds end position of {of}",
        )


def _offset_entries(content: bytes, base_offset: int) -> Iterator[OffsetEntry]:
    """Yields the entries before the first entry of zeros. After a crash of the broker, an index ends in zeros."""
    whole = len(content) - len(content) % _OFFSET_ENTRY.size
    for index, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(content[:whole])):
        if relative == 0 and index > 0:
            return
        yield OffsetEntry(base_offset + relative, position)


# Time index --------------------------------------------------------------------------------------------------------


def dump_time_index(
    path: str, output: Output, *, sanity_only: bool, verify_only: bool, faults: IndexFaults
) -> None:
    log = _beside(path, ".log")
    log_size_bytes = os.stat(log).st_size
    base_offset = first_offset_of(path)
    content = _read(path)
    if sanity_only:
        _check_time_index(path, content, base_offset)
        output.row(SanityRow(file=path, is_sane=True), f"{path} passed sanity check.")
        return
    positions = list(_offset_entries(_read_if_there(_beside(path, ".index")), base_offset))
    previous = NO_TIMESTAMP
    for entry in _time_entries(content, base_offset):
        position = _position_of(positions, entry.offset)
        _check_position(log, position, log_size_bytes)
        _check_time_entry(path, log, entry, position, previous, faults)
        if not verify_only:
            output.row(
                TimeIndexRow(file=path, timestamp_ms=entry.timestamp_ms, offset=entry.offset),
                f"timestamp: {entry.timestamp_ms} offset: {entry.offset}",
            )
        previous = entry.timestamp_ms


def _time_entries(content: bytes, base_offset: int) -> Iterator[TimeEntry]:
    whole = len(content) - len(content) % _TIME_ENTRY.size
    for index, (timestamp_ms, relative) in enumerate(_TIME_ENTRY.iter_unpack(content[:whole])):
        if relative == 0 and index > 0:
            return
        yield TimeEntry(timestamp_ms, base_offset + relative)


def _position_of(positions: list[OffsetEntry], offset: int) -> int:
    """Returns the position of the greatest indexed offset that is not above `offset`.

    The search in the log begins at this position.
    """
    from bisect import bisect_right

    index = bisect_right(positions, offset, key=lambda entry: entry.offset)
    return positions[index - 1].position if index else 0


def _check_time_entry(
    path: str, log: str, entry: TimeEntry, position: int, previous: int, faults: IndexFaults
) -> None:
    following = batches(log, position, read_bytes=INDEXED_READ_BYTES)
    batch = next((batch for batch in following if batch.header.last_offset >= entry.offset), None)
    if batch is None:
        _note(faults.offsets_not_found, path, (entry.offset, -1))
        return
    if batch.header.last_offset != entry.offset:
        _note(faults.offsets_not_found, path, (entry.offset, batch.header.last_offset))
        return
    newest = max(
        (record.timestamp_ms for record in read_records(batch.buffer, batch.at)), default=NO_TIMESTAMP
    )
    if newest != entry.timestamp_ms:
        _note(faults.wrong_timestamps, path, (entry.timestamp_ms, newest))
    if previous >= entry.timestamp_ms:
        _note(faults.falling_timestamps, path, (entry.timestamp_ms, previous))


def _check_time_index(path: str, content: bytes, base_offset: int) -> None:
    if not content:
        return
    _check_size(path, content, _TIME_ENTRY.size)
    first_ms, _ = _TIME_ENTRY.unpack_from(content)
    last_ms, relative = _TIME_ENTRY.unpack_from(content, len(content) - _TIME_ENTRY.size)
    if last_ms < first_ms:
        raise _corrupt_index(
            f"Corrupt time index found, time index file ({path}) has non-zero size but the last timestamp is "
            f"{last_ms} which is less than the first timestamp {first_ms}"
        )
    if relative < 0:
        raise _corrupt_index(
            f"Corrupt time index found, time index file ({path}) has non-zero size but the last offset is "
            f"{base_offset + relative} which is less than the first offset {base_offset}"
        )


# Transaction index and producer snapshot ---------------------------------------------------------------------------


def dump_transaction_index(path: str, output: Output) -> None:
    content = _read(path)
    whole = len(content) - len(content) % _TRANSACTION_ENTRY.size
    for version, *numbers in _TRANSACTION_ENTRY.iter_unpack(content[:whole]):
        if version != _TRANSACTION_VERSION:
            raise uncaught(
                "org.apache.kafka.common.KafkaException",
                f"Unexpected aborted transaction version {version} in transaction index {os.path.abspath(path)}, "
                f"current version is {_TRANSACTION_VERSION}",
            )
        producer_id, first, last, last_stable = numbers
        output.row(
            AbortedTransactionRow(
                file=path,
                version=version,
                producer_id=producer_id,
                first_offset=first,
                last_offset=last,
                last_stable_offset=last_stable,
            ),
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {last_stable}",
        )


def dump_producer_snapshot(path: str, output: Output) -> None:
    """Prints a producer snapshot. A corrupt snapshot is reported on stderr and does not stop the tool."""
    content = _read(path)
    fault = _snapshot_fault(content)
    if fault:
        warn(fault)
        return
    for numbers in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEADER.size :]):
        row = _producer_row(path, numbers)
        output.row(row, _producer_text)


def _snapshot_fault(content: bytes) -> str:
    if len(content) < _SNAPSHOT_HEADER.size:
        return f"Snapshot failed schema validation: {len(content)} bytes cannot hold its header"
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(content)
    if version != _SNAPSHOT_VERSION:
        return f"Snapshot contained an unknown file version {version}"
    computed = crc32c(memoryview(content)[_SNAPSHOT_CRC_END:])
    if crc != computed:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
    if len(content) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        return f"Snapshot failed schema validation: {len(content)} bytes do not hold {count} entries"
    return ""


def _producer_row(path: str, numbers: tuple[int, ...]) -> ProducerRow:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, open_offset = (
        numbers
    )
    has_batch = last_offset >= 0
    return ProducerRow(
        file=path,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        current_txn_first_offset=open_offset if open_offset >= 0 else None,
        last_timestamp_ms=timestamp_ms,
        # After 2147483647, sequence numbers continue with 0.
        first_sequence=(last_sequence - delta) & MAX_SEQUENCE if has_batch else None,
        last_sequence=last_sequence if has_batch else None,
        last_offset=last_offset if has_batch else None,
        offset_delta=delta if has_batch else None,
    )


def _producer_text(row: ProducerRow) -> str:
    batch = ""
    if row.last_offset is not None:
        batch = (
            f"firstSequence: {row.first_sequence} lastSequence: {row.last_sequence} "
            f"lastOffset: {row.last_offset} offsetDelta: {row.offset_delta} timestamp: {row.last_timestamp_ms}"
        )
    return (
        f"producerId: {row.producer_id} producerEpoch: {row.producer_epoch} "
        f"coordinatorEpoch: {row.coordinator_epoch} "
        f"currentTxnFirstOffset: {optional_long(row.current_txn_first_offset)} "
        f"lastTimestamp: {row.last_timestamp_ms} {batch}"
    )


# Files -------------------------------------------------------------------------------------------------------------


def first_offset_of(path: str) -> int:
    """Returns the first offset of the segment: the number before the first dot of the file's name."""
    stem = os.path.basename(path).split(".")[0]
    try:
        return parse_long(stem)
    except ValueError:
        raise uncaught("java.lang.NumberFormatException", f'For input string: "{stem}"') from None


def _beside(path: str, suffix: str) -> str:
    stem = os.path.basename(path).split(".")[0]
    return os.path.join(os.path.dirname(path), stem + suffix)


def _read(path: str) -> bytes:
    """Returns the whole file.

    An index is limited by segment.index.bytes. The other files grow with the number of producers and of aborted
    transactions.
    """
    with open(path, "rb") as file:
        return file.read()


def _read_if_there(path: str) -> bytes:
    return _read(path) if os.path.exists(path) else b""


def _check_size(path: str, content: bytes, entry_bytes: int) -> None:
    if len(content) % entry_bytes:
        raise _corrupt_index(
            f"Index file {os.path.abspath(path)} is corrupt, found {len(content)} bytes which is neither "
            f"positive nor a multiple of {entry_bytes}"
        )


def _check_last_offset(path: str, last_offset: int, base_offset: int) -> None:
    if last_offset < base_offset:
        raise _corrupt_index(
            f"Corrupt index found, index file ({os.path.abspath(path)}) has non-zero size but the last offset "
            f"is {last_offset} which is less than the base offset {base_offset}"
        )


def _corrupt_index(message: str) -> CommandError:
    return uncaught("org.apache.kafka.storage.internals.log.CorruptIndexException", message)
