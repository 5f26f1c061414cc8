"""Fields that a subject reserves: the property `confluent:reserved` of its metadata lists names, separated by commas.

If a config validates fields, no schema may have a field with a reserved name, and no version may give up a name.
"""

from __future__ import annotations

import base64

from kcli.formats.registry.rule_sets import Metadata
from kcli.formats.schemas import ParsedSchema, SchemaType
from kcli.model.java_json import parse_json
from kcli.model.java_text import trim
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.schemas import Candidate

RESERVED_PROPERTY = "confluent:reserved"


def reserved_field_errors(candidate: Candidate, previous: StoredSchema | None) -> list[str]:
    """Returns the messages of Confluent's registry. Raises FormatError if a schema has no descriptor."""
    reserved = _reserved(candidate.definition.metadata)
    given_up = set() if previous is None else _reserved(previous.definition.metadata) - reserved
    conflicts = reserved & _field_names(candidate.parsed) if reserved else set()
    return [
        *(
            f"The new schema has reserved field {name} removed from its metadata which is present in the old schema's "
            "metadata."
            for name in sorted(given_up)
        ),
        *(
            f"The new schema has field that conflicts with the reserved field {name}."
            for name in sorted(conflicts)
        ),
    ]


def _reserved(metadata: Metadata | None) -> set[str]:
    names = (metadata or Metadata()).properties.get(RESERVED_PROPERTY, "").split(",")
    return {trim(name) for name in names if trim(name)}


def _field_names(parsed: ParsedSchema) -> set[str]:
    """The names of the fields at the top level: of the record, of the object, or of all messages."""
    match parsed.type:
        case SchemaType.AVRO:
            fields = _json(parsed.in_format("resolved")).get("fields")
            return {field["name"] for field in fields} if isinstance(fields, list) else set()
        case SchemaType.JSON:
            properties = _json(parsed.canonical).get("properties")
            return set(properties) if isinstance(properties, dict) else set()
        case SchemaType.PROTOBUF:
            return _names_in_descriptor(base64.b64decode(parsed.in_format("serialized")))


def _names_in_descriptor(descriptor: bytes) -> set[str]:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(descriptor)
    return {field.name for message in file.message_type for field in message.field}


def _json(text: str) -> dict[str, object]:
    value = parse_json(text)
    return value if isinstance(value, dict) else {}
