"""A type of the database, the keys that choose among its representations, and the type of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kcli.formats.connect.schema import Schema, SchemaType
from kcli.formats.connect.structs import Struct

BASE, ENUM, DOMAIN = "b", "e", "d"
"""Kinds of types (pg_type.typtype)."""
_TYPMOD_HEADER = 4


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A type of the database, as in pg_type."""

    name: str
    kind: str = BASE
    base: TypeInfo | None = None
    """The type on which a domain is based."""
    base_modifier: int = -1
    item: TypeInfo | None = None
    """The type of the items of an array."""
    labels: tuple[str, ...] = ()
    """The labels of an enum."""


@dataclass(frozen=True, slots=True)
class Modes:
    """The keys that choose among representations. The names of the fields are the names of the keys."""

    decimal_handling: str = "precise"
    time_precision: str = "adaptive"
    binary_handling: str = "bytes"
    interval_handling: str = "numeric"
    hstore_handling: str = "json"
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of fields."""

    schema: Schema
    convert: Callable[[str], object]
    """The value of a text. Raises DataException."""
    fallback: object
    """The value of a required field whose column is not in the replica identity, as in Debezium."""
    unavailable: object = None
    """The value that stands for an unchanged value that the server does not send."""
    null: object = None
    """The value that stands for NULL, such as a mask."""

    @property
    def optional_schema(self) -> Schema:
        return replace(self.schema, optional=True)

    def value(self, schema: Schema, text: str) -> object:
        """The value for a field with `schema`, which is the schema of this type, or the optional one."""
        value = self.convert(text)
        # A struct fits only a field with exactly its own schema.
        return Struct.of_checked(schema, value.values) if isinstance(value, Struct) else value


def named(kind: SchemaType, name: str, parameters: Mapping[str, str] | None = None) -> Schema:
    return Schema(kind, name=name, version=1, parameters=parameters)


def numeric_size(modifier: int) -> tuple[int, int] | None:
    """The precision and the scale of a numeric column, or None for numbers of any size."""
    size = modifier - _TYPMOD_HEADER
    if size < 0:
        return None
    # The scale has 11 bits, and may be negative.
    return size >> 16 & 0xFFFF, ((size & 0x7FF) ^ 0x400) - 0x400
