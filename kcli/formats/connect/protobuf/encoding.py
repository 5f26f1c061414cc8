"""Values of Connect's data model as messages of Protobuf, with a function for each field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.protobuf import names
from kcli.formats.connect.protobuf.logical_values import FILL_LOGICAL
from kcli.formats.connect.protobuf.settings import ProtobufSettings
from kcli.formats.connect.protobuf.to_connect import is_map, type_name
from kcli.formats.connect.protobuf.to_proto import enum_parameter, is_enum
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.sum_types import symbols_of
from kcli.formats.connect.values import java_class
from kcli.formats.protobuf import codec

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

Put = Callable[[Any, Any], None]
"""Sets a field of a message to a value that is not null."""

Fill = Callable[[Any, Any], None]
Convert = Callable[[Any], object]

_MASKS = {"uint32": 0xFFFF_FFFF, "fixed32": 0xFFFF_FFFF, "uint64": (1 << 64) - 1, "fixed64": (1 << 64) - 1}
_CLASSES: Mapping[SchemaType, tuple[type, ...]] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), (int,)),
    SchemaType.FLOAT32: (float, int),
    SchemaType.FLOAT64: (float, int),
    SchemaType.BOOLEAN: (bool,),
    SchemaType.STRING: (str,),
    SchemaType.BYTES: (bytes, memoryview),
}


class MessageWriters:
    """Makes the functions that fill messages. The functions raise DataException."""

    def __init__(self, settings: ProtobufSettings) -> None:
        self._settings = settings
        self._fills: dict[tuple[int, str], Fill] = {}
        self._schemas: list[Schema] = []

    def root(self, schema: Schema, message: Descriptor) -> Fill:
        """Returns the function that fills the message of a value."""
        if schema.type is SchemaType.STRUCT:
            return self._struct(schema, message)
        return self._wrapper(schema, message)

    def _struct(self, schema: Schema, message: Descriptor) -> Fill:
        pair = (id(schema), message.full_name)
        if (known := self._fills.get(pair)) is not None:
            return known
        self._schemas.append(schema)  # an identity has a meaning only while its object lives
        # Structs may contain themselves, so until the function is complete, it is looked up when it is called.
        self._fills[pair] = lambda made, value: self._fills[pair](made, value)
        steps = []
        for position, item in enumerate(schema.fields):
            put = self._field(item.schema, item.name, message)
            if put is not None:
                steps.append(
                    (position, None if self._settings.ignores_defaults else item.schema.default, put)
                )

        def fill(made: Any, value: Any) -> None:
            values = _struct(schema, value).values
            for position, default, put in steps:
                content = values[position]
                if content is None:
                    content = default
                if content is not None:
                    put(made, content)

        self._fills[pair] = fill
        return fill

    def _field(self, schema: Schema, name: str, message: Descriptor) -> Put | None:
        """Returns the function that sets a field. None if the message has no such field."""
        if schema.type is SchemaType.STRUCT and names.is_union(schema):
            return self._union(schema, message)
        item = message.fields_by_name.get(names.scrubbed_name(name, scrubs=self._settings.scrubs))
        return None if item is None else self._put(schema, item)

    def _union(self, schema: Schema, message: Descriptor) -> Put:
        """Sets the field of a union that has a value."""
        puts = [self._field(item.schema, item.name, message) for item in schema.fields]
        ignores_defaults = self._settings.ignores_defaults

        def put(made: Any, value: Any) -> None:
            struct = _struct(schema, value)
            for item, content, put_field in zip(schema.fields, struct.values, puts, strict=True):
                chosen = content if content is not None or ignores_defaults else item.schema.default
                if chosen is not None and put_field is not None:
                    put_field(made, chosen)
                    return
            raise DataException("Cannot find non-null field")

        return put

    def _put(self, schema: Schema, item: FieldDescriptor) -> Put:
        match schema.type:
            case SchemaType.MAP:
                return self._map(schema, item)
            case SchemaType.ARRAY:
                return self._array(schema, item)
            case _ if item.is_repeated:
                raise DataException(f"Values of {schema} cannot be written as the repeated field {item.name}")
            case _:
                return self._single(schema, item)

    def _single(self, schema: Schema, item: FieldDescriptor) -> Put:
        name = item.name
        if item.message_type is None:
            convert = self._scalar(schema, item)
            return lambda made, value: setattr(made, name, convert(value))
        fill = self._message(schema, item.message_type)

        def put(made: Any, value: Any) -> None:
            inner = getattr(made, name)
            inner.SetInParent()
            fill(inner, value)

        return put

    def _array(self, schema: Schema, item: FieldDescriptor) -> Put:
        if not item.is_repeated or is_map(item):
            raise DataException(f"Values of {schema} cannot be written as the field {item.name}")
        items, name = schema.value_schema, item.name
        assert items is not None, "an array has a schema of its items"
        if item.message_type is None:
            convert = self._scalar(items, item)
            return lambda made, values: getattr(made, name).extend(
                [convert(value) for value in _list(schema, values)]
            )
        fill = self._message(items, item.message_type)

        def put(made: Any, values: Any) -> None:
            repeated = getattr(made, name)
            for value in _list(schema, values):
                if value is None:
                    raise DataException("A repeated field of Protobuf cannot contain null")
                fill(repeated.add(), value)

        return put

    def _map(self, schema: Schema, item: FieldDescriptor) -> Put:
        if not is_map(item):
            raise DataException(f"Values of {schema} cannot be written as the field {item.name}")
        name, entry = item.name, item.message_type
        assert schema.key_schema is not None and schema.value_schema is not None
        key_field, value_field = entry.fields
        if codec.is_map(item):
            return self._real_map(schema, name, key_field, value_field)
        put_key, put_value = (
            self._put(schema.key_schema, key_field),
            self._put(schema.value_schema, value_field),
        )

        def put(made: Any, value: Any) -> None:
            entries = getattr(made, name)
            for key, content in _map(schema, value).items():
                entry = entries.add()
                if key is not None:
                    put_key(entry, key)
                if content is not None:
                    put_value(entry, content)

        return put

    def _real_map(
        self, schema: Schema, name: str, key_field: FieldDescriptor, value_field: FieldDescriptor
    ) -> Put:
        assert schema.key_schema is not None and schema.value_schema is not None
        key_of = self._scalar(schema.key_schema, key_field)
        if value_field.message_type is not None:
            fill = self._message(schema.value_schema, value_field.message_type)

            def put_messages(made: Any, value: Any) -> None:
                entries = getattr(made, name)
                for key, content in _map(schema, value).items():
                    inner = entries[key_of(key)]
                    if content is not None:
                        fill(inner, content)

            return put_messages
        value_of = self._scalar(schema.value_schema, value_field)

        def put(made: Any, value: Any) -> None:
            entries = getattr(made, name)
            for key, content in _map(schema, value).items():
                entries[key_of(key)] = value_of(content)

        return put

    def _message(self, schema: Schema, message: Descriptor) -> Fill:
        if (logical := FILL_LOGICAL.get(schema.name or "")) is not None:
            if message.full_name != names.LOGICAL_TYPES[schema.name or ""][0]:
                raise _mismatch(schema, message.full_name)
            return logical
        if schema.type is SchemaType.STRUCT:
            return self._struct(schema, message)
        return self._wrapper(schema, message)

    def _wrapper(self, schema: Schema, message: Descriptor) -> Fill:
        if message.full_name not in names.WRAPPED:
            raise _mismatch(schema, message.full_name)
        convert = self._scalar(schema, message.fields_by_name["value"])

        def fill(made: Any, value: Any) -> None:
            made.value = convert(value)

        return fill

    def _scalar(self, schema: Schema, item: FieldDescriptor) -> Convert:
        classes = _CLASSES.get(schema.type, ())
        if item.message_type is not None:
            raise _mismatch(schema, item.message_type.full_name)
        if item.enum_type is not None:
            return self._enum(schema, item)
        mask = _MASKS.get(type_name(item))
        is_bytes, is_boolean = schema.type is SchemaType.BYTES, schema.type is SchemaType.BOOLEAN

        def convert(value: Any) -> Any:
            if not isinstance(value, classes) or (isinstance(value, bool) and not is_boolean):
                raise invalid_value(schema, value)
            scalar: Any = value
            if mask is not None:
                return scalar & mask
            return bytes(scalar) if is_bytes else scalar

        return convert

    def _enum(self, schema: Schema, item: FieldDescriptor) -> Convert:
        numbers = {constant.name: constant.number for constant in item.enum_type.values}
        if is_enum(schema):
            listed = symbols_of(schema, enum_parameter(schema, self._settings))
            numbers |= {name: int(text) for name, text in listed.items() if name not in numbers}

        def convert(value: Any) -> object:
            if isinstance(value, int):
                return value
            if not isinstance(value, str):
                raise invalid_value(schema, value)
            if value not in numbers:
                raise DataException(f"The enum {item.enum_type.full_name} has no value {value}")
            return numbers[value]

        return convert


def invalid_value(schema: Schema, value: object) -> DataException:
    """The error of a value that does not fit its schema."""
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value)}")


def _mismatch(schema: Schema, message: str) -> DataException:
    return DataException(f"Values of {schema} cannot be written as {message} of Protobuf")


def _struct(schema: Schema, value: object) -> Struct:
    if not isinstance(value, Struct):
        raise invalid_value(schema, value)
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching struct schema")
    return value


def _list(schema: Schema, value: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise invalid_value(schema, value)
    return value


def _map(schema: Schema, value: object) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise invalid_value(schema, value)
    return value
