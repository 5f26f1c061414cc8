"""A schema as the comparison sees it: one rule set for each type of values.

The nodes have the shape of the classes of Everit's library, because the kinds of differences in Confluent's registry
follow from this shape. A schema with keywords of several types becomes a combination of nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.text import Json

REFERENCES_MAX = 100
"""The most references in a chain without other keywords."""


class Plain(enum.Enum):
    """The rules of a node without keywords of its own."""

    BOOLEAN = "boolean"
    NULL = "null"
    EMPTY = "{}"
    TRUE = "true"
    FALSE = "false"
    CONDITIONAL = "if"


class Criterion(enum.StrEnum):
    """How many members of a combination must accept a value."""

    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(frozen=True, slots=True)
class StringRules:
    """The keywords of strings."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class NumberRules:
    """The keywords of numbers."""

    is_integer: bool
    minimum: Decimal | None = None
    maximum: Decimal | None = None
    exclusive_minimum: Decimal | None = None
    exclusive_maximum: Decimal | None = None
    multiple_of: Decimal | None = None


@dataclass(frozen=True, slots=True)
class ContentModel:
    """The rule for properties or items that a schema does not name.

    `schema` and `unevaluated` are the schemas of additional and of unevaluated ones.
    """

    is_permitted: bool
    schema: Node | None
    unevaluated: Node | None
    has_patterns: bool = False

    @property
    def is_open(self) -> bool:
        """Whether every other property or item is valid."""
        if not self.is_permitted or self.schema is not None or self.has_patterns:
            return False
        return self.unevaluated is None or self.unevaluated.is_empty

    @property
    def cover(self) -> Node | None:
        """The schema of other properties or items, if the model is partially open."""
        if self.schema is not None or not self.is_permitted or self.unevaluated is None:
            return self.schema
        return None if self.unevaluated.is_empty or self.unevaluated.is_false else self.unevaluated


@dataclass(frozen=True, slots=True)
class ObjectRules:
    """The keywords of objects."""

    content: ContentModel
    properties: Mapping[str, Node]
    patterns: Mapping[str, Node]
    required: frozenset[str]
    property_dependencies: Mapping[str, frozenset[str]]
    schema_dependencies: Mapping[str, Node]
    min_properties: int | None
    max_properties: int | None


@dataclass(frozen=True, slots=True)
class ArrayRules:
    """The keywords of arrays. `every_item` is the schema of all items, and `items` are those of the first items."""

    content: ContentModel
    every_item: Node | None
    items: tuple[Node, ...]
    min_items: int | None
    max_items: int | None
    is_unique: bool
    min_contains: int | None
    max_contains: int | None


@dataclass(frozen=True, slots=True)
class EnumValues:
    """The canonical texts of the permitted values."""

    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class ConstValue:
    """The canonical text of the only permitted value."""

    value: str


@dataclass(frozen=True, slots=True)
class Combined:
    """Members that are combined by `allOf`, `anyOf` or `oneOf`.

    `is_split` is True for a schema whose keywords are for values of several types. Its members are the parts.
    """

    criterion: Criterion
    members: tuple[Node, ...]
    is_split: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """The schema that a value must not match."""

    schema: Node


@dataclass(slots=True, eq=False)
class Reference:
    """A reference to another node. The builder sets the target later, because schemas may be recursive."""

    target: Node | None = None


Rules = (
    Plain
    | StringRules
    | NumberRules
    | ObjectRules
    | ArrayRules
    | EnumValues
    | ConstValue
    | Combined
    | Not
    | Reference
)


@dataclass(frozen=True, slots=True)
class Annotations:
    """The keywords of a schema that do not constrain values. `default` is a canonical text."""

    id: str | None = None
    title: str | None = None
    description: str | None = None
    default: str | None = None
    connect_type: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A schema. Two nodes are equal only if they are the same object, because a comparison remembers pairs of nodes.

    `source` is the JSON of the schema, with which equal members of a combination are recognised.
    """

    rules: Rules
    annotations: Annotations
    source: Json

    @property
    def is_empty(self) -> bool:
        return self.rules is Plain.EMPTY or self.rules is Plain.TRUE

    @property
    def is_false(self) -> bool:
        return self.rules is Plain.FALSE

    @property
    def kind(self) -> object:
        """The type of the rules, which is different for schemas of different types of values."""
        return self.rules if isinstance(self.rules, Plain) else type(self.rules)

    @property
    def referred(self) -> Node:
        """The node at the end of a chain of references. Raises FormatError if the chain is too long or endless."""
        node = self
        for _ in range(REFERENCES_MAX + 1):
            if not isinstance(node.rules, Reference):
                return node
            assert node.rules.target is not None, "the builder has set all targets"
            node = node.rules.target
        raise FormatError(f"Invalid JSON: more than {REFERENCES_MAX} references to references")
