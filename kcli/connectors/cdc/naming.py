"""The names of topics, schemas and fields, which come from the names of tables and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcli.connectors.avro_names import adjusted_field_name, adjusted_schema_name

_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")


@dataclass(frozen=True, slots=True)
class Naming:
    prefix: str
    delimiter: str = "."
    schema_adjustment: str = "none"
    field_adjustment: str = "none"

    def topic(self, *parts: str) -> str:
        """The topic of a table. `parts` follow the prefix."""
        return _NOT_IN_TOPICS.sub("_", self.delimiter.join((self.prefix, *parts)))

    def schema(self, topic: str, part: str) -> str:
        """The name of the schema of a part of an event."""
        return adjusted_schema_name(f"{topic}.{part}", self.schema_adjustment)

    def field(self, column: str) -> str:
        return adjusted_field_name(column, self.field_adjustment)
