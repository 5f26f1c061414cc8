"""Decodes Avro's binary form to values of Connect's data model.

Readers of Avro decode a value and convert what has no inner values. Then the records become structs, for which the
schema of the place counts, because a record may be optional in one place and required in another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kcli.formats.avro.codec import decoder
from kcli.formats.avro.decoding import Form
from kcli.formats.avro.encoding import Writers
from kcli.formats.avro.json_text import Json
from kcli.formats.avro.json_values import default_value
from kcli.formats.avro.language import AvroSchema
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import (
    Array,
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
from kcli.formats.avro.stored_values import Convert
from kcli.formats.connect.avro import names
from kcli.formats.connect.avro.anything import read_anything
from kcli.formats.connect.avro.settings import AvroSettings
from kcli.formats.connect.avro.to_connect import SchemaReader, leaf_schema, member_fields
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.logical import date_from_days, decimal_from_bytes, time_from_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant, as_key
from kcli.model.java_numbers import to_byte, to_short


class ConnectReaders:
    """Makes the functions that decode values of Avro schemas."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._form = Form(_leaf_converter, self._field_of)
        self._schemas = SchemaReader(settings, self._default)

    def of(
        self, writer: AvroSchema, reader: AvroSchema | None, version: int | None
    ) -> Callable[[bytes], SchemaAndValue]:
        """Returns the function that decodes values of `writer`, as values of `reader` if there is one.

        `version` is the version of the schema in the registry. The function raises DataException and InvalidAvro.
        Raises DataException for a schema that Connect's data model does not express.
        """
        root = (reader or writer).root
        schema = self._schemas.schema(root, version)
        decode = decoder(writer, reader, self._form)
        shape = read_anything if schema is None else _Shapes(self._settings).of(schema, root)
        if shape is None:
            return lambda data: SchemaAndValue(schema, decode(data))

        def decode_shaped(data: bytes) -> SchemaAndValue:
            return SchemaAndValue(schema, shape(decode(data)))

        return decode_shaped

    def _field_of(self, union: Union, branch: Part) -> str | None:
        return None if single_branch(union, self._settings) is not None else branch_name(branch)

    def _default(self, schema: Schema, part: Part, tree: Json) -> object:
        """Returns the value of a default. It passes through the binary form, so that it is as a decoded value."""
        out = bytearray()
        try:
            Writers().of(part)(default_value(part, tree), out)
            value = decoder(AvroSchema("", part, {}, False), None, self._form, is_framed=False)(bytes(out))
        except InvalidAvro as error:
            raise DataException(str(error)) from None
        shape = _Shapes(self._settings).of(schema, part)
        return value if shape is None else shape(value)


def single_branch(union: Union, settings: AvroSettings) -> Part | None:
    """Returns the type of a union that has no struct of its own: of one type, or of one type and null."""
    others = [branch for branch in union.branches if not names.is_null(branch)]
    count = len(union.branches)
    is_single = (count == 1 and settings.flattens) or (count == 2 and len(others) == 1)
    return others[0] if is_single and others else None


# Values without inner values


def _leaf_converter(part: Primitive | Fixed) -> Convert | None:
    if names.is_null(part):
        return None
    schema = leaf_schema(part)
    match schema.type:
        case SchemaType.FLOAT32:
            return cast(Convert, Float32)
        case SchemaType.INT8:
            return lambda value: to_byte(cast(int, value))
        case SchemaType.INT16:
            return lambda value: to_short(cast(int, value))
    match schema.name:
        case name if name == DECIMAL and schema.type is SchemaType.BYTES:
            return _decimals(schema)
        case name if name == DATE and kind_of(part) is Kind.INT:
            return lambda value: date_from_days(cast(int, value))
        case name if name == TIME and kind_of(part) is Kind.INT:
            return lambda value: time_from_ms(cast(int, value))
        case name if name == TIMESTAMP and kind_of(part) is Kind.LONG:
            return cast(Convert, Instant)
        case _:
            return None


