"""Values of Connect's data model as JSON text, with a function for each schema."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring as quoted
from typing import Any

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.java_strings import java_decimal
from kcli.formats.connect.json_typed.settings import KEY, ONE_OF, VALUE, JsonSettings
from kcli.formats.connect.logical import date_to_days, decimal_to_bytes, time_to_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.sum_types import UNION_PARAMETER, is_sum_type
from kcli.formats.connect.values import Instant, java_class
from kcli.model.java_floats import java_double, java_float

Encode = Callable[[Any], str]
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class JsonWriters:
    """Makes the functions that write values as JSON. The functions raise DataException."""

    def __init__(self, settings: JsonSettings) -> None:
        self._settings = settings
        self._writes: dict[int, Encode] = {}
        self._schemas: list[Schema] = []

    def of(self, schema: Schema) -> Encode:
        """Returns the function that writes values of a schema."""
        if (known := self._writes.get(id(schema))) is not None:
            return known
        self._schemas.append(schema)  # an identity has a meaning only while its object lives
        # Structs may contain themselves, so until the function is complete, it is looked up when it is called.
        self._writes[id(schema)] = lambda value: self._writes[id(schema)](value)
        write = self._or_default(schema, self._present(schema))
        self._writes[id(schema)] = write
        return write

    def _or_default(self, schema: Schema, write: Encode) -> Encode:
        default = None if self._settings.ignores_defaults else schema.default
        null = "null" if schema.optional else None
        if default is not None:
            return lambda value: write(default if value is None else value)

        def encode(value: Any) -> str:
            if value is not None:
                return write(value)
            if null is None:
                raise DataException("Found null value for non-optional schema")
            return null

        return encode

    def _present(self, schema: Schema) -> Encode:
        if (logical := self._logical(schema)) is not None:
            return logical
        match schema.type:
            case SchemaType.STRUCT if is_union(schema):
                return self._union(schema)
            case SchemaType.STRUCT:
                return self._struct(schema)
            case SchemaType.ARRAY:
                return self._array(schema)
            case SchemaType.MAP:
                return self._map(schema)
            case _:
                return _scalar(schema)

    def _logical(self, schema: Schema) -> Encode | None:
        match schema.name:
            case name if name == DECIMAL:
                return _decimal(schema, numeric=self._settings.numeric_decimals)
            case name if name == DATE:
                return lambda value: str(date_to_days(_instant("Date", value)))
            case name if name == TIME:
                return lambda value: str(time_to_ms(_instant("Time", value)))
            case name if name == TIMESTAMP:
                return lambda value: str(int(_instant("Timestamp", value)))
            case _:
                return None

    def _struct(self, schema: Schema) -> Encode:
        steps = [(quoted(item.name), item.schema, self.of(item.schema)) for item in schema.fields]
        # A required field without a value is left out.
        can_be_left_out = [
            not inner.optional and (inner.default is None or self._settings.ignores_defaults)
            for _, inner, _ in steps
        ]

        def encode(value: Any) -> str:
            values = struct_values(schema, value)
            parts = [
                f"{name}:{write(content)}"
                for (name, _, write), content, is_free in zip(steps, values, can_be_left_out, strict=True)
                if content is not None or not is_free
            ]
            return f"{{{','.join(parts)}}}"

        return encode

    def _union(self, schema: Schema) -> Encode:
        writes = [self.of(item.schema) for item in schema.fields]
        ignores_defaults, is_optional = self._settings.ignores_defaults, schema.optional

        def encode(value: Any) -> str:
            for item, content, write in zip(schema.fields, struct_values(schema, value), writes, strict=True):
                chosen = content if content is not None or ignores_defaults else item.schema.default
                if chosen is not None:
                    return write(chosen)
            if not is_optional:
                raise DataException("Cannot find non-null field")
            return "null"

        return encode

    def _array(self, schema: Schema) -> Encode:
        assert schema.value_schema is not None, "an array has a schema of its items"
        write = self.of(schema.value_schema)

        def encode(value: Any) -> str:
            if not isinstance(value, (list, tuple)):
                raise invalid_value(schema, value)
            return f"[{','.join(map(write, value))}]"

        return encode

    def _map(self, schema: Schema) -> Encode:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None and values is not None, "a map has schemas of its keys and values"
        write_key, write = self.of(keys), self.of(values)
        is_object = keys.type is SchemaType.STRING and not keys.optional

        def encode(value: Any) -> str:
            if not isinstance(value, dict):
                raise invalid_value(schema, value)
            if is_object:
                return f"{{{','.join([f'{write_key(key)}:{write(item)}' for key, item in value.items()])}}}"
            entries = [f'{{"{KEY}":{write_key(key)},"{VALUE}":{write(item)}}}' for key, item in value.items()]
            return f"[{','.join(entries)}]"

        return encode


def is_union(schema: Schema) -> bool:
    """Whether a struct stands for a value of one of several schemas."""
    return schema.name == ONE_OF or is_sum_type(schema, UNION_PARAMETER)


def invalid_value(schema: Schema, value: object) -> DataException:
    """The error of a value that does not fit its schema."""
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value)}")


def struct_values(schema: Schema, value: object) -> list[object]:
    """Returns the values of a struct of this schema. Raises DataException for anything else."""
    if not isinstance(value, Struct):
        raise invalid_value(schema, value)
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching schema.")
    return value.values


def _instant(name: str, value: object) -> Instant:
    if not isinstance(value, Instant):
        raise DataException(f"Invalid type for {name}, expected Date but was class {java_class(value)}")
    return value


def _decimal(schema: Schema, *, numeric: bool) -> Encode:
    def encode(value: Any) -> str:
        if not isinstance(value, Decimal):
            raise DataException(
                f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}"
            )
        return java_decimal(value) if numeric else f'"{b64encode(decimal_to_bytes(schema, value)).decode()}"'

    return encode


def _scalar(schema: Schema) -> Encode:
    def checked(kinds: tuple[type, ...], write: Encode) -> Encode:
        is_boolean = kinds == (bool,)

        def encode(value: Any) -> str:
            if not isinstance(value, kinds) or (isinstance(value, bool) and not is_boolean):
                raise invalid_value(schema, value)
            return write(value)

        return encode

    match schema.type:
        case SchemaType.BOOLEAN:
            return checked((bool,), lambda value: "true" if value else "false")
        case SchemaType.STRING:
            return checked((str,), quoted)
        case SchemaType.BYTES:
            return checked((bytes, memoryview), lambda value: f'"{b64encode(value).decode()}"')
        case SchemaType.FLOAT32:
            return checked((float, int), lambda value: _finite(java_float(float(value))))
        case SchemaType.FLOAT64:
            return checked((float, int), lambda value: _finite(java_double(float(value))))
        case _:
            return checked((int,), lambda value: str(int(value)))


def _finite(text: str) -> str:
    return f'"{text}"' if text in _NOT_FINITE else text
