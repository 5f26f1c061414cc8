"""Schemas of Connect's data model, and the check of values (org.apache.kafka.connect.data.Schema and ConnectSchema)."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from kcli.formats.connect.errors import DataException, SchemaBuilderException
from kcli.formats.connect.values import Float32, Float64, Instant, Int8, Int16, Int32, Int64, java_class
from kcli.model.java_text import (
    BYTE_MAX,
    BYTE_MIN,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    SHORT_MAX,
    SHORT_MIN,
)


class SchemaType(StrEnum):
    """The types of values. The text of a type is its name in a JSON schema, except float32 and float64."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
LOGICAL_NAMES = frozenset((DECIMAL, DATE, TIME, TIMESTAMP))


class Usual(NamedTuple):
    """The values that fit a type without a closer look: those of a class, and plain integers of a range."""

    kind: type | None = None
    least: int = 0
    most: int = -1


_USUAL_BY_TYPE: Mapping[SchemaType, Usual] = {
    SchemaType.INT8: Usual(Int8, BYTE_MIN, BYTE_MAX),
    SchemaType.INT16: Usual(Int16, SHORT_MIN, SHORT_MAX),
    SchemaType.INT32: Usual(Int32, INT_MIN, INT_MAX),
    SchemaType.INT64: Usual(Int64, LONG_MIN, LONG_MAX),
    SchemaType.FLOAT32: Usual(Float32),
    SchemaType.FLOAT64: Usual(float),
    SchemaType.BOOLEAN: Usual(bool),
    SchemaType.STRING: Usual(str),
    SchemaType.BYTES: Usual(bytes),
}
_USUAL_BY_NAME = {DECIMAL: Usual(Decimal), **dict.fromkeys((DATE, TIME, TIMESTAMP), Usual(Instant))}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The schema of a value. Two schemas are equal if all their parts are equal, as in Java.

    `value_schema` is the schema of the items of an array, and of the values of a map. The constructor raises
    SchemaBuilderException for two fields with the same name, and for a default that does not fit the schema.
    """

    type: SchemaType
    optional: bool = False
    default: object = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    positions: Mapping[str, int] = field(init=False, repr=False)
    """The position of each field in `fields`, by name."""
    usual: Usual = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", self._checked_positions())
        usual = _USUAL_BY_NAME.get(self.name or "") or _USUAL_BY_TYPE.get(self.type, Usual())
        object.__setattr__(self, "usual", usual)
        # Defaults and parameters may be lists and dicts, which have no hash.
        parts = (self.type, self.optional, self.name, self.version, *self.positions)
        object.__setattr__(self, "_hash", hash(parts))
        if self.default is not None:
            object.__setattr__(self, "default", self._checked_default())

    def _checked_positions(self) -> Mapping[str, int]:
        if self.fields and self.type is not SchemaType.STRUCT:
            raise SchemaBuilderException(f"Cannot create fields on type {self.type.name}")
        positions: dict[str, int] = {}
        for item in self.fields:
            add_position(positions, item.name)
        return positions

    def _checked_default(self) -> object:
        try:
            # The schema of a struct cannot contain this struct as its default.
            return check_value(replace(self, default=None), self.default)
        except DataException as error:
            raise SchemaBuilderException("Invalid default value") from error

    def field(self, name: str) -> Field | None:
        """The field of a struct, or None if the struct has no field of this name.

        Raises DataException if the schema is not the schema of a struct.
        """
        position = self.positions.get(name)
        if position is not None:
            return self.fields[position]
        if self.type is not SchemaType.STRUCT:
            raise DataException("Cannot look up fields on non-struct type")
        return None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Schema) and self._hash == other._hash and self._parts() == other._parts()

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"Schema{{{self.type.name if self.name is None else f'{self.name}:{self.type.name}'}}}"

    def __reduce__(self) -> tuple[Callable[..., Schema], tuple[object, ...]]:
        # The hash of a text is another one in each process, so a process that gets a schema must build it again.
        return Schema, (
            self.type, self.optional, self.default, self.name, self.version, self.doc, self.parameters,
            self.fields, self.key_schema, self.value_schema,
        )  # fmt: skip

    def _parts(self) -> tuple[object, ...]:
        return self.__reduce__()[1]


def add_position(positions: dict[str, int], name: str) -> None:
    """Adds the position of the next field of a struct. Raises SchemaBuilderException for an invalid name."""
    if not name:
        raise SchemaBuilderException("fieldName cannot be null.")
    if name in positions:
        raise SchemaBuilderException(f"Cannot create field because of field name duplication {name}")
    positions[name] = len(positions)


class StructValue:
    """A value with named fields, as the check of values knows it. `Struct` in structs.py is the only class of it."""

    __slots__ = ("schema",)
    schema: Schema

    def validate(self) -> None:
        """Raises DataException for a value that does not fit its field."""
        raise NotImplementedError


def check_value(schema: Schema, value: object, field_name: str | None = None) -> object:
    """Checks that a value fits its schema, as ConnectSchema.validateValue. Raises DataException with Java's text.

    Returns the value in the classes of the data model: a `datetime` becomes an `Instant`, a plain `float` under float32
    a `Float32`. Nearly always this is the same object.
    """
    return _fitting(schema, value, "value" if field_name is None else f'field: "{field_name}"')


def _fitting(schema: Schema, value: object, location: str) -> object:
    kind = type(value)
    usual = schema.usual
    if kind is usual.kind or (kind is int and usual.least <= value <= usual.most):  # type: ignore[operator]
        return value
    if value is None:
        if schema.optional:
            return None
        raise DataException(
            f"Invalid value: null used for required {location}, schema type: {schema.type.name}"
        )
    is_logical = schema.name in LOGICAL_NAMES
    checked = _fit_logical(schema, value) if is_logical else _fit(schema.type, value)
    if checked is None:
        name = f' "{schema.name}"' if schema.name is not None else ""
        raise DataException(
            f"Invalid Java object for schema{name} with type {schema.type.name}: class {java_class(value)}"
            f" for {location}"
        )
    inside = _INSIDE.get(schema.type)
    return checked if inside is None or is_logical else inside(schema, checked, location)


# Whether a value of another class fits: functions that return the value in the classes of the data model, or None.


def _fit_logical(schema: Schema, value: object) -> object | None:
    if schema.name == DECIMAL:
        return value if isinstance(value, Decimal) else None
    return Instant.of(value) if isinstance(value, (dt.date, dt.time)) else None


def _fit(kind: SchemaType, value: object) -> object | None:
    if kind is SchemaType.FLOAT32:
        return Float32.of(value) if type(value) is float else None
    return value if isinstance(value, _OTHER_CLASSES.get(kind, ())) else None


_OTHER_CLASSES: Mapping[SchemaType, type | tuple[type, ...]] = {
    SchemaType.FLOAT64: Float64,
    SchemaType.STRING: str,
    SchemaType.BYTES: memoryview,
    SchemaType.ARRAY: (list, tuple),
    SchemaType.MAP: dict,
    SchemaType.STRUCT: StructValue,
}


# The check of what is inside a value.


def _inside_struct(schema: Schema, value: object, location: str) -> object:
    assert isinstance(value, StructValue), "the class was checked before"
    if value.schema is not schema and value.schema != schema:
        raise DataException("Struct schemas do not match.")
    value.validate()
    return value


def _inside_array(schema: Schema, value: object, location: str) -> object:
    assert isinstance(value, (list, tuple)), "the class was checked before"
    inside = f"element of array {location}"
    items = _present(schema.value_schema, inside)
    checked = [_fitting(items, item, inside) for item in value]
    return value if _same_objects(checked, value) else type(value)(checked)


def _inside_map(schema: Schema, value: object, location: str) -> object:
    assert isinstance(value, dict), "the class was checked before"
    of_key, of_value = f"key of map {location}", f"value of map {location}"
    keys, values = _present(schema.key_schema, of_key), _present(schema.value_schema, of_value)
    checked = {_fitting(keys, key, of_key): _fitting(values, item, of_value) for key, item in value.items()}
    unchanged = _same_objects(checked, value) and _same_objects(checked.values(), value.values())
    return value if unchanged else checked


def _same_objects(some: Iterable[object], others: Iterable[object]) -> bool:
    return all(map(operator.is_, some, others))


def _present(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataException(f"No schema defined for {location}")
    return schema


_INSIDE: Mapping[SchemaType, Callable[[Schema, object, str], object]] = {
    SchemaType.STRUCT: _inside_struct,
    SchemaType.ARRAY: _inside_array,
    SchemaType.MAP: _inside_map,
}


INT8_SCHEMA = Schema(SchemaType.INT8)
INT16_SCHEMA = Schema(SchemaType.INT16)
INT32_SCHEMA = Schema(SchemaType.INT32)
INT64_SCHEMA = Schema(SchemaType.INT64)
FLOAT32_SCHEMA = Schema(SchemaType.FLOAT32)
FLOAT64_SCHEMA = Schema(SchemaType.FLOAT64)
BOOLEAN_SCHEMA = Schema(SchemaType.BOOLEAN)
STRING_SCHEMA = Schema(SchemaType.STRING)
BYTES_SCHEMA = Schema(SchemaType.BYTES)

OPTIONAL_INT8_SCHEMA = Schema(SchemaType.INT8, optional=True)
OPTIONAL_INT16_SCHEMA = Schema(SchemaType.INT16, optional=True)
OPTIONAL_INT32_SCHEMA = Schema(SchemaType.INT32, optional=True)
OPTIONAL_INT64_SCHEMA = Schema(SchemaType.INT64, optional=True)
OPTIONAL_FLOAT32_SCHEMA = Schema(SchemaType.FLOAT32, optional=True)
OPTIONAL_FLOAT64_SCHEMA = Schema(SchemaType.FLOAT64, optional=True)
OPTIONAL_BOOLEAN_SCHEMA = Schema(SchemaType.BOOLEAN, optional=True)
OPTIONAL_STRING_SCHEMA = Schema(SchemaType.STRING, optional=True)
OPTIONAL_BYTES_SCHEMA = Schema(SchemaType.BYTES, optional=True)

DATE_SCHEMA = Schema(SchemaType.INT32, name=DATE, version=1)
TIME_SCHEMA = Schema(SchemaType.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)


def decimal_schema(scale: int, *, optional: bool = False) -> Schema:
    """The logical type of a `decimal.Decimal` with `scale` digits after the point."""
    return Schema(
        SchemaType.BYTES, optional=optional, name=DECIMAL, version=1, parameters={"scale": str(scale)}
    )


def array_schema(items: Schema, *, optional: bool = False) -> Schema:
    return Schema(SchemaType.ARRAY, optional=optional, value_schema=items)


def map_schema(keys: Schema, values: Schema, *, optional: bool = False) -> Schema:
    return Schema(SchemaType.MAP, optional=optional, key_schema=keys, value_schema=values)


def struct_schema(
    fields: Mapping[str, Schema],
    *,
    name: str | None = None,
    version: int | None = None,
    optional: bool = False,
    doc: str | None = None,
) -> Schema:
    """The schema of a struct with these fields, in this order."""
    items = tuple(Field(key, schema) for key, schema in fields.items())
    return Schema(SchemaType.STRUCT, optional=optional, name=name, version=version, doc=doc, fields=items)
