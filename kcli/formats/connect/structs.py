"""Structs, and the check of a value against its schema (org.apache.kafka.connect.data.Struct)."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import DECIMAL, LOGICAL_NAMES, Field, Schema, SchemaType
from kcli.formats.connect.values import Float32, Float64, Instant, java_class


class Struct:
    """A value with named fields.

    `values` are the stored values in the order of the schema's fields, and None where no value is stored. Only `put`
    changes a struct, because it checks the values.
    """

    __slots__ = ("schema", "values")
    java_class = "org.apache.kafka.connect.data.Struct"

    def __init__(self, schema: Schema, values: Mapping[str, object] | None = None) -> None:
        """Makes a struct with the given values. Raises DataException for a value that does not fit."""
        if schema.type is not SchemaType.STRUCT:
            raise DataException(f"Not a struct schema: {schema}")
        self.schema = schema
        self.values: list[object] = [None] * len(schema.fields)
        if values is not None:
            for name, value in values.items():
                self.put(name, value)

    @classmethod
    def of_checked(cls, schema: Schema, values: list[object]) -> Struct:
        """Makes a struct of values that fit, in the order of the fields. A decoder has made them for this schema."""
        made = cls.__new__(cls)
        made.schema = schema
        made.values = values
        return made

    def put(self, name: str, value: object) -> Struct:
        """Stores a value. Returns this struct. Raises DataException if the value does not fit the field."""
        position = self._position(name)
        self.values[position] = _fitting(self.schema.fields[position].schema, value, f'field: "{name}"')
        return self

    def get(self, name: str) -> object:
        """The value of a field, or the default of the field if no value is stored."""
        position = self._position(name)
        value = self.values[position]
        return self.schema.fields[position].schema.default if value is None else value

    def get_without_default(self, name: str) -> object:
        """The stored value of a field."""
        return self.values[self._position(name)]

    def validate(self) -> None:
        """Raises DataException if a required field without a default has no value, or if a stored value is invalid."""
        for item, value in zip(self.schema.fields, self.values, strict=True):
            if value is not None or not (item.schema.optional or item.schema.default is not None):
                check_value(item.schema, value, item.name)

    def items(self) -> list[tuple[Field, object]]:
        """Each field with its stored value."""
        return list(zip(self.schema.fields, self.values, strict=True))

    def _position(self, name: str) -> int:
        try:
            return self.schema.positions[name]
        except KeyError:
            raise DataException(f"{name} is not a valid field name") from None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Struct) and self.values == other.values and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.schema, *map(str, self.values)))

    def __repr__(self) -> str:
        texts = [f"{item.name}={value!r}" for item, value in self.items() if value is not None]
        return f"Struct{{{','.join(texts)}}}"


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
    SchemaType.STRUCT: Struct,
}


# The check of what is inside a value.


def _inside_struct(schema: Schema, value: object, location: str) -> object:
    assert isinstance(value, Struct), "the class was checked before"
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
