"""Encodes values as Avro's binary form, with a function for each type of the schema.

A pair of the name of a branch and a value chooses the branch of a union. Any other value gets the first branch that it
fits. A missing field of a record has the default of the field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kcli.formats.avro.json_values import default_value
from kcli.formats.avro.logical_values import PYTHON_TYPES, to_stored
from kcli.formats.avro.numbers import InvalidAvro, write_int, write_long
from kcli.formats.avro.schema import (
    Array,
    Enum,
    Field,
    Fixed,
    Kind,
    LogicalType,
    Map,
    Part,
    Primitive,
    Record,
    Union,
    branch_name,
    kind_of,
)
from kcli.model.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

Write = Callable[[object, bytearray], None]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class Writers:
    """Makes the functions that encode the types of one schema."""

    def __init__(self) -> None:
        self._writes: dict[int, Write] = {}

    def of(self, part: Part) -> Write:
        """Returns the function that encodes values of a type."""
        if (known := self._writes.get(id(part))) is not None:
            return known
        if isinstance(part, Record):
            # A record may contain itself, so its function looks up the complete function when it is called.
            self._writes[id(part)] = lambda value, out: self._writes[id(part)](value, out)
        write = self._new(part)
        self._writes[id(part)] = write
        return write

    def _new(self, part: Part) -> Write:
        match part:
            case Primitive():
                return _with_logical(_PRIMITIVES[part.kind], part.logical, None)
            case Fixed():
                return _with_logical(_fixed(part), part.logical, part.size)
            case Enum():
                return _enum(part)
            case Array():
                return _array(self.of(part.items))
            case Map():
                return _map(self.of(part.values))
            case Union():
                return self._union(part)
            case Record():
                return self._record(part)

    def _union(self, union: Union) -> Write:
        names = {branch_name(branch): nth for nth, branch in enumerate(union.branches)}
        writes = [self.of(branch) for branch in union.branches]

        def write(value: object, out: bytearray) -> None:
            match value:
                case (str() as name, inner):
                    if name not in names:
                        raise InvalidAvro(f"Unknown union branch {name}")
                    nth = names[name]
                case _:
                    nth, inner = branch_of(union, value), value
            write_long(nth, out)
            writes[nth](inner, out)

        return write

    def _record(self, record: Record) -> Write:
        fields = [(field.name, self.of(field.type), field) for field in record.fields]

        def write(value: object, out: bytearray) -> None:
            if not isinstance(value, dict):
                raise _expected(record, value)
            for name, write_field, field in fields:
                if name in value:
                    write_field(value[name], out)
                else:
                    write_field(_default(field, record), out)

        return write


def branch_of(union: Union, value: object) -> int:
    """Returns the number of the first branch that a value fits, first by its Python type alone."""
    for fits in (_fits, _fits_loosely):
        for nth, branch in enumerate(union.branches):
            if fits(branch, value):
                return nth
    listed = ", ".join(map(branch_name, union.branches))
    raise InvalidAvro(f"expected one of the types {listed}, found {value!r:.100}")


def _default(field: Field, record: Record) -> object:
    if field.default is None:
        raise InvalidAvro(f"the record {record.name.full} has no field {field.name}")
    return default_value(field.type, field.default.json)


def _expected(part: Part, value: object) -> InvalidAvro:
    return InvalidAvro(f"expected {kind_of(part)}, found {value!r:.100}")


def _with_logical(write: Write, logical: LogicalType | None, size: int | None) -> Write:
    convert = None if logical is None else to_stored(logical, size)
    return write if convert is None else lambda value, out: write(convert(value), out)


def _fits(part: Part, value: object) -> bool:
    """Whether a value of Python belongs to a type, and to no other as well."""
    match part:
        case Primitive() | Fixed() if part.logical is not None and part.logical.logical in PYTHON_TYPES:
            kind = PYTHON_TYPES[part.logical.logical]
            is_wrong_date = kind is not type(value) and kind.__name__ == "date"
            return isinstance(value, kind) and not is_wrong_date
        case Primitive():
            return _fits_primitive(part.kind, value)
        case Fixed():
            return isinstance(value, bytes) and len(value) == part.size
        case Enum():
            return isinstance(value, str) and value in part.symbols
        case Array():
            return isinstance(value, list)
        case Map():
            return isinstance(value, dict) and all(isinstance(name, str) for name in value)
        case Record():
            return isinstance(value, dict) and _fits_record(part, value)
        case Union():
            return False


def _fits_record(record: Record, value: Mapping[object, object]) -> bool:
    names = {field.name for field in record.fields}
    return value.keys() <= names and all(
        field.name in value or field.default is not None for field in record.fields
    )


def _fits_primitive(kind: Kind, value: object) -> bool:
    match kind:
        case Kind.NULL:
            return value is None
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.INT:
            return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX
        case Kind.LONG:
            return isinstance(value, int) and not isinstance(value, bool) and LONG_MIN <= value <= LONG_MAX
        case Kind.DOUBLE | Kind.FLOAT:
            return isinstance(value, float)
        case Kind.BYTES:
            return isinstance(value, bytes)
        case _:
            return isinstance(value, str)


def _fits_loosely(part: Part, value: object) -> bool:
    """Whether a value can be encoded as a type: a whole number as a fraction, or the stored value of a logical type."""
    match part:
        case Primitive(kind=Kind.FLOAT | Kind.DOUBLE):
            return isinstance(value, int) and not isinstance(value, bool)
        case Primitive():
            return _fits_primitive(part.kind, value)
        case Fixed():
            return isinstance(value, bytes) and len(value) == part.size
        case _:
            return False


def _write_null(value: object, _out: bytearray) -> None:
    if value is not None:
        raise InvalidAvro(f"expected null, found {value!r:.100}")


def _write_boolean(value: object, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise InvalidAvro(f"expected boolean, found {value!r:.100}")
    out.append(value)


def _write_float(value: object, out: bytearray) -> None:
    try:
        out += _FLOAT.pack(_number(value, "float"))
    except OverflowError:
        raise InvalidAvro(f"{value!r:.100} is not a float") from None


def _write_double(value: object, out: bytearray) -> None:
    out += _DOUBLE.pack(_number(value, "double"))


def _number(value: object, kind: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidAvro(f"expected {kind}, found {value!r:.100}")
    return value


def _write_bytes(value: object, out: bytearray) -> None:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidAvro(f"expected bytes, found {value!r:.100}")
    write_long(len(value), out)
    out += value


def _write_string(value: object, out: bytearray) -> None:
    if not isinstance(value, str):
        raise InvalidAvro(f"expected string, found {value!r:.100}")
    _write_bytes(value.encode(), out)


_PRIMITIVES: Mapping[Kind, Write] = {
    Kind.NULL: _write_null,
    Kind.BOOLEAN: _write_boolean,
    Kind.INT: write_int,
    Kind.LONG: write_long,
    Kind.FLOAT: _write_float,
    Kind.DOUBLE: _write_double,
    Kind.BYTES: _write_bytes,
    Kind.STRING: _write_string,
}


def _fixed(fixed: Fixed) -> Write:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, bytes) or len(value) != fixed.size:
            raise InvalidAvro(f"expected {fixed.size} bytes, found {value!r:.100}")
        out += value

    return write


def _enum(enum: Enum) -> Write:
    numbers = {symbol: nth for nth, symbol in enumerate(enum.symbols)}

    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, str) or value not in numbers:
            raise InvalidAvro(f"expected a symbol of {enum.name.full}, found {value!r:.100}")
        write_long(numbers[value], out)

    return write


def _array(write_item: Write) -> Write:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, list):
            raise InvalidAvro(f"expected array, found {value!r:.100}")
        if value:
            write_long(len(value), out)
            for item in value:
                write_item(item, out)
        out.append(0)

    return write


def _map(write_value: Write) -> Write:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise InvalidAvro(f"expected map, found {value!r:.100}")
        if value:
            write_long(len(value), out)
            for name, item in value.items():
                _write_string(name, out)
                write_value(item, out)
        out.append(0)

    return write
