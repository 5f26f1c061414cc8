"""Dumps .log and .checkpoint files: batches, and with deep iteration their records.

A file is read in pieces of a bounded size, one batch after another. So even a large segment needs little memory.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kcli.cli.output import Output
from kcli.cli.tools.dump_log.decoders import Decoded, Decoder, uncaught
from kcli.errors import CorruptRecordError, KcliError
from kcli.model.java_text import trim
from kcli.protocol.batches.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    PREFIX_SIZE,
    BatchHeader,
    Record,
    crc_is_valid,
    read_header,
    read_records,
)
from kcli.protocol.batches.compression import MAX_DECOMPRESSED_BYTES
from kcli.protocol.batches.legacy import MIN_MESSAGE_SIZE_V0, read_checked_messages
from kcli.protocol.records import json_text

NO_LIMIT_BYTES = 0x7FFF_FFFF
# The size of one read. Many small batches fit into one read, and the bytes need little memory.
READ_BYTES = 1 << 20
# The size of a read for the batch at an index entry. By default an index has an entry every 4 KiB.
INDEXED_READ_BYTES = 1 << 14

_LENGTH = struct.Struct(">i")
_CONTROL_NAMES = {3: "SnapshotHeader", 4: "SnapshotFooter", 5: "KRaftVersion", 6: "KRaftVoters"}


class DumpedBatch(NamedTuple):
    """A whole batch, which is bytes `at` to `at + header.size_bytes` of `buffer`.

    `position` is the position of the batch in the file.
    """

    position: int
    header: BatchHeader
    buffer: bytes
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    file: str
    base_offset: int
    last_offset: int
    count: int | None
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp_ms: int
    size_bytes: int
    magic: int
    codec: str
    crc: int
    is_valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    file: str
    offset: int
    timestamp_type: str
    timestamp_ms: int
    key_size: int
    value_size: int
    sequence: int
    header_keys: tuple[str, ...]
    control: str | None
    key: str | None
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDump:
    """The settings for the dump of a log. `decoder` is None unless contents are printed."""

    output: Output
    deep: bool
    decoder: Decoder | None
    skip_metadata: bool
    max_bytes: int


def batches(
    path: str, position: int = 0, limit: int = NO_LIMIT_BYTES, read_bytes: int = READ_BYTES
) -> Iterator[DumpedBatch]:
    """Yields the whole batches of a file from `position` on, within `limit` bytes. Ignores a partial batch at the end.

    Raises CommandError with Kafka's CorruptRecordException for a batch size that is too small.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        end = min(os.fstat(file).st_size, position + limit)
        start, buffer = position, b""
        while end - position > PREFIX_SIZE:
            if position + HEADER_SIZE > start + len(buffer):
                start, buffer = position, os.pread(file, read_bytes, position)
            (length,) = _LENGTH.unpack_from(buffer, position - start + 8)
            if length < MIN_MESSAGE_SIZE_V0:
                raise _too_small(path, length)
            size = length + LENGTH_OVERHEAD
            if size > end - position:
                return
            if position + size > start + len(buffer):
                start, buffer = position, os.pread(file, max(read_bytes, size), position)
            try:
                header = read_header(buffer, position - start)
            except CorruptRecordError as error:
                raise uncaught("org.apache.kafka.common.errors.CorruptRecordException", str(error)) from None
            yield DumpedBatch(position, header, buffer, position - start)
            position += size
    finally:
        os.close(file)


def _too_small(path: str, length: int) -> Exception:
    return uncaught(
        "org.apache.kafka.common.errors.CorruptRecordException",
        f"Found record size {length} smaller than minimum record overhead ({MIN_MESSAGE_SIZE_V0}) "
        f"in file {os.path.abspath(path)}.",
    )


def dump_log(path: str, dump: LogDump) -> list[tuple[int, int]]:
    """Prints a file. Returns the gaps between records, as pairs (offset, next offset), newest first."""
    gaps: list[tuple[int, int]] = []
    valid_bytes = 0
    previous = -1
    for batch in batches(path, limit=dump.max_bytes):
        _show_batch(path, batch, dump.output)
        if dump.deep:
            previous = _show_records(path, batch, dump, previous, gaps)
        valid_bytes += batch.header.size_bytes
    trailing = min(os.path.getsize(path), dump.max_bytes) - valid_bytes
    if trailing > 0 and dump.max_bytes == NO_LIMIT_BYTES:
        dump.output.say(f"Found {trailing} invalid bytes at the end of {os.path.basename(path)}")
    return gaps[::-1]


# Batches -----------------------------------------------------------------------------------------------------------


