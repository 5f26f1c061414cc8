"""Messages of Protobuf as values of Connect's data model, with a function for each field."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.protobuf.logical_values import READ_LOGICAL
from kcli.formats.connect.protobuf.settings import ProtobufSettings
from kcli.formats.connect.protobuf.to_connect import (
    has_optional_label,
    is_map,
    plain_fields,
    real_oneofs,
    type_name,
    union_field_name,
)
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, as_key
from kcli.formats.protobuf import codec
from kcli.model.java_numbers import to_byte, to_long, to_short

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
    from google.protobuf.message import Message

Convert = Callable[[Any], object]
Get = Callable[[Any], object]
"""Returns the value of a field of a message."""

_CONVERT: dict[SchemaType, Convert] = {
    SchemaType.INT8: to_byte,
    SchemaType.INT16: to_short,
    SchemaType.FLOAT32: Float32,
}


class MessageReaders:
    """Makes the functions that turn messages to values."""

    def __init__(self, settings: ProtobufSettings) -> None:
        self._settings = settings
        self._reads: dict[tuple[int, str], Convert] = {}
        self._schemas: list[Schema] = []

    def root(self, schema: Schema, message: Descriptor) -> Convert:
        if schema.type is SchemaType.STRUCT:
            return self._struct(schema, message)
        convert = self._scalar(schema, message.fields_by_name["value"])
        return lambda made: made.value if convert is None else convert(made.value)

    def _struct(self, schema: Schema, message: Descriptor) -> Convert:
        pair = (id(schema), message.full_name)
        if (known := self._reads.get(pair)) is not None:
            return known
        self._schemas.append(schema)  # an identity has a meaning only while its object lives
        # Messages may contain themselves, so until the function is complete, it is looked up when it is called.
        self._reads[pair] = lambda made: self._reads[pair](made)
        gets = dict(self._gets(schema, message))
        ordered = [gets[item.name] for item in schema.fields]
        make = Struct.of_checked

        def read(made: Message) -> object:
            return make(schema, [get(made) for get in ordered])

        self._reads[pair] = read
        return read

    def _gets(self, schema: Schema, message: Descriptor) -> list[tuple[str, Get]]:
        gets: list[tuple[str, Get]] = []
        for oneof in real_oneofs(message):
            if self._settings.flattens:
                gets += [(item.name, self._get(schema, item, is_always=False)) for item in oneof.fields]
            else:
                name = union_field_name(oneof, self._settings)
                gets.append((name, self._union(_field_schema(schema, name), oneof)))
        for item in plain_fields(message):
            is_always = self._settings.makes_structs or not self._may_be_null(item)
            gets.append((item.name, self._get(schema, item, is_always=is_always)))
        return gets

    def _may_be_null(self, item: FieldDescriptor) -> bool:
        if item.is_repeated:
            return False
        if item.message_type is not None:
            return True
        is_proto2 = item.containing_oneof is None
        return has_optional_label(item) and (self._settings.optional_proto2 or not is_proto2)

    def _get(self, schema: Schema, item: FieldDescriptor, *, is_always: bool) -> Get:
        """Returns the function that gets a field. A field that is not set is null, except if `is_always` is True."""
        name = item.name
        convert = self._value(_field_schema(schema, name), item)
        if not is_always:
            if convert is None:
                return lambda made: getattr(made, name) if made.HasField(name) else None
            return lambda made: convert(getattr(made, name)) if made.HasField(name) else None
        if convert is None:
            return lambda made: getattr(made, name)
        return lambda made: convert(getattr(made, name))

    def _union(self, schema: Schema, oneof: OneofDescriptor) -> Get:
        count = len(schema.fields)
        places = {
            item.name: (schema.positions[item.name], self._value(_field_schema(schema, item.name), item))
            for item in oneof.fields
        }
        name = oneof.name

        def get(made: Any) -> object:
            chosen = made.WhichOneof(name)
            if chosen is None:
                return None
            position, convert = places[chosen]
            values: list[object] = [None] * count
            value = getattr(made, chosen)
            values[position] = value if convert is None else convert(value)
            return Struct.of_checked(schema, values)

        return get

    def _value(self, schema: Schema, item: FieldDescriptor) -> Convert | None:
        if schema.type is SchemaType.MAP:
            return self._map(schema, item)
        if schema.type is not SchemaType.ARRAY:
            return self._scalar(schema, item)
        assert schema.value_schema is not None
        convert = self._scalar(schema.value_schema, item)
        return list if convert is None else lambda values: [convert(value) for value in values]

    def _map(self, schema: Schema, item: FieldDescriptor) -> Convert:
        key_field, value_field = item.message_type.fields
        assert schema.key_schema is not None and schema.value_schema is not None and is_map(item)
        key_of = self._value(schema.key_schema, key_field) or as_key
        value_of = self._value(schema.value_schema, value_field) or _same
        if codec.is_map(item):
            return lambda entries: {key_of(key): value_of(entries[key]) for key in entries}
        return lambda entries: {as_key(key_of(entry.key)): value_of(entry.value) for entry in entries}

    def _scalar(self, schema: Schema, item: FieldDescriptor) -> Convert | None:
        if item.message_type is not None:
            return self._message(schema, item)
        if item.enum_type is not None:
            if schema.type is SchemaType.INT32:
                return None
            symbols = {constant.number: constant.name for constant in item.enum_type.values}
            unknown = f"UNKNOWN_ENUM_VALUE_{item.enum_type.name}_"
            return lambda number: symbols.get(number) or f"{unknown}{number}"
        if type_name(item) in ("uint64", "fixed64"):
            return to_long
        return _CONVERT.get(schema.type)

    def _message(self, schema: Schema, item: FieldDescriptor) -> Convert:
        if (logical := READ_LOGICAL.get(schema.name or "")) is not None:
            return logical
        if schema.type is SchemaType.STRUCT:
            return self._struct(schema, item.message_type)
        convert = self._scalar(schema, item.message_type.fields_by_name["value"])
        return lambda made: made.value if convert is None else convert(made.value)


def _field_schema(schema: Schema, name: str) -> Schema:
    item = schema.field(name)
    if item is None:
        raise DataException(f"The schema {schema} has no field {name}")
    return item.schema


def _same(value: object) -> object:
    return value
