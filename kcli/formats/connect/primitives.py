"""Converters of single primitive values: numbers in Kafka's binary form, booleans, and bytes as they are."""

from __future__ import annotations

import struct
from typing import ClassVar

from kcli.formats.connect.converter import GeneralConverter, SchemaAndValue
from kcli.formats.connect.errors import DataException, JavaException, SerializationException
from kcli.formats.connect.schema import (
    OPTIONAL_BOOLEAN_SCHEMA,
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_FLOAT32_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT16_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    Schema,
    SchemaType,
    check_value,
)
from kcli.formats.connect.values import Float32, java_class

_PACKAGE = "org.apache.kafka.connect.converters"


class _NumberConverter(GeneralConverter):
    """Converts numbers of one type. `schema` is the optional schema of this type."""

    schema: ClassVar[Schema]
    layout: ClassVar[struct.Struct]
    type_name: ClassVar[str]
    deserializer: ClassVar[str]
    """The name of Kafka's deserializer in error messages. Those of Float and Double do not name themselves."""
    made: ClassVar[type[float] | None] = None

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        try:
            checked = check_value(self.schema, value)
        except DataException:
            found = java_class(value)
            raise DataException(f"Failed to serialize to {self.type_name} (was class {found}): ") from _cast(
                found, "java.lang.Number"
            )
        return None if checked is None else self.layout.pack(checked)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self.schema, None)
        if len(data) != self.layout.size:
            size = f"Size of data received by {self.deserializer} is not {self.layout.size}"
            raise DataException(f"Failed to deserialize {self.type_name}: ") from SerializationException(size)
        (number,) = self.layout.unpack(data)
        return SchemaAndValue(self.schema, number if self.made is None else self.made(number))


class ShortConverter(_NumberConverter):
    java_class = f"{_PACKAGE}.ShortConverter"
    schema, layout = OPTIONAL_INT16_SCHEMA, struct.Struct(">h")
    type_name, deserializer = "short", "ShortDeserializer"


class IntegerConverter(_NumberConverter):
    java_class = f"{_PACKAGE}.IntegerConverter"
    schema, layout = OPTIONAL_INT32_SCHEMA, struct.Struct(">i")
    type_name, deserializer = "integer", "IntegerDeserializer"


class LongConverter(_NumberConverter):
    java_class = f"{_PACKAGE}.LongConverter"
    schema, layout = OPTIONAL_INT64_SCHEMA, struct.Struct(">q")
    type_name, deserializer = "long", "LongDeserializer"


class FloatConverter(_NumberConverter):
    java_class = f"{_PACKAGE}.FloatConverter"
    schema, layout, made = OPTIONAL_FLOAT32_SCHEMA, struct.Struct(">f"), Float32
    type_name, deserializer = "float", "Deserializer"


class DoubleConverter(_NumberConverter):
    java_class = f"{_PACKAGE}.DoubleConverter"
    schema, layout = OPTIONAL_FLOAT64_SCHEMA, struct.Struct(">d")
    type_name, deserializer = "double", "Deserializer"


class BooleanConverter(GeneralConverter):
    java_class = f"{_PACKAGE}.BooleanConverter"

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        _check_type("BooleanConverter", schema, SchemaType.BOOLEAN)
        if value is None:
            return None
        if not isinstance(value, bool):
            raise _incompatible("BooleanConverter", value)
        return b"\1" if value else b"\0"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        value = _BOOLEANS.get(data, _MISSING)
        if value is not _MISSING:
            return SchemaAndValue(OPTIONAL_BOOLEAN_SCHEMA, value)
        assert data is not None, "None is in the table"
        reason = "Size of data received by BooleanDeserializer is not 1"
        if len(data) == 1:
            reason = f"Unexpected byte received by BooleanDeserializer: {int.from_bytes(data, signed=True)}"
        raise DataException("Failed to deserialize boolean: ") from SerializationException(reason)


class ByteArrayConverter(GeneralConverter):
    java_class = f"{_PACKAGE}.ByteArrayConverter"

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        _check_type("ByteArrayConverter", schema, SchemaType.BYTES)
        if isinstance(value, bytes) or value is None:
            return value
        if isinstance(value, memoryview):
            return value.tobytes()
        raise _incompatible("ByteArrayConverter", value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_BYTES_SCHEMA, data)


_MISSING = object()
_BOOLEANS: dict[bytes | None, object] = {None: None, b"\0": False, b"\1": True}


def _check_type(converter: str, schema: Schema | None, expected: SchemaType) -> None:
    if schema is not None and schema.type is not expected:
        raise DataException(f"Invalid schema type for {converter}: {schema.type.name}")


def _incompatible(converter: str, value: object) -> DataException:
    return DataException(f"{converter} is not compatible with objects of type class {java_class(value)}")


def _cast(source: str, target: str) -> JavaException:
    return JavaException("java.lang.ClassCastException", f"class {source} cannot be cast to class {target}")