def _decimals(schema: Schema) -> Convert:
    def convert(value: object) -> object:
        try:
            return decimal_from_bytes(schema, cast(bytes, value))
        except JavaException as error:
            raise DataException(str(error)) from None

    return convert


# Values with inner values


class _Shapes:
    """Makes the functions that turn decoded values to values of a schema. None: the value stays as it is."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._shapes: dict[tuple[int, int], Convert | None] = {}
        self._schemas: list[Schema] = []

    def of(self, schema: Schema, part: Part) -> Convert | None:
        pair = (id(schema), id(part))
        if pair in self._shapes:
            return self._shapes[pair]
        self._schemas.append(schema)  # an identity has a meaning only while its object lives
        # A record may contain itself, so until the function is complete, it is looked up when it is called.
        self._shapes[pair] = lambda value: cast(Convert, self._shapes[pair])(value)
        shape = self._new(schema, part)
        self._shapes[pair] = shape
        return shape

    def _new(self, schema: Schema, part: Part) -> Convert | None:
        match part:
            case Union():
                single = single_branch(part, self._settings)
                if single is None:
                    return self._union(schema, part)
                return _unless_null(self.of(schema, single))
            case Record():
                return self._record(schema, part)
            case Array() if schema.type is SchemaType.MAP:
                return self._entries(schema, part.items)
            case Array():
                return _each_item(self.of(_present(schema.value_schema), part.items))
            case Map():
                return _each_value(self.of(_present(schema.value_schema), part.values))
            case _:
                return None

    def _record(self, schema: Schema, record: Record) -> Convert:
        if len(schema.fields) != len(record.fields):
            raise DataException(f"The default of {schema} contains a struct whose schema is not complete")
        shapes = [
            self.of(item.schema, source.type)
            for item, source in zip(schema.fields, record.fields, strict=True)
        ]
        make = Struct.of_checked
        if not any(shapes):
            return lambda value: make(schema, list(cast("dict[str, object]", value).values()))
        shaped = [(position, shape) for position, shape in enumerate(shapes) if shape is not None]

        def to_struct(value: object) -> object:
            values = list(cast("dict[str, object]", value).values())
            for position, shape in shaped:
                values[position] = shape(values[position])
            return make(schema, values)

        return to_struct

    def _union(self, schema: Schema, union: Union) -> Convert:
        count = len(schema.fields)
        places = {
            branch_name(branch): (position, self.of(schema.fields[position].schema, branch))
            for position, (_, branch) in enumerate(member_fields(union, self._settings))
        }

        def to_struct(value: object) -> object:
            if value is None:
                return None
            ((name, content),) = cast("dict[str, object]", value).items()
            position, shape = places[name]
            values: list[object] = [None] * count
            values[position] = content if shape is None else shape(content)
            return Struct.of_checked(schema, values)

        return to_struct

    def _entries(self, schema: Schema, entry: Part) -> Convert:
        assert isinstance(entry, Record), "the schema of the map was made of it"
        types = {item.name: item.type for item in entry.fields}
        key_shape = self.of(_present(schema.key_schema), types[names.KEY]) or as_key
        value_shape = self.of(_present(schema.value_schema), types[names.VALUE])

        def to_map(value: object) -> object:
            entries = cast("list[dict[str, object]]", value)
            if value_shape is None:
                return {as_key(key_shape(entry[names.KEY])): entry[names.VALUE] for entry in entries}
            return {as_key(key_shape(entry[names.KEY])): value_shape(entry[names.VALUE]) for entry in entries}

        return to_map


def _present(schema: Schema | None) -> Schema:
    assert schema is not None, "the schema of an array or a map has one of its items"
    return schema


def _unless_null(shape: Convert | None) -> Convert | None:
    return None if shape is None else lambda value: None if value is None else shape(value)


def _each_item(shape: Convert | None) -> Convert | None:
    return None if shape is None else lambda value: [shape(item) for item in cast("list[object]", value)]


def _each_value(shape: Convert | None) -> Convert | None:
    if shape is None:
        return None
    return lambda value: {name: shape(item) for name, item in cast("dict[str, object]", value).items()}
