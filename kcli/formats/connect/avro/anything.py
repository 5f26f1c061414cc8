"""Values without a schema: a record in which only the field of the value's type is set."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kcli.formats.avro.encoding import Write
from kcli.formats.avro.numbers import write_int, write_long
from kcli.formats.connect.avro import names
from kcli.formats.connect.avro.encoding import write_text
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.values import (
    Float32,
    Float64,
    FrozenMap,
    Int8,
    Int16,
    Int32,
    Int64,
    as_key,
    java_class,
)

FIELDS = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")
"""The fields of the record, in its order. Each is a union of null and a type."""

_NULLS = bytes(len(FIELDS))
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def write_anything(value: object, out: bytearray) -> None:
    """Encodes a value by its class. Raises DataException for a class that the record does not know."""
    if value is None:
        out += _NULLS
        return
    field, write = _WRITES.get(type(value), (None, None))
    if field is None or write is None:
        raise DataException(f"Unknown Java type for schemaless data: class {java_class(value)}")
    position = FIELDS.index(field)
    out += _NULLS[:position]
    out.append(2)  # the second branch
    write(value, out)
    out += _NULLS[position + 1 :]


def read_anything(record: object) -> object:
    """Returns the value of a decoded record. Raises DataException."""
    if not isinstance(record, dict):
        raise DataException("Invalid Avro data for schemaless Connect data")
    for field in FIELDS:
        value = record[field]
        if value is not None:
            return _READS.get(field, _same)(value)
    return None


def _same(value: object) -> object:
    return value


def _read_array(value: object) -> object:
    assert isinstance(value, list), "the schema says so"
    return [read_anything(item) for item in value]


def _read_map(value: object) -> object:
    assert isinstance(value, list), "the schema says so"
    return {as_key(read_anything(entry[names.KEY])): read_anything(entry[names.VALUE]) for entry in value}


_READS: Mapping[str, Callable[[object], object]] = {
    "array": _read_array,
    "map": _read_map,
    "int": lambda value: Int32(value),  # type: ignore[call-overload]
    "float": lambda value: Float32(value),  # type: ignore[arg-type]
}


def _write_boolean(value: object, out: bytearray) -> None:
    out.append(value is True)


def _write_float(value: object, out: bytearray) -> None:
    out += _FLOAT.pack(value)


def _write_double(value: object, out: bytearray) -> None:
    out += _DOUBLE.pack(value)


def _write_array(value: object, out: bytearray) -> None:
    assert isinstance(value, (list, tuple)), "the table says so"
    if value:
        write_long(len(value), out)
        for item in value:
            write_anything(item, out)
    out.append(0)


def _write_map(value: object, out: bytearray) -> None:
    assert isinstance(value, dict), "the table says so"
    if value:
        write_long(len(value), out)
        for key, content in value.items():
            write_anything(key, out)
            write_anything(content, out)
    out.append(0)


_WRITES: Mapping[type, tuple[str, Write]] = {
    bool: ("boolean", _write_boolean),
    **dict.fromkeys((Int8, Int16, Int32), ("int", write_int)),
    **dict.fromkeys((int, Int64), ("long", write_long)),
    Float32: ("float", _write_float),
    **dict.fromkeys((float, Float64), ("double", _write_double)),
    str: ("string", write_text),
    **dict.fromkeys((list, tuple), ("array", _write_array)),
    **dict.fromkeys((dict, FrozenMap), ("map", _write_map)),
}
