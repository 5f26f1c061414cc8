"""Structs (org.apache.kafka.connect.data.Struct)."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import Field, Schema, SchemaType, StructValue, check_value


class Struct(StructValue):
    """A value with named fields.

    `values` are the stored values in the order of the schema's fields, and None where no value is stored. Only `put`
    changes a struct, because it checks the values.
    """

    __slots__ = ("values",)
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
        self.values[position] = check_value(self.schema.fields[position].schema, value, name)
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
