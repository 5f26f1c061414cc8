"""The parts of an Avro schema.

The parts form a graph, because a record may contain itself. So two parts are equal only if they are one object, and
`equality.py` compares schemas.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kcli.formats.avro.json_text import Json

Properties = Mapping[str, Json]
"""The members of a declaration that Avro does not define, in the order of the text."""


class Kind(enum.StrEnum):
    """The types of Avro, as a schema names them."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    RECORD = "record"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"
    FIXED = "fixed"


PRIMITIVES: Mapping[str, Kind] = {
    kind.value: kind
    for kind in (
        Kind.NULL,
        Kind.BOOLEAN,
        Kind.INT,
        Kind.LONG,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.BYTES,
        Kind.STRING,
    )
}
_TYPE_NAMES = frozenset(kind.value for kind in Kind)


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a type, and its namespace, which may be empty."""

    name: str
    space: str

    @classmethod
    def of(cls, name: str, space: str) -> Name:
        """Parses a name. A name with a dot has its own namespace, and any other name is in `space`."""
        own_space, dot, simple = name.rpartition(".")
        return cls(simple, own_space if dot else space)

    @property
    def full(self) -> str:
        return f"{self.space}.{self.name}" if self.space else self.name

    def seen_from(self, space: str) -> str:
        """The shortest text that means this name in a namespace."""
        return self.name if self.space and self.space == space and self.name not in _TYPE_NAMES else self.full


class Logical(enum.StrEnum):
    """The logical types that have values of their own. Each other logical type is only a property."""

    DECIMAL = "decimal"
    BIG_DECIMAL = "big-decimal"
    UUID = "uuid"
    DATE = "date"
    DURATION = "duration"
    TIME_MILLIS = "time-millis"
    TIME_MICROS = "time-micros"
    TIMESTAMP_MILLIS = "timestamp-millis"
    TIMESTAMP_MICROS = "timestamp-micros"
    TIMESTAMP_NANOS = "timestamp-nanos"
    LOCAL_TIMESTAMP_MILLIS = "local-timestamp-millis"
    LOCAL_TIMESTAMP_MICROS = "local-timestamp-micros"
    LOCAL_TIMESTAMP_NANOS = "local-timestamp-nanos"


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A logical type that fits its type. Only a decimal has `precision` and `scale`."""

    logical: Logical
    precision: int = 0
    scale: int = 0


@dataclass(slots=True, eq=False)
class Primitive:
    kind: Kind
    properties: Properties = field(default_factory=dict)
    logical: LogicalType | None = None


@dataclass(slots=True, eq=False)
class Array:
    items: Part
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Map:
    values: Part
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Union:
    branches: list[Part]


@dataclass(slots=True, eq=False)
class Enum:
    name: Name
    symbols: tuple[str, ...]
    default: str | None
    doc: str | None
    aliases: tuple[Name, ...]
    properties: Properties


@dataclass(slots=True, eq=False)
class Fixed:
    name: Name
    size: int
    doc: str | None
    aliases: tuple[Name, ...]
    properties: Properties
    logical: LogicalType | None = None


class Order(enum.StrEnum):
    """How the values of a field are sorted."""

    ASCENDING = "ascending"
    DESCENDING = "descending"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a field, as JSON. A field without a default has no such object."""

    json: Json


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: Part
    default: Default | None
    order: Order
    doc: str | None
    aliases: tuple[str, ...]
    properties: Properties


@dataclass(slots=True, eq=False)
class Record:
    name: Name
    fields: tuple[Field, ...]
    is_error: bool
    doc: str | None
    aliases: tuple[Name, ...]
    properties: Properties


Part = Primitive | Array | Map | Union | Enum | Fixed | Record
Named = Enum | Fixed | Record


def kind_of(part: Part) -> Kind:
    match part:
        case Primitive():
            return part.kind
        case Record():
            return Kind.RECORD
        case Enum():
            return Kind.ENUM
        case Fixed():
            return Kind.FIXED
        case Array():
            return Kind.ARRAY
        case Map():
            return Kind.MAP
        case Union():
            return Kind.UNION


def branch_name(part: Part) -> str:
    """The name of a branch of a union: the full name of a named type, or the type."""
    return part.name.full if isinstance(part, (Record, Enum, Fixed)) else kind_of(part).value


def inner_parts(part: Part) -> Iterator[Part]:
    """Yields the parts that a part contains directly."""
    match part:
        case Record():
            yield from (item.type for item in part.fields)
        case Array():
            yield part.items
        case Map():
            yield part.values
        case Union():
            yield from part.branches
        case _:
            pass


def all_parts(root: Part) -> list[Part]:
    """The parts of a schema, each once."""
    seen = {id(root)}
    parts = [root]
    for part in parts:  # the list grows while the loop runs
        for inner in inner_parts(part):
            if id(inner) not in seen:
                seen.add(id(inner))
                parts.append(inner)
    return parts
