"""The names of topics, schemas and fields, which come from the names of tables and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")
_NOT_IN_AVRO_FIELDS = re.compile(r"[^a-zA-Z0-9_]")
_NOT_IN_AVRO_SCHEMAS = re.compile(r"[^a-zA-Z0-9_.]")
_ESCAPED_IN_FIELDS = re.compile(r"[^a-zA-Z0-9]|^[0-9]")
_ESCAPED_IN_SCHEMAS = re.compile(r"[^a-zA-Z0-9.]|^[0-9.]")
ADJUSTMENTS = ("none", "avro", "avro_unicode")


@dataclass(frozen=True, slots=True)
class Naming:
    prefix: str
    delimiter: str = "."
    schema_adjustment: str = "none"
    field_adjustment: str = "none"

    def topic(self, *parts: str) -> str:
        """The topic of a table, or one with the heartbeats or the transactions. `parts` follow the prefix."""
        return _NOT_IN_TOPICS.sub("_", self.delimiter.join((self.prefix, *parts)))

    def schema(self, topic: str, part: str) -> str:
        """The name of the schema of a part of an event."""
        name = f"{topic}.{part}"
        match self.schema_adjustment:
            case "avro":
                adjusted = _NOT_IN_AVRO_SCHEMAS.sub("_", name)
                return f"_{adjusted[1:]}" if adjusted[0].isdecimal() or adjusted[0] == "." else adjusted
            case "avro_unicode":
                return _ESCAPED_IN_SCHEMAS.sub(_escaped, name)
        return name

    def field(self, column: str) -> str:
        match self.field_adjustment:
            case "avro":
                adjusted = _NOT_IN_AVRO_FIELDS.sub("_", column)
                return f"_{adjusted}" if adjusted[0].isdecimal() else adjusted
            case "avro_unicode":
                return _ESCAPED_IN_FIELDS.sub(_escaped, column)
        return column


def _escaped(match: re.Match[str]) -> str:
    """The number of a character, or of each half of a pair in UTF-16."""
    units = match[0].encode("utf-16-be")
    return "".join(f"_u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
