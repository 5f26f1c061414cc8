"""Record batches, on the wire and on disk. Batches of magic 2 are read and written. Messages of magic 0 and 1 are only
read.

A batch begins with a header of 61 bytes, which one `struct` call unpacks into a `BatchHeader`. A leader checks and
appends most batches without reading more than this header. The checksum does not cover base offset and leader epoch, so
`assign` changes these two fields in place. Only `read_records` reads the records. KIP-98 ("Message format") describes
the layout, and KIP-82 the headers of records.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from kcli.errors import CorruptRecordError, CorruptRecordException, InvalidRecordException
from kcli.model.buffers import Buffer
from kcli.model.ids import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ProducerId,
)
from kcli.model.java_numbers import to_long
from kcli.model.java_text import LONG_MAX, LONG_MIN
from kcli.model.java_utf8 import decode_utf8
from kcli.protocol.batches import legacy
from kcli.protocol.batches.byte_stream import ByteStream
from kcli.protocol.batches.compression import MAX_DECOMPRESSED_BYTES, Codec, compress, inflate
from kcli.protocol.batches.legacy import Record
from kcli.protocol.checksum import crc32c
from kcli.protocol.wire.varint import MAX_VARINT_BYTES, VarintError, encode_varint, read_varint, read_varlong

__all__ = [
    "CODEC_MASK",
    "CONTROL",
    "CURRENT_MAGIC",
    "FLAGS_POSITION",
    "HEADER_SIZE",
    "LENGTH_OVERHEAD",
    "LOG_APPEND_TIME",
    "MAGIC_POSITION",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "TRANSACTIONAL",
    "BatchHeader",
    "ProducerFields",
    "Record",
    "advance_sequence",
    "assign",
    "crc_is_valid",
    "decode_records",
    "encode_batch",
    "iter_batches",
    "read_header",
    "read_producer",
    "read_records",
    "set_log_append_time",
    "set_max_timestamp",
]

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""The size of the first two fields of a batch, base offset and length. The value in the field length does not include
these bytes."""

# The bytes up to the magic: offset, length, crc or leader epoch, magic.
PREFIX_SIZE = 17
CRC_END = 21
MAX_SEQUENCE = 0x7FFF_FFFF

CURRENT_MAGIC = 2
MAGIC_POSITION = 16
# The position of the second byte of attributes, which has all flags that are in use.
FLAGS_POSITION = 22
CODEC_MASK = 0x07
_CODECS = tuple(Codec)  # in the order of their ids, because a call of an enum is slow
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
_DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_MAX_TIMESTAMP_POSITION = 35
_PRODUCER_POSITION = 43


