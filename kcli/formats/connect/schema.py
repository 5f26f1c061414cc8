"""Schemas of Connect's data model (org.apache.kafka.connect.data.Schema)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The schema of a value. Two schemas are equal if all their parts are equal, as in Java.

    `value_schema` is the schema of the items of an array, and of the values of a map.
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
    _by_name: Mapping[str, Field] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {item.name: item for item in self.fields})

    def field(self, name: str) -> Field | None:
        """The field of a struct, or None if the struct has no field of this name."""
        return self._by_name.get(name)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Schema) and self._parts() == other._parts()

    def __hash__(self) -> int:
        # Defaults and parameters may be lists and dicts, which have no hash.
        return hash((self.type, self.optional, self.name, self.version, len(self.fields)))

    def _parts(self) -> tuple[object, ...]:
        return (
            self.type, self.optional, self.version, self.name, self.doc, self.default,
            self.fields, self.key_schema, self.value_schema, self.parameters,
        )  # fmt: skip


DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


def decimal_schema(scale: int, *, optional: bool = False) -> Schema:
    """The logical type of a `decimal.Decimal` with `scale` digits after the point."""
    return Schema(
        SchemaType.BYTES, optional=optional, name=DECIMAL, version=1, parameters={"scale": str(scale)}
    )
