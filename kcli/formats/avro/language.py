"""The schema language Avro of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from kcli.formats.avro.compatibility import incompatibilities
from kcli.formats.avro.equality import are_equivalent
from kcli.formats.avro.parsing import Parser
from kcli.formats.avro.schema import Enum, Fixed, Part, Record
from kcli.formats.avro.writing import canonical_text, java_text, normal_text
from kcli.formats.codec import FormatError
from kcli.formats.schemas import CompatibilityPolicy, Incompatibility, SchemaType

RESOLVED = "resolved"
"""The format in which the types of references are declared in the text."""


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    """A valid Avro schema. `root` is its type, with the types of its references."""

    canonical: str
    root: Part = field(repr=False)
    references: Mapping[str, str] = field(repr=False)
    """The texts of the referenced schemas, each after those that it uses."""
    is_new: bool = field(repr=False)

    @property
    def type(self) -> SchemaType:
        return SchemaType.AVRO

    @property
    def full_name(self) -> str | None:
        """The full name of a named type, which some subject strategies use."""
        return self.root.name.full if isinstance(self.root, (Record, Enum, Fixed)) else None

    def normalized(self) -> Self:
        """Returns the schema in its normal form. The order of properties and aliases has no meaning there."""
        names = _names(self.references, is_new=self.is_new)
        text = normal_text(self.root, names)
        other = parse(text, self.references, is_new=self.is_new)
        return replace(self, canonical=other.canonical, root=other.root)

    def in_format(self, name: str) -> str:
        """Returns the text in the format `resolved`, or the canonical text for any other format."""
        return java_text(self.root) if name.lower() == RESOLVED else self.canonical

    def is_equal(self, other: Self) -> bool:
        """Whether the registry treats both schemas as one: also documentation, aliases and properties are equal."""
        return are_equivalent(self.root, other.root)

    def incompatibilities(self, writer: Self, policy: CompatibilityPolicy) -> tuple[Incompatibility, ...]:
        """Returns why this schema cannot read values of `writer`. All policies are equal for Avro."""
        try:
            return incompatibilities(self.root, writer.root)
        except FormatError as error:  # the registry reports a failed comparison as an incompatibility
            return (Incompatibility("", "/", f"Unexpected exception during compatibility check: {error}"),)


def parse(text: str, resolved: Mapping[str, str], *, is_new: bool) -> AvroSchema:
    """Parses a schema. `resolved` has the texts of the referenced schemas, each after those that it uses.

    With `is_new`, names must be ASCII and defaults must fit their types. Raises FormatError.
    """
    parser = Parser(is_strict=is_new)
    try:
        names = [_full_name(parser.parse(reference)) for reference in resolved.values()]
        root = parser.parse(text)
        return AvroSchema(canonical_text(root, names), root, dict(resolved), is_new)
    except RecursionError:  # the caller has left too little of Python's stack
        raise FormatError("the schema is nested too deeply") from None


def _names(references: Mapping[str, str], *, is_new: bool) -> list[str]:
    """The full names of the referenced schemas."""
    parser = Parser(is_strict=is_new)
    return [_full_name(parser.parse(text)) for text in references.values()]


def _full_name(part: Part) -> str:
    return part.name.full if isinstance(part, (Record, Enum, Fixed)) else ""
