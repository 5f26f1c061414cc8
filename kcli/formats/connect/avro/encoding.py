"""Encodes values of Connect's data model in Avro's binary form, with a function for each pair of schemas.

The Avro schema may be another one than that of the Connect schema, for example the latest version of a subject. So
fields are paired by name, and numbers become the wider numbers of the Avro schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import cast

from kcli.formats.avro.encoding import Write, Writers
from kcli.formats.avro.json_values import default_value
from kcli.formats.avro.numbers import InvalidAvro, write_int, write_long
from kcli.formats.avro.schema import (
    Array,
    Enum,
    Field,
    Fixed,
    Kind,
    Map,
    Part,
    Primitive,
    Record,
    Union,
    branch_name,
    kind_of,
)
from kcli.formats.connect.avro import names
from kcli.formats.connect.avro.settings import AvroSettings
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.logical import date_to_days, decimal_to_bytes, time_to_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.schema import Field as ConnectField
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.sum_types import ENUM_PARAMETER
from kcli.formats.connect.values import Instant, java_class

Convert = Callable[[object], object]

NULL_VALUE = "Found null value for non-optional schema"

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_WHOLE = (Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE)
_READABLE = {
    SchemaType.INT8: _WHOLE,
    SchemaType.INT16: _WHOLE,
    SchemaType.INT32: _WHOLE,
    SchemaType.INT64: _WHOLE[1:],
    SchemaType.FLOAT32: (Kind.FLOAT, Kind.DOUBLE),
    SchemaType.FLOAT64: (Kind.DOUBLE,),
    SchemaType.BOOLEAN: (Kind.BOOLEAN,),
    SchemaType.STRING: (Kind.STRING, Kind.ENUM, Kind.BYTES),
    SchemaType.BYTES: (Kind.BYTES, Kind.FIXED, Kind.STRING),
    SchemaType.ARRAY: (Kind.ARRAY,),
    SchemaType.MAP: (Kind.MAP, Kind.ARRAY),
    SchemaType.STRUCT: (Kind.RECORD,),
}
"""The Avro types in which values of a type can be written, the likeliest first."""


class ConnectWriters:
    """Makes the functions that encode values of Connect's schemas. The functions raise DataException."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._defaults = Writers()
        self._writes: dict[tuple[int, int], Write] = {}
        self._schemas: list[Schema] = []

    def of(self, schema: Schema, part: Part) -> Write:
        """Returns the function that encodes values of a schema as an Avro type."""
        pair = (id(schema), id(part))
        if (known := self._writes.get(pair)) is not None:
            return known
        self._schemas.append(schema)  # an identity has a meaning only while its object lives
        # Structs may contain themselves, so until the function is complete, it is looked up when it is called.
        self._writes[pair] = lambda value, out: self._writes[pair](value, out)
        write = self._new(schema, part)
        self._writes[pair] = write
        return write

    def _new(self, schema: Schema, part: Part) -> Write:
        if isinstance(part, Union):
            return self._union(schema, part)
        if names.is_union(schema):
            return _single_branch(schema, [self.of(item.schema, part) for item in schema.fields])
        if kind_of(part) not in _READABLE[schema.type]:
            raise _mismatch(schema, part)
        match part:
            case Record():
                return self._record(schema, part)
            case Array() if schema.type is SchemaType.MAP:
                return self._entries(schema, part)
            case Array():
                assert schema.value_schema is not None
                return _array(schema, self.of(schema.value_schema, part.items))
            case Map():
                assert schema.value_schema is not None
                return _map(schema, self.of(schema.value_schema, part.values))
            case Enum():
                return _enum(schema, part)
            case Primitive() | Fixed():
                return _leaf(schema, part)

    # Unions

    def _union(self, schema: Schema, union: Union) -> Write:
        null = next((nth for nth, branch in enumerate(union.branches) if names.is_null(branch)), None)
        if names.is_union(schema):
            return self._struct_of_branches(schema, union, null)
        nth = self._branch_for(schema, union)
        return _optional(_number(nth), self.of(schema, union.branches[nth]), _null_number(schema, null))

    def _struct_of_branches(self, schema: Schema, union: Union, null: int | None) -> Write:
        """Writes a struct that stands for a union: the first field that has a value."""
        writes: list[tuple[bytes, Write]] = []
        taken: set[int] = set() if null is None else {null}
        for item in schema.fields:
            nth = self._branch_for(item.schema, union, taken)
            taken.add(nth)
            writes.append((_number(nth), self.of(item.schema, union.branches[nth])))
        ignores_defaults, null_number = self._settings.ignores_defaults, _null_number(schema, null)

        def write(value: object, out: bytearray) -> None:
            if value is not None:
                struct_value = _struct(schema, value)
                for item, content, (number, write_branch) in zip(
                    schema.fields, struct_value.values, writes, strict=True
                ):
                    chosen = content if content is not None or ignores_defaults else item.schema.default
                    if chosen is not None:
                        out += number
                        write_branch(chosen, out)
                        return
            if null_number is None:
                raise DataException(NULL_VALUE)
            out += null_number

        return write

    def _branch_for(
        self, schema: Schema, union: Union, taken: set[int] | frozenset[int] = frozenset()
    ) -> int:
        """Returns the number of the branch for values of a schema: one with its name, or one of its type."""
        kinds = _READABLE[schema.type]
        free = [(nth, branch) for nth, branch in enumerate(union.branches) if nth not in taken]
        fitting = [(nth, branch) for nth, branch in free if kind_of(branch) in kinds]
        full_name = self._named_type(schema)
        for nth, branch in fitting:
            if full_name is not None and branch_name(branch) == full_name:
                return nth
        if not fitting:
            raise _mismatch(schema, union)
        return min(fitting, key=lambda numbered: kinds.index(kind_of(numbered[1])))[0]

    def _named_type(self, schema: Schema) -> str | None:
        parameters = schema.parameters or {}
        if schema.type is SchemaType.STRING:
            return parameters.get(names.ENUM) or parameters.get(ENUM_PARAMETER)
        if schema.name is None or not (schema.type is SchemaType.STRUCT or names.is_fixed(schema)):
            return None
        return names.avro_name(schema.name, scrubs=self._settings.scrubs).full

    # Records

    def _record(self, schema: Schema, record: Record) -> Write:
        scrubs = self._settings.scrubs
        sources = {
            names.scrubbed(item.name) if scrubs else item.name: (position, item)
            for position, item in enumerate(schema.fields)
        }
        steps = [self._step(record, field, sources.get(field.name)) for field in record.fields]

        def write(value: object, out: bytearray) -> None:
            values = _struct(schema, value).values
            for position, default, write_field in steps:
                content = values[position]
                write_field(default if content is None else content, out)

        return write

    def _step(
        self, record: Record, field: Field, source: tuple[int, ConnectField] | None
    ) -> tuple[int, object, Write]:
        """Returns the position of the value, the value that stands for null, and the function that writes it."""
        if source is None:
            raw = self._default_bytes(record, field)

            def write_default(_value: object, out: bytearray) -> None:
                out += raw

            return 0, None, write_default
        position, item = source
        default = None if self._settings.ignores_defaults else item.schema.default
        return position, default, self.of(item.schema, field.type)

    def _default_bytes(self, record: Record, field: Field) -> bytes:
        out = bytearray()
        if field.default is None:
            raise DataException(f"The schema has no field {field.name}, which {record.name.full} requires")
        try:
            self._defaults.of(field.type)(default_value(field.type, field.default.json), out)
        except InvalidAvro as error:
            raise DataException(f"The default of the field {field.name} is invalid: {error}") from None
        return bytes(out)

    def _entries(self, schema: Schema, array: Array) -> Write:
        """Writes a map as an array of records with a key and a value."""
        entry = array.items
        assert schema.key_schema is not None and schema.value_schema is not None
        if not isinstance(entry, Record) or [field.name for field in entry.fields] != [
            names.KEY,
            names.VALUE,
        ]:
            raise _mismatch(schema, array)
        write_key = self.of(schema.key_schema, entry.fields[0].type)
        write_value = self.of(schema.value_schema, entry.fields[1].type)

        def write(value: object, out: bytearray) -> None:
            if not isinstance(value, dict):
                raise invalid_value(schema, value)
            if value:
                write_long(len(value), out)
                for key, content in value.items():
                    write_key(key, out)
                    write_value(content, out)
            out.append(0)

        return write


