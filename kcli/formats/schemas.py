"""What the three schema languages of a registry have in common: Avro, JSON Schema and Protobuf.

A package for each language parses schemas to objects with the interface `ParsedSchema`. `language_of` returns the
language of a type, and imports its package only then.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self


class SchemaType(enum.StrEnum):
    """The type of a schema, as the registry names it."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class CompatibilityPolicy(enum.StrEnum):
    """How strict a comparison is. Only JSON Schema distinguishes STRICT and LENIENT."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    LOGICAL = "LOGICAL"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another schema uses.

    `name` is an Avro full name, the URI of a JSON Schema, or the path of a Protobuf import. Version -1 is the latest.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """A reason why a reader cannot read what a writer has written.

    `text` is the message of Confluent's registry. In it, `%(reader)s` and `%(writer)s` stand for the words "new" and
    "old", whose order depends on the direction. `path` is the place in the schema.
    """

    kind: str
    path: str
    text: str

    def message(self, *, reader: str, writer: str) -> str:
        """Returns the message, in which the two schemas are called `reader` and `writer`."""
        return self.text.replace("%(reader)s", reader).replace("%(writer)s", writer)


class ParsedSchema(Protocol):
    """A valid schema of one language. Its text is canonical."""

    @property
    def type(self) -> SchemaType: ...

    @property
    def canonical(self) -> str:
        """The text that a registry stores, and from which it computes the guid."""
        ...

    def normalized(self) -> Self:
        """Returns the schema in its normal form, so that equal schemas have equal texts. Raises FormatError."""
        ...

    def in_format(self, name: str) -> str:
        """Returns the text in a format, for example `resolved` or `serialized`. An unknown format is the canonical.

        Raises FormatError if the schema cannot be written in the format.
        """
        ...

    def is_equal(self, other: Self) -> bool:
        """Whether a registry treats the two schemas as one, without their references."""
        ...

    def incompatibilities(self, writer: Self, policy: CompatibilityPolicy) -> tuple[Incompatibility, ...]:
        """Returns why this schema, as the reader, cannot read values that were written with `writer`.

        Raises FormatError if the two schemas are too complex to compare.
        """
        ...


class SchemaLanguage(Protocol):
    """A schema language. Each language is a module with this function."""

    def parse(self, text: str, resolved: Mapping[str, str], *, is_new: bool) -> ParsedSchema:
        """Parses a schema. Raises FormatError, whose message is the reason after "details: ".

        `resolved` has the canonical texts of all schemas that are referenced directly and indirectly, by the names of
        the references, each after those that it uses. `is_new` adds the checks of a schema that has no values yet.
        """
        ...


_MODULES = {
    SchemaType.AVRO: "kcli.formats.avro.language",
    SchemaType.JSON: "kcli.formats.json_schema.language",
    SchemaType.PROTOBUF: "kcli.formats.protobuf.language",
}


def language_of(schema_type: SchemaType) -> SchemaLanguage:
    """Returns the language of a type of schemas."""
    language: SchemaLanguage = importlib.import_module(_MODULES[schema_type])
    return language