def _show_batch(path: str, batch: DumpedBatch, output: Output) -> None:
    header = batch.header
    is_valid = crc_is_valid(batch.buffer, batch.at, header)
    if not output.is_text:
        output.row(_batch_row(path, batch, is_valid), "")
        return
    size = f"{header.max_timestamp_ms} size: {header.size_bytes} magic: {header.magic}"
    tail = (
        f" position: {batch.position} {timestamp_type(header)}: {size} compresscodec: {_codec(header)} "
        f"crc: {header.crc} isvalid: {_bool(is_valid)}"
    )
    if header.magic < 2:
        output.say(f"offset: {header.last_offset}{tail}")
        return
    horizon = header.delete_horizon_ms
    output.say(
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
        f"deleteHorizonMs: {optional_long(horizon)}{tail}"
    )


def _batch_row(path: str, batch: DumpedBatch, is_valid: bool) -> BatchRow:
    header = batch.header
    return BatchRow(
        file=path,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        count=header.records_count if header.magic == 2 else None,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        partition_leader_epoch=header.partition_leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
        position=batch.position,
        timestamp_type=timestamp_type(header),
        max_timestamp_ms=header.max_timestamp_ms,
        size_bytes=header.size_bytes,
        magic=header.magic,
        codec=_codec(header),
        crc=header.crc,
        is_valid=is_valid,
    )


def timestamp_type(header: BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def optional_long(value: int | None) -> str:
    """Returns a number or None as Java prints an OptionalLong."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.label
    except KcliError as error:
        raise uncaught("java.lang.IllegalArgumentException", str(error)) from None


def _bool(value: bool) -> str:
    return "true" if value else "false"


# Records -----------------------------------------------------------------------------------------------------------


def _show_records(
    path: str, batch: DumpedBatch, dump: LogDump, previous: int, gaps: list[tuple[int, int]]
) -> int:
    header = batch.header
    label = timestamp_type(header)
    for record, detail in _records(batch):
        if previous not in (-1, record.offset - 1):
            gaps.append((previous, record.offset))
        previous = record.offset
        control = _control_text(record) if header.is_control else None
        decoded = Decoded(None, None)
        if dump.decoder is not None and not header.is_control:
            decoded = dump.decoder(record)
        if dump.output.is_text:
            dump.output.say(_record_text(record, label, detail, control, decoded, dump.skip_metadata))
        else:
            dump.output.row(_record_row(path, record, label, control, decoded), "")
    return previous


def _records(batch: DumpedBatch) -> Iterator[tuple[Record, str]]:
    """Yields each record, with the part of its line that is between the sizes and the contents."""
    header = batch.header
    if header.magic == 2:
        for record in read_records(batch.buffer, batch.at):
            keys = ",".join([name for name, _ in record.headers])
            yield record, f" sequence: {record.sequence} headerKeys: [{keys}]"
        return
    entry = batch.buffer[batch.at : batch.at + header.size_bytes]
    for checked in read_checked_messages(entry, limit=MAX_DECOMPRESSED_BYTES):
        yield checked.record, f" isValid: {_bool(checked.is_valid)} crc: {checked.crc}"


def _record_text(
    record: Record, label: str, detail: str, control: str | None, decoded: Decoded, skip_metadata: bool
) -> str:
    key = "" if decoded.key is None else f" key: {decoded.key}"
    payload = "" if decoded.payload is None else f" payload: {decoded.payload}"
    if skip_metadata:
        return f"{'|' if key else ''}{key}{payload}"
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    return (
        f"| offset: {record.offset} {label}: {record.timestamp_ms} keySize: {key_size} valueSize: {value_size}"
        f"{detail}{control or ''}{key}{payload}"
    )


def _record_row(path: str, record: Record, label: str, control: str | None, decoded: Decoded) -> RecordRow:
    return RecordRow(
        file=path,
        offset=record.offset,
        timestamp_type=label,
        timestamp_ms=record.timestamp_ms,
        key_size=-1 if record.key is None else len(record.key),
        value_size=-1 if record.value is None else len(record.value),
        sequence=record.sequence,
        header_keys=tuple(name for name, _ in record.headers),
        control=None if control is None else trim(control),
        key=decoded.key,
        payload=decoded.payload,
    )


def _control_text(record: Record) -> str:
    from kcli.protocol.batches import control
    from kcli.protocol.records.schema import schema_of, to_json

    decoded = control.decode_control(record.key, record.value)
    match decoded:
        case control.EndTransactionMarker(committed=committed, coordinator_epoch=epoch):
            return f" endTxnMarker: {'COMMIT' if committed else 'ABORT'} coordinatorEpoch: {epoch}"
        case control.UnknownControlRecord(type=number):
            return f" controlType: UNKNOWN({number})"
        case control.LeaderChangeMessage():
            return f" LeaderChange: {json_text.dumps(to_json(decoded, 0))}"
        case _:
            name = _CONTROL_NAMES[schema_of(type(decoded)).key]
            return f" {name} {json_text.dumps(to_json(decoded, 0))}"