def invalid_value(schema: Schema, value: object) -> DataException:
    """The error of a value that does not fit its schema."""
    if value is None:
        return DataException(NULL_VALUE)
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value)}")


def _mismatch(schema: Schema, part: Part) -> DataException:
    return DataException(f"Values of {schema} cannot be written as {branch_name(part)} of Avro")


def _struct(schema: Schema, value: object) -> Struct:
    if not isinstance(value, Struct):
        raise invalid_value(schema, value)
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching struct schema")
    return value


def _number(nth: int) -> bytes:
    out = bytearray()
    write_long(nth, out)
    return bytes(out)


def _null_number(schema: Schema, null: int | None) -> bytes | None:
    return _number(null) if schema.optional and null is not None else None


def _optional(number: bytes, write_branch: Write, null: bytes | None) -> Write:
    def write(value: object, out: bytearray) -> None:
        if value is not None:
            out += number
            write_branch(value, out)
        elif null is None:
            raise DataException(NULL_VALUE)
        else:
            out += null

    return write


def _single_branch(schema: Schema, writes: list[Write]) -> Write:
    """Writes a struct that stands for a union of one type, as this type."""
    if len(writes) != 1:
        raise DataException(f"Values of {schema} need a union of Avro")

    def write(value: object, out: bytearray) -> None:
        writes[0](_struct(schema, value).get(schema.fields[0].name), out)

    return write


