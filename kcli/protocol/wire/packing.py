"""Reads and writes the primitive types of the wire protocol, for the fast codecs of Produce and Fetch.

A read function takes a buffer and a position, and returns the value and the next position. A position beyond the end
raises `IndexError` or `struct.error`. The codec converts both to `ProtocolError`. A compact length is an unsigned
varint: the length plus 1, or 0 for null (KIP-482).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from struct import Struct, error

from kcli.errors import ProtocolError
from kcli.model.buffers import Buffer
from kcli.model.java_utf8 import decode_utf8

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
_REQUEST_HEADER = Struct(">hhi")

UVARINT_MAX_BYTES = 5
"""The most bytes of an unsigned varint, as in Kafka. Five bytes contain 35 bits of the number, which is enough for any
int32 length."""

TAGS_MAX = 1000
"""The most tagged fields of a struct. Kafka's messages define fewer than ten. A request may contain many unknown tagged
fields of two bytes each, so the limit bounds the work on them."""

NO_TAGS = b"\x00"
_ZERO_UUID = bytes(16)


def cause_text(cause: Exception) -> str:
    """Explains in terms of Kafka's protocol why bytes could not be read. This text is used instead of Python's error
    text."""
    match cause:
        case error() | IndexError():
            return "it ends too early"
        case OverflowError():
            return "a number is out of range"
    return str(cause)


def read_uvarint(buffer: Buffer, at: int) -> tuple[int, int]:
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for position in range(at + 1, at + UVARINT_MAX_BYTES):
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise ProtocolError(f"varint at byte {at} is longer than {UVARINT_MAX_BYTES} bytes")


def read_string(buffer: Buffer, at: int, flexible: bool) -> tuple[str | None, int]:
    """Reads a string or null. The length of the string is compact if `flexible` is True."""
    if flexible:
        length, at = read_uvarint(buffer, at)
        length -= 1
    else:
        length = INT16.unpack_from(buffer, at)[0]
        at += 2
    if length < 0:
        return None, at
    end = at + length
    if end > len(buffer):
        raise ProtocolError(f"string of {length} bytes at byte {at} runs past the end of the request")
    return decode_utf8(buffer[at:end]), end


def read_present_string(buffer: Buffer, at: int, flexible: bool, field: str) -> tuple[str, int]:
    """Reads a string that must not be null."""
    value, at = read_string(buffer, at, flexible)
    if value is None:
        raise ProtocolError(f"non-nullable field {field} was serialized as null")
    return value, at


def read_uuid(buffer: Buffer, at: int) -> tuple[uuid.UUID | None, int]:
    """Reads a uuid. Returns None for the zero uuid."""
    raw = bytes(buffer[at : at + 16])
    if len(raw) < 16:
        raise ProtocolError(f"uuid at byte {at} runs past the end of the request")
    return (None if raw == _ZERO_UUID else uuid.UUID(bytes=raw)), at + 16


def read_count(buffer: Buffer, at: int, flexible: bool, field: str, element_size_min: int) -> tuple[int, int]:
    """Reads the length of an array that must not be null. Each element has at least `element_size_min` bytes.

    Raises ProtocolError if the frame has too few bytes for this many elements. So a wrong length cannot cause a large
    allocation.
    """
    if flexible:
        count, at = read_uvarint(buffer, at)
        count -= 1
    else:
        count = INT32.unpack_from(buffer, at)[0]
        at += 4
    if count < 0:
        raise ProtocolError(f"non-nullable array {field} was serialized as null")
    if count * element_size_min > len(buffer) - at:
        raise ProtocolError(
            f"array {field} of {count} elements cannot fit in the {len(buffer) - at} bytes left"
        )
    return count, at


def read_tags(buffer: Buffer, at: int, known: Callable[[int, Buffer], None] | None = None) -> int:
    """Reads a block of tagged fields and calls `known` with each tag and its bytes. Returns the position after the
    block."""
    if buffer[at] == 0:
        return at + 1
    count, at = read_uvarint(buffer, at)
    if count > TAGS_MAX:
        raise ProtocolError(f"{count} tagged fields at byte {at}; at most {TAGS_MAX} are accepted")
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        if size > len(buffer) - at:
            raise ProtocolError(f"tagged field {tag} of {size} bytes runs past the end of the request")
        if known is not None:
            known(tag, buffer[at : at + size])
        at += size
    return at


def read_request_header(frame: Buffer) -> tuple[int, int, int, str | None, int]:
    """Reads the fields of a request header: (API key, version, correlation id, client id, position after them).

    Flexible versions use header v2, in which tagged fields follow these fields (KIP-482). The client id is not compact
    in header v1 or v2.
    """
    try:
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack_from(frame, 0)
        client_id, at = read_string(frame, _REQUEST_HEADER.size, False)
    except error as cause:
        raise ProtocolError(f"Error parsing request header: {cause_text(cause)}") from cause
    return api_key, api_version, correlation_id, client_id, at


def read_header_tags(frame: Buffer, at: int) -> int:
    """Skips the tags of a version 2 header."""
    try:
        return read_tags(frame, at)
    except IndexError as cause:
        raise ProtocolError(f"Error parsing request header: {cause_text(cause)}") from cause


def pack_uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_count(count: int, flexible: bool) -> bytes:
    return pack_uvarint(count + 1) if flexible else INT32.pack(count)


def pack_string(value: str | None, flexible: bool) -> bytes:
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    raw = value.encode()
    return (pack_uvarint(len(raw) + 1) if flexible else INT16.pack(len(raw))) + raw


def pack_uuid(value: uuid.UUID | None) -> bytes:
    return _ZERO_UUID if value is None else value.bytes


def pack_tags(fields: list[tuple[int, bytes]]) -> bytes:
    """Encodes a block of tagged fields, which must be in ascending order of their tags."""
    if not fields:
        return NO_TAGS
    parts = [pack_uvarint(len(fields))]
    for tag, payload in fields:
        parts += (pack_uvarint(tag), pack_uvarint(len(payload)), payload)
    return b"".join(parts)
