"""The whole numbers of Avro: zigzag and varint, as in Protobuf's `sint64`."""

from __future__ import annotations

from kcli.model.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN


class InvalidAvro(ValueError):
    """Raised for bytes that are no value of the schema, and for values that do not fit the schema."""


_SHIFT_MAX = 63
"""The tenth byte of a long has only its lowest bit."""


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number and the position after it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _SHIFT_MAX:
            raise InvalidAvro("a number has more than ten bytes")
    if value >> 64:
        raise InvalidAvro("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def read_int(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number and the position after it."""
    value, at = read_long(data, at)
    if not INT_MIN <= value <= INT_MAX:
        raise InvalidAvro(f"{value} is not an int")
    return value, at


def write_long(value: object, out: bytearray) -> None:
    _write(value, out, LONG_MIN, LONG_MAX, "long")


def write_int(value: object, out: bytearray) -> None:
    _write(value, out, INT_MIN, INT_MAX, "int")


def _write(value: object, out: bytearray, least: int, most: int, kind: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidAvro(f"expected {kind}, found {value!r:.100}")
    bits = (value << 1) ^ (value >> 63)
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