def _array(schema: Schema, write_item: Write) -> Write:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, (list, tuple)):
            raise invalid_value(schema, value)
        if value:
            write_long(len(value), out)
            for item in value:
                write_item(item, out)
        out.append(0)

    return write


def _map(schema: Schema, write_value: Write) -> Write:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise invalid_value(schema, value)
        if value:
            write_long(len(value), out)
            for key, content in value.items():
                if not isinstance(key, str):
                    raise DataException(f"Invalid type for the key of a map: class {java_class(key)}")
                write_text(key, out)
                write_value(content, out)
        out.append(0)

    return write


def _enum(schema: Schema, enum: Enum) -> Write:
    numbers = {symbol: _number(nth) for nth, symbol in enumerate(enum.symbols)}

    def write(value: object, out: bytearray) -> None:
        try:
            out += numbers[value]  # type: ignore[index]
        except (KeyError, TypeError):
            if not isinstance(value, str):
                raise invalid_value(schema, value) from None
            raise DataException(f"The enum {enum.name.full} has no symbol {value}") from None

    return write


# Values without inner values


def _leaf(schema: Schema, part: Primitive | Fixed) -> Write:
    store = _STORED.get(schema.name or "")
    write = _fixed(schema, part) if isinstance(part, Fixed) else _primitive(schema, part)
    if store is None:
        return write
    convert = store(schema)

    def write_logical(value: object, out: bytearray) -> None:
        if value is None:
            raise DataException(NULL_VALUE)
        write(convert(value), out)

    return write_logical


def _decimal(schema: Schema) -> Convert:
    def convert(value: object) -> object:
        if not isinstance(value, Decimal):
            raise DataException(
                f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}"
            )
        return decimal_to_bytes(schema, value)

    return convert


def _moment(name: str, store: Callable[[Instant], int]) -> Callable[[Schema], Convert]:
    def convert(value: object) -> object:
        if not isinstance(value, Instant):
            raise DataException(f"Invalid type for {name}, expected Date but was class {java_class(value)}")
        return store(value)

    return lambda schema: convert


_STORED: dict[str, Callable[[Schema], Convert]] = {
    DECIMAL: _decimal,
    DATE: _moment("Date", date_to_days),
    TIME: _moment("Time", time_to_ms),
    TIMESTAMP: _moment("Timestamp", int),
}


def _primitive(schema: Schema, part: Primitive) -> Write:
    plain = _PLAIN[part.kind]
    if schema.type in (SchemaType.STRING, SchemaType.BYTES):
        plain = write_text if schema.type is SchemaType.STRING else write_bytes

    def write(value: object, out: bytearray) -> None:
        try:
            plain(value, out)
        except (InvalidAvro, TypeError, struct.error):
            raise invalid_value(schema, value) from None

    return write


def _fixed(schema: Schema, part: Fixed) -> Write:
    size, is_decimal = part.size, schema.name == DECIMAL

    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, (bytes, memoryview)):
            raise invalid_value(schema, value)
        raw = bytes(value)
        if is_decimal and len(raw) < size:
            raw = (b"\xff" if raw[0] & 0x80 else b"\0") * (size - len(raw)) + raw
        if len(raw) != size:
            raise DataException(f"{len(raw)} bytes do not fit the fixed size {size} of {part.name.full}")
        out += raw

    return write


def write_text(value: object, out: bytearray) -> None:
    if not isinstance(value, str):
        raise InvalidAvro("expected a text")
    try:
        raw = value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, for which Java writes a question mark
        raw = value.encode(errors="replace")
    length = len(raw)
    if length < 64:
        out.append(length << 1)
    else:
        write_long(length, out)
    out += raw


def write_bytes(value: object, out: bytearray) -> None:
    if not isinstance(value, (bytes, memoryview)):
        raise InvalidAvro("expected bytes")
    raw = bytes(value)
    write_long(len(raw), out)
    out += raw


def _write_boolean(value: object, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise InvalidAvro("expected a boolean")
    out.append(value)


def _write_float(value: object, out: bytearray) -> None:
    out += _FLOAT.pack(_real(value))


def _write_double(value: object, out: bytearray) -> None:
    out += _DOUBLE.pack(_real(value))


def _real(value: object) -> float:
    if isinstance(value, bool):
        raise InvalidAvro("expected a number")
    return cast(float, value)


_PLAIN: dict[Kind, Write] = {
    Kind.BOOLEAN: _write_boolean,
    Kind.INT: write_int,
    Kind.LONG: write_long,
    Kind.FLOAT: _write_float,
    Kind.DOUBLE: _write_double,
    Kind.STRING: write_text,
    Kind.BYTES: write_bytes,
}