class ProducerFields(NamedTuple):
    """The fields of a batch header that identify the producer (KIP-98)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


class BatchHeader(NamedTuple):
    """The fields of a batch header in wire order.

    The same fields describe a message of magic 0 or 1. `base_offset` is the offset of the message on disk. For a
    compressed message, this is the offset of the *last* message in it. `records_count` is 1, or -1 if the message is
    compressed.
    """

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """The compression codec. Raises InvalidRecordException for the ids 5 to 7, because they do not belong to a
        codec."""
        try:
            return _CODECS[self.attributes & CODEC_MASK]
        except IndexError:
            raise InvalidRecordException(
                f"Unknown compression type id: {self.attributes & CODEC_MASK} in the batch at offset "
                f"{self.base_offset} (0 to 4 are known)"
            ) from None

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & _DELETE_HORIZON != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the tombstones of this batch may be removed (KIP-534). The batch stores this time in
        place of the base timestamp."""
        return self.base_timestamp_ms if self.attributes & _DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header at `position`. Raises CorruptRecordError if the size or magic is invalid or the buffer ends
    inside the header."""
    if len(buffer) - position < PREFIX_SIZE:
        raise CorruptRecordError(f"{len(buffer) - position} bytes cannot hold a batch header")
    magic = buffer[position + MAGIC_POSITION]
    if magic != CURRENT_MAGIC:
        return _read_legacy_header(buffer, position, magic)
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptRecordError(
            f"{len(buffer) - position} bytes cannot hold the {HEADER_SIZE} of a batch header"
        )
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise CorruptRecordError(
            f"The batch at offset {header.base_offset} states a length of {header.batch_length}, "
            f"less than the {HEADER_SIZE - LENGTH_OVERHEAD} bytes of a header"
        )
    return header


def read_producer(buffer: Buffer, position: int = 0) -> ProducerFields:
    """Reads only the producer fields of the batch of magic 2 at `position`."""
    return ProducerFields._make(_PRODUCER.unpack_from(buffer, position + _PRODUCER_POSITION))


def _read_legacy_header(buffer: Buffer, position: int, magic: int) -> BatchHeader:
    message = legacy.read_message_header(buffer, position)
    return BatchHeader(
        base_offset=Offset(message.offset),
        batch_length=message.message_size,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=message.crc,
        attributes=message.attributes,
        last_offset_delta=0,
        base_timestamp_ms=message.timestamp_ms,
        max_timestamp_ms=message.timestamp_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=-1 if message.attributes & CODEC_MASK else 1,
    )


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields the position and the header of each complete batch. As in Kafka, an incomplete batch at the end is
    skipped."""
    end = len(buffer)
    while end - position > PREFIX_SIZE:
        _, length, _, magic = _PREFIX.unpack_from(buffer, position)
        if length < legacy.MIN_MESSAGE_SIZE_V0:
            raise CorruptRecordError(
                f"The batch at byte {position} states a size of {length}, less than the "
                f"{legacy.MIN_MESSAGE_SIZE_V0} bytes of the smallest message"
            )
        if not 0 <= magic <= 2:
            raise CorruptRecordError(f"The batch at byte {position} has magic {magic}; 0, 1 and 2 are known")
        if length + LENGTH_OVERHEAD > end - position:
            return
        header = read_header(buffer, position)
        yield position, header
        position += length + LENGTH_OVERHEAD


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the stored checksum matches the bytes of the batch. False if the batch is incomplete."""
    end = position + header.size_bytes
    if end > len(buffer):
        return False
    with memoryview(buffer) as view:
        if header.magic == 2:
            return int(crc32c(view[position + CRC_END : end])) == header.crc
        return zlib.crc32(view[position + legacy.CRC_END : end]) == header.crc


def assign(
    buffer: bytearray | memoryview, position: int, base_offset: Offset, leader_epoch: LeaderEpoch
) -> None:
    """Sets base offset and leader epoch of a batch in place. The checksum stays valid, because it does not cover these
    two fields."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LENGTH_OVERHEAD, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, position: int, now_ms: int) -> None:
    """Sets the timestamp type to LogAppendTime, sets the max timestamp to the broker's time, and renews the checksum.

    The max timestamp is then the timestamp of every record.
    """
    set_max_timestamp(buffer, position, now_ms, log_append_time=True)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, max_timestamp_ms: int, *, log_append_time: bool = False
) -> None:
    """Replaces the max timestamp and the timestamp type, and renews the checksum."""
    (length,) = _INT32.unpack_from(buffer, position + 8)
    (attributes,) = _INT16.unpack_from(buffer, position + CRC_END)
    attributes = attributes & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if log_append_time else 0)
    _INT16.pack_into(buffer, position + CRC_END, attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    with memoryview(buffer) as view:
        crc = crc32c(view[position + CRC_END : position + length + LENGTH_OVERHEAD])
    _UINT32.pack_into(buffer, position + PREFIX_SIZE, crc)


def advance_sequence(sequence: int, step: int) -> int:
    """Returns the sequence number of the record that comes `step` records later. The number after 2147483647 is 0."""
    return (sequence + step) & MAX_SEQUENCE


def read_records(
    buffer: Buffer, position: int = 0, *, limit: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yields the records of the batch at `position`. Each record is decompressed and decoded when the caller asks for
    it.

    This function is as strict as Kafka's readers. Raises InvalidRecordException if counts or lengths are wrong, and
    CorruptRecordException if the compressed data is invalid. A message of an old format is decompressed as a whole, so
    `limit` is the largest decompressed size of such a message, in bytes.
    """
    header = read_header(buffer, position)
    end = position + header.size_bytes
    if end > len(buffer):
        raise CorruptRecordException(
            f"The batch at offset {header.base_offset} states {header.size_bytes} bytes; "
            f"{len(buffer) - position} are there"
        )
    if header.magic != 2:
        return legacy.read_messages(bytes(buffer[position:end]), limit=limit)
    if header.records_count < 0:
        raise InvalidRecordException(
            f"Found invalid record count {header.records_count} in magic v2 batch "
            f"at offset {header.base_offset}"
        )
    pieces = inflate(header.codec, memoryview(buffer)[position + HEADER_SIZE : end])
    first, second = next(pieces, b""), next(pieces, None)
    if second is None:
        return decode_records(header, first)
    return _decode_pieces(header, chain((first, second), pieces))


def decode_records(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    """Yields the records of a batch of magic 2. `payload` is the decompressed part after the header. Raises the same
    errors as `read_records`."""
    position = 0
    for index in range(header.records_count):
        try:
            record, position = _decode_record(header, payload, position)
        except (IndexError, VarintError) as error:
            raise _cut_short(header, index, error) from None
        yield record
    if position != len(payload):
        raise InvalidRecordException(
            f"Incorrect declared batch size, records still remaining in file: "
            f"{len(payload) - position} bytes after the {header.records_count} records "
            f"of the batch at offset {header.base_offset}"
        )


def _decode_pieces(header: BatchHeader, pieces: Iterable[bytes]) -> Iterator[Record]:
    """Yields the records of a batch, as `decode_records` does. The payload comes in pieces."""
    stream = ByteStream(pieces)
    for index in range(header.records_count):
        try:
            while stream.ready_bytes < MAX_VARINT_BYTES and stream.grow():
                pass
            size = stream.size_of_record()
            if size > stream.ready_bytes:
                stream.grow_to(size)
            record, end = _decode_record(header, stream.front, stream.at)
        except (IndexError, VarintError) as error:
            raise _cut_short(header, index, error) from None
        stream.advance(end - stream.at)
        yield record
    if not stream.is_at_end():
        raise InvalidRecordException(
            f"Incorrect declared batch size, records still remaining in file: more bytes after the "
            f"{header.records_count} records of the batch at offset {header.base_offset}"
        )


def _cut_short(header: BatchHeader, index: int, error: Exception) -> InvalidRecordException:
    return InvalidRecordException(
        f"Record {index} of the batch at offset {header.base_offset} is cut short: {error}"
    )


def _decode_record(header: BatchHeader, payload: bytes, position: int) -> tuple[Record, int]:
    length, position = read_varint(payload, position)
    end = position + length
    if length < 0 or end > len(payload):
        raise InvalidRecordException(
            f"Invalid record size: expected {length} bytes in record payload, "
            f"but {len(payload) - position} are left"
        )
    # Skips the byte of attributes, which no version uses.
    timestamp_delta, position = read_varlong(payload, position + 1)
    offset_delta, position = read_varint(payload, position)
    key, position = _read_bytes(payload, position, end)
    value, position = _read_bytes(payload, position, end)
    headers_count, position = read_varint(payload, position)
    if not 0 <= headers_count <= end - position:
        raise InvalidRecordException(
            f"Found invalid number of record headers {headers_count}; "
            f"{end - position} bytes are left for them"
        )
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if headers_count:
        headers, position = _read_headers(payload, position, end, headers_count)
    if position != end:
        raise InvalidRecordException(
            f"Invalid record size: expected to read {length} bytes in record payload, "
            f"but instead read {length + position - end}"
        )
    timestamp_ms = (
        header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms + timestamp_delta
    )
    if not LONG_MIN <= timestamp_ms <= LONG_MAX:
        timestamp_ms = to_long(timestamp_ms)
    sequence = NO_SEQUENCE
    if header.base_sequence >= 0:
        sequence = advance_sequence(header.base_sequence, offset_delta)
    return Record(header.base_offset + offset_delta, timestamp_ms, key, value, headers, sequence), end


def _read_bytes(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position)
    if length < 0:
        return None, position
    if length > end - position:
        raise InvalidRecordException(
            f"A field of {length} bytes where {end - position} are left in its record"
        )
    return payload[position : position + length], position + length


def _read_headers(
    payload: bytes, position: int, end: int, count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    headers = []
    for _ in range(count):
        key, position = _read_bytes(payload, position, end)
        if key is None:
            raise InvalidRecordException("Found a record header with a null key")
        value, position = _read_bytes(payload, position, end)
        headers.append((decode_utf8(key), value))
    return tuple(headers), position


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    last_offset_delta: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """Encodes one batch of magic 2.

    A record whose `offset` is -1 gets the next offset after the record before it. If `log_append_time_ms` is given, the
    batch has the timestamp type LogAppendTime. If `last_offset_delta` or `max_timestamp_ms` is given, it takes
    precedence over the value that follows from the records. Compaction passes these arguments, because a batch keeps
    its offset range when records are removed. A batch without records has `last_offset_delta` + 1 offsets.
    """
    base_timestamp_ms = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
    payload, count = bytearray(), 0
    last_offset, newest_ms = base_offset - 1, NO_TIMESTAMP
    for record in records:
        if count == 0 and delete_horizon_ms is None:
            base_timestamp_ms = record.timestamp_ms
        last_offset = record.offset if record.offset >= 0 else last_offset + 1
        delta_ms = to_long(record.timestamp_ms - base_timestamp_ms)
        _append_record(payload, record, delta_ms, last_offset - base_offset)
        newest_ms = max(newest_ms, record.timestamp_ms)
        count += 1
    if max_timestamp_ms is None:
        max_timestamp_ms = newest_ms if log_append_time_ms is None else log_append_time_ms
    attributes = (
        codec
        | (LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (_DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    body = compress(codec, payload, level) if codec else payload
    delta = last_offset - base_offset if last_offset_delta is None else last_offset_delta
    header = BatchHeader(
        Offset(base_offset), 0, LeaderEpoch(leader_epoch), CURRENT_MAGIC, 0, attributes, delta, base_timestamp_ms,
        max_timestamp_ms, ProducerId(producer_id), producer_epoch, base_sequence, count,
    )  # fmt: skip
    return bytes(seal(header, (body,)))


def seal(header: BatchHeader, body: Iterable[Buffer]) -> bytearray:
    """Makes a batch from this header and these records, which may be compressed. Sets the length and the checksum."""
    batch = bytearray(HEADER_SIZE)
    for piece in body:
        batch += piece
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LENGTH_OVERHEAD))
    with memoryview(batch) as view:
        _UINT32.pack_into(batch, PREFIX_SIZE, crc32c(view[CRC_END:]))
    return batch


def _append_record(payload: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(b"\x00")
    body += encode_varint(timestamp_delta)
    body += encode_varint(offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    body += encode_varint(len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode("utf-8", "replace"))
        _append_bytes(body, value)
    payload += encode_varint(len(body))
    payload += body


def _append_bytes(body: bytearray, field: bytes | None) -> None:
    if field is None:
        body += b"\x01"  # the varint of -1
    else:
        body += encode_varint(len(field))
        body += field
