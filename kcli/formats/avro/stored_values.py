"""Decodes the values of primitive types and of fixed types, as they are stored."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kcli.formats.avro.numbers import InvalidAvro, read_int, read_long
from kcli.formats.avro.schema import Kind
from kcli.model.java_floats import nearest_float

Read = Callable[[bytes, int], tuple[object, int]]
"""Decodes the value at a position, and returns the value and the position after it."""

Convert = Callable[[object], object]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def _read_null(_data: bytes, at: int) -> tuple[object, int]:
    return None, at


def _read_boolean(data: bytes, at: int) -> tuple[object, int]:
    byte = data[at]
    if byte > 1:
        raise InvalidAvro(f"a boolean has the byte {byte}")
    return byte == 1, at + 1


def _read_float(data: bytes, at: int) -> tuple[object, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _read_double(data: bytes, at: int) -> tuple[object, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise InvalidAvro(f"the length {length} is more than the remaining {len(data) - at} bytes")
    return data[at:end], end


def read_string(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _read_bytes(data, at)
    return raw.decode(), at


PRIMITIVE_READS: Mapping[Kind, Read] = {
    Kind.NULL: _read_null,
    Kind.BOOLEAN: _read_boolean,
    Kind.INT: read_int,
    Kind.LONG: read_long,
    Kind.FLOAT: _read_float,
    Kind.DOUBLE: _read_double,
    Kind.BYTES: _read_bytes,
    Kind.STRING: read_string,
}


def read_fixed(size: int) -> Read:
    """Returns the function that decodes bytes of a fixed size."""

    def read(data: bytes, at: int) -> tuple[object, int]:
        end = at + size
        if end > len(data):
            raise InvalidAvro(f"expected {size} bytes, but {len(data) - at} remain")
        return data[at:end], end

    return read


def _as_float(value: object) -> object:
    assert isinstance(value, (int, float)), "the schema says so"
    return 0.0 + value


def _as_single(value: object) -> object:
    assert isinstance(value, int), "the schema says so"
    return nearest_float(value)


def _as_text(value: object) -> object:
    assert isinstance(value, bytes), "the schema says so"
    return value.decode("utf-8", "replace")  # any bytes are valid for the writer


PROMOTED: Mapping[tuple[Kind, Kind], Callable[[object], object]] = {
    (Kind.INT, Kind.FLOAT): _as_single,
    (Kind.LONG, Kind.FLOAT): _as_single,
    (Kind.INT, Kind.DOUBLE): _as_float,
    (Kind.LONG, Kind.DOUBLE): _as_float,
    (Kind.BYTES, Kind.STRING): _as_text,
}
"""The conversions of stored values, by the types of the writer and of the reader."""
