"""Message sets of magic 0 and 1, as Kafka before 0.11 wrote them. kcli reads them and never writes them.

One entry is `offset | size | crc | magic | attributes | [timestamp, magic 1] | key | value`. A compressed entry is
called a wrapper, and its value is a whole message set. The offset of the wrapper is the offset of the last message in
it. In magic 1, the offsets of the messages in a wrapper count from 0 (KIP-31).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import CorruptRecordError, InvalidRecordException
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP
from kcli.protocol.batches.compression import Codec, decompress

# The size of crc, magic, attributes, key length and value length. Magic 1 adds a timestamp.
MIN_MESSAGE_SIZE_V0 = 14
MIN_MESSAGE_SIZE_V1 = 22
CRC_END = 16

_LOG_OVERHEAD = 12
_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08
# The attributes in use, by magic: magic 0 has only the codec, and magic 1 also the timestamp type.
_ATTRIBUTES_MASK = (0x07, 0x0F)
_MIN_SIZE = (MIN_MESSAGE_SIZE_V0, MIN_MESSAGE_SIZE_V1)
_PREFIX = struct.Struct(">qiIbB")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")


class Record(NamedTuple):
    """A record in a batch or message of any magic. The encoder replaces offset -1 by the next offset. Sequence -1 means
    no sequence number."""

    offset: int = -1
    timestamp_ms: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = -1


class MessageHeader(NamedTuple):
    offset: int
    message_size: int
    crc: int
    magic: int
    attributes: int
    timestamp_ms: int


def read_message_header(buffer: Buffer, position: int) -> MessageHeader:
    """Reads the header of a message. Raises CorruptRecordError if the magic is not 0 or 1, or the size is too small."""
    if len(buffer) - position < _PREFIX.size:
        raise CorruptRecordError(f"{len(buffer) - position} bytes cannot hold a message header")
    offset, size, crc, magic, attributes = _PREFIX.unpack_from(buffer, position)
    if magic not in (0, 1):
        raise CorruptRecordError(f"The batch at offset {offset} has magic {magic}; 0, 1 and 2 are known")
    if size < _MIN_SIZE[magic]:
        raise CorruptRecordError(
            f"The message at offset {offset} states a size of {size}, less than the {_MIN_SIZE[magic]} bytes "
            f"of a magic {magic} message"
        )
    timestamp_ms = NO_TIMESTAMP
    if magic == 1:
        if len(buffer) - position < _PREFIX.size + 8:
            raise CorruptRecordError(f"{len(buffer) - position} bytes cannot hold a magic 1 message header")
        (timestamp_ms,) = _INT64.unpack_from(buffer, position + _PREFIX.size)
    return MessageHeader(offset, size, crc, magic, attributes & _ATTRIBUTES_MASK[magic], timestamp_ms)


class CheckedRecord(NamedTuple):
    """A record with the checksum of its message. In magic 0 and 1, each message has its own checksum, even inside a
    wrapper."""

    record: Record
    crc: int
    is_valid: bool


def read_messages(entry: bytes, *, limit: int) -> Iterator[Record]:
    """Yields the records of one complete entry: the entry itself, or the records in its compressed value."""
    return (checked.record for checked in read_checked_messages(entry, limit=limit))


def read_checked_messages(entry: bytes, *, limit: int) -> Iterator[CheckedRecord]:
    """Yields the same records as `read_messages`, with their checksums. A wrong checksum raises no error: `is_valid` of
    the yielded value is False."""
    header, outer = _read_message(entry, 0, len(entry))
    codec = header.attributes & _CODEC_MASK
    if not codec:
        yield outer
        return
    if outer.record.value is None:
        raise InvalidRecordException(
            f"Found invalid compressed record set with null value (magic = {header.magic}) "
            f"at offset {header.offset}"
        )
    if codec > Codec.LZ4:
        raise InvalidRecordException(
            f"Unknown compression type id: {codec} in a magic {header.magic} message"
        )
    inner = _read_inner(decompress(Codec(codec), outer.record.value, limit), header)
    shift = header.offset - inner[-1].record.offset if header.magic == 1 else 0
    for checked in inner:
        record = checked.record
        timestamp_ms = header.timestamp_ms if header.attributes & _LOG_APPEND_TIME else record.timestamp_ms
        placed = record._replace(offset=record.offset + shift, timestamp_ms=timestamp_ms)
        yield checked._replace(record=placed)


def _read_inner(message_set: bytes, wrapper: MessageHeader) -> list[CheckedRecord]:
    records = []
    position = 0
    while position < len(message_set):
        header, record = _read_message(message_set, position, len(message_set))
        if header.magic != wrapper.magic:
            raise InvalidRecordException(
                f"Compressed message magic {header.magic} does not match wrapper magic {wrapper.magic} "
                f"at offset {wrapper.offset}"
            )
        if header.attributes & _CODEC_MASK:
            raise InvalidRecordException(f"Inner record of offset {wrapper.offset} is itself compressed")
        records.append(record)
        position += header.message_size + _LOG_OVERHEAD
    if not records:
        raise InvalidRecordException(
            f"Found invalid compressed record set with no inner records at offset {wrapper.offset}"
        )
    return records


def _read_message(buffer: bytes, position: int, limit: int) -> tuple[MessageHeader, CheckedRecord]:
    header = read_message_header(buffer, position)
    end = position + header.message_size + _LOG_OVERHEAD
    if end > limit:
        raise InvalidRecordException(
            f"The message at offset {header.offset} states a size of {header.message_size}; "
            f"{limit - position - _LOG_OVERHEAD} bytes are there"
        )
    body = position + _PREFIX.size + 8 * header.magic
    key, body = _read_bytes(buffer, body, end)
    value, body = _read_bytes(buffer, body, end)
    if body != end:
        raise InvalidRecordException(
            f"{end - body} bytes are left after the message at offset {header.offset}"
        )
    is_valid = zlib.crc32(memoryview(buffer)[position + CRC_END : end]) == header.crc
    record = Record(header.offset, header.timestamp_ms, key, value)
    return header, CheckedRecord(record, header.crc, is_valid)


def _read_bytes(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if position + 4 > end:
        raise InvalidRecordException("A message ends inside the length of its key or value")
    (length,) = _INT32.unpack_from(buffer, position)
    position += 4
    if length < 0:
        return None, position
    if length > end - position:
        raise InvalidRecordException(
            f"A field of {length} bytes where {end - position} are left in its message"
        )
    return buffer[position : position + length], position + length
