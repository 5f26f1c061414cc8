"""Zig-zag and unsigned varints (LEB128): the integers of record batches and flexible messages.

A read function takes a buffer and a position, and returns the value and the next position. If the buffer ends too
early, a read function raises IndexError. The callers convert this error to an error that names the structure.
"""

from __future__ import annotations

from kcli.model.buffers import Buffer

# Kafka's limits: 5 groups of 7 bits hold an int32, 10 groups an int64.
MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


class VarintError(ValueError):
    """A varint has more bytes than the widest integer needs."""


def read_uvarint(buffer: Buffer, position: int, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    second = buffer[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value = 0
    for shift in range(0, 7 * max_bytes, 7):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
    raise VarintError(f"a varint at byte {position - max_bytes} is longer than {max_bytes} bytes")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    if first < 0x80:  # one byte, as most lengths and deltas have
        return first >> 1 ^ -(first & 1), position + 1
    value, position = read_uvarint(buffer, position)
    value &= 0xFFFF_FFFF
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    if first < 0x80:
        return first >> 1 ^ -(first & 1), position + 1
    value, position = read_uvarint(buffer, position, MAX_VARLONG_BYTES)
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return (value >> 1) ^ -(value & 1), position


def encode_uvarint(value: int) -> bytes:
    """Encodes an unsigned varint. `value` must not be negative."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_varint(value: int) -> bytes:
    """Encodes a zig-zag varint. The bytes are the same for int32 (varint) and int64 (varlong)."""
    return encode_uvarint(value << 1 if value >= 0 else ~(value << 1))


_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))
"""The encodings of all one-byte varints. They are made in advance, because nearly every length and delta has one
byte."""
