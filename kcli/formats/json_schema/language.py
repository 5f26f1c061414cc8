"""The schema language JSON Schema. kcli/formats/schemas.py calls `parse`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.builder import Builder
from kcli.formats.json_schema.comparison import differences
from kcli.formats.json_schema.documents import Documents, RemoteReferenceError
from kcli.formats.json_schema.kinds import compatible_kinds, incompatibility
from kcli.formats.json_schema.nodes import Node, ObjectRules
from kcli.formats.json_schema.text import Json, read_json, sorted_members, write_json
from kcli.formats.schemas import CompatibilityPolicy, Incompatibility, SchemaType

MESSAGE_MAX = 1_000
"""The most characters of an error."""

_RESERVED_PREFIX = "$$"
_REMOTE = Incompatibility(
    "REMOTE_REFERENCE", "#/", "A previous schema version contains an unsupported external reference"
)


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A valid schema. `node` is what a comparison sees, and `documents` are the schema and its references.

    A stored schema has no node if it refers to the network, because Confluent's registry has fetched such documents.
    """

    canonical: str
    documents: Documents
    node: Node | None

    @property
    def type(self) -> Literal[SchemaType.JSON]:
        return SchemaType.JSON

    def normalized(self) -> JsonSchema:
        """Returns the schema with sorted members."""
        root = sorted_members(self.documents.main.root)
        return _parsed(root, self.documents.references, is_new=False)

    def in_format(self, name: str) -> str:
        """Returns the canonical text, because JSON Schema has no other format."""
        return self.canonical

    def is_equal(self, other: JsonSchema) -> bool:
        """Whether the canonical texts are equal."""
        return self.canonical == other.canonical

    def incompatibilities(
        self, writer: JsonSchema, policy: CompatibilityPolicy
    ) -> tuple[Incompatibility, ...]:
        """Returns the incompatible changes from the writer's schema to this schema.

        Schemas that cannot be compared, for example because they are too complex, are incompatible.
        """
        if self.node is None or writer.node is None:
            return (_REMOTE,)
        compatible = compatible_kinds(policy)
        try:
            found = differences(writer.node, self.node, compatible)
        except FormatError as error:
            return (Incompatibility("NOT_COMPARED", "#/", str(error)),)
        return tuple(incompatibility(difference) for difference in found if difference.kind not in compatible)


def parse(text: str, resolved: Mapping[str, str], *, is_new: bool) -> JsonSchema:
    """Parses a schema, in the draft that `$schema` names. Raises FormatError.

    As in Confluent's registry, only the keywords that are read must have the right type. A new schema must not have
    properties whose names begin with "$$".
    """
    try:
        schema = _parsed(read_json(text), resolved, is_new=is_new)
    except FormatError as error:
        # A message may quote the schema.
        raise FormatError(str(error)[:MESSAGE_MAX]) from None
    rules = None if schema.node is None else schema.node.rules
    names = rules.properties if isinstance(rules, ObjectRules) else ()
    if is_new and any(name.startswith(_RESERVED_PREFIX) for name in names):
        raise FormatError(f"#: Field names cannot start with {_RESERVED_PREFIX} prefix")
    return schema


def _parsed(root: Json, resolved: Mapping[str, str], *, is_new: bool) -> JsonSchema:
    documents = Documents.of(root, resolved)
    try:
        node = Builder(documents).root()
    except RemoteReferenceError:
        if is_new:
            raise
        node = None
    return JsonSchema(write_json(root), documents, node)
