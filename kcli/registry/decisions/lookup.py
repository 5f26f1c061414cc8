"""Look-ups of one schema: by subject and version, by id, by guid, by its text, and by its metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcli.formats.registry.contexts import DEFAULT_CONTEXT, Subject, beside, normalized, prefix_of
from kcli.formats.registry.digests import digest_of_guid
from kcli.formats.registry.documents import RegisteredSchema, RegisterRequest, SchemaDefinition, SchemaString
from kcli.formats.schemas import SchemaReference
from kcli.model.java_text import parse_int, trim
from kcli.registry.decisions.annotations import inherited
from kcli.registry.decisions.errors import (
    RegistryError,
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from kcli.registry.decisions.matching import Match, match_in_subject
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.schemas import LATEST

QUALIFIED = "qualified"
"""The format of references in which each subject has the prefix of its context."""


def version_number(text: str) -> int:
    """Parses a version of a path. `latest` is -1. Raises RegistryError."""
    if trim(text).lower() == "latest":
        return LATEST
    try:
        number = parse_int(trim(text))
    except ValueError:
        raise invalid_version(text) from None
    if number < 1 and number != LATEST:
        raise invalid_version(str(number))
    return number


def get_version(
    rules: Rules,
    subject: str,
    version: int,
    *,
    deleted: bool = False,
    format_name: str = "",
    references: str = "",
) -> RegisteredSchema:
    """Returns a version. -1 is the newest. A subject without context is looked up in all contexts."""
    subject = normalized(subject)
    schema = find_version(rules, subject, version, deleted=deleted)
    document = _formatted(rules, schema, schema.document(), format_name)
    return replace(document, definition=_qualified(schema, document.definition, references))


def find_version(rules: Rules, subject: str, version: int, *, deleted: bool) -> StoredSchema:
    """Returns the stored version of a normalized subject, as `get_version` does. Raises RegistryError."""
    for name in _names(rules, subject):
        schema = rules.state.latest(name) if version == LATEST else rules.state.version(name, version)
        if schema is not None and (deleted or not schema.deleted):
            return schema
    if rules.state.has_subjects(subject, deleted=deleted):
        raise version_not_found(version)
    raise subject_not_found(subject)


def get_by_id(
    rules: Rules,
    schema_id: int,
    subject: str | None = None,
    *,
    format_name: str = "",
    references: str = "",
    with_max_id: bool = False,
) -> SchemaString:
    """Returns the schema of an id. The subject or context decides in which context the id is looked up."""
    schema = find_id(rules, schema_id, subject)
    if schema is None:
        raise schema_not_found(schema_id)
    document = _string_of(rules, schema, format_name)
    document = replace(document, definition=_qualified(schema, document.definition, references))
    if with_max_id:
        document = replace(document, max_id=rules.state.max_id(Subject.of(schema.subject).context))
    return document if subject is not None else replace(document, subject=None, version=None)


def find_id(rules: Rules, schema_id: int, subject: str | None) -> StoredSchema | None:
    """Returns a version that has an id. A version that is not deleted comes first."""
    if subject is None:
        return _holder(rules, DEFAULT_CONTEXT, schema_id)
    parsed = Subject.of(subject)
    if not parsed.name:
        return _holder(rules, parsed.context, schema_id)
    for name in _names(rules, parsed.text):
        held = [schema for schema in rules.state.versions(name) if schema.id == schema_id]
        if held:
            return max(held, key=lambda schema: (not schema.deleted, schema.version))
    # Only a subject without a context may have a schema that it does not contain, for example a reference.
    return _holder(rules, DEFAULT_CONTEXT, schema_id) if parsed.context == DEFAULT_CONTEXT else None


def get_by_guid(rules: Rules, guid: str, *, format_name: str = "") -> SchemaString:
    """Returns the schema of a guid, from the first context that has the schema."""
    digest = digest_of_guid(guid) or b""
    for context in rules.state.contexts():
        schema = next(rules.state.equal_schemas(context, digest), None)
        if schema is not None:
            return replace(_string_of(rules, schema, format_name), subject=None, version=None)
    raise schema_not_found(guid)


def look_up(
    rules: Rules,
    subject: str,
    request: RegisterRequest,
    *,
    normalize: bool = False,
    deleted: bool = False,
    format_name: str = "",
) -> RegisteredSchema:
    """Returns the version that has the schema of a request. Raises RegistryError."""
    subject = normalized(subject)
    for name in _names(rules, subject):
        try:
            match = _match(rules, name, request.definition, normalize=normalize, deleted=deleted)
        except RegistryError:
            if name == subject:
                raise
            continue  # The schema refers to subjects that another context does not have.
        if match is not None:
            return _formatted(rules, match.schema, match.document(), format_name)
    if rules.state.has_subjects(subject, deleted=deleted):
        raise schema_not_found()
    raise subject_not_found(subject)


def latest_with_metadata(
    rules: Rules, subject: str, properties: Mapping[str, str], *, deleted: bool = False, format_name: str = ""
) -> RegisteredSchema:
    """Returns the newest version whose metadata has these properties. Raises RegistryError."""
    subject = normalized(subject)
    for schema in reversed(rules.state.versions(subject)):
        metadata = None if schema.deleted and not deleted else schema.definition.metadata
        if metadata is not None and metadata.properties.items() >= properties.items():
            return _formatted(rules, schema, schema.document(), format_name)
    if rules.state.has_subjects(subject, deleted=deleted):
        raise schema_not_found()
    raise subject_not_found(subject)


def _match(
    rules: Rules, subject: str, definition: SchemaDefinition, *, normalize: bool, deleted: bool
) -> Match | None:
    match = match_in_subject(rules, subject, definition, normalize=normalize, deleted=deleted)
    latest = rules.state.latest(subject)
    if match is not None or latest is None:
        return match
    # A registration would inherit metadata and rules, so the client does not send them.
    metadata, rule_set = inherited(definition, latest.definition, rules.config_of(subject))
    completed = replace(definition, metadata=metadata, rule_set=rule_set)
    if completed == definition:
        return None
    return match_in_subject(rules, subject, completed, normalize=normalize, deleted=deleted)


def _names(rules: Rules, subject: str) -> Iterator[str]:
    """Yields the subject and, if it has no context, the subjects of all contexts with its name."""
    parsed = Subject.of(subject)
    yield parsed.text
    if parsed.context == DEFAULT_CONTEXT:
        for context in rules.state.contexts()[1:]:
            yield prefix_of(context) + parsed.name


def _holder(rules: Rules, context: str, schema_id: int) -> StoredSchema | None:
    first = next(rules.state.holders(context, schema_id), None)
    live = (schema for schema in rules.state.holders(context, schema_id) if not schema.deleted)
    return next(live, first)


def _string_of(rules: Rules, schema: StoredSchema, format_name: str) -> SchemaString:
    document = _formatted(rules, schema, schema.document(), format_name)
    return SchemaString(
        definition=document.definition,
        subject=document.subject,
        version=document.version,
        guid=document.guid,
        timestamp_ms=document.timestamp_ms,
        deleted=document.deleted,
    )


def _formatted(
    rules: Rules, schema: StoredSchema, document: RegisteredSchema, format_name: str
) -> RegisteredSchema:
    text = rules.parser.formatted(schema, format_name)
    return replace(document, definition=replace(document.definition, text=text))


def _qualified(schema: StoredSchema, definition: SchemaDefinition, references: str) -> SchemaDefinition:
    if references != QUALIFIED:
        return definition
    return replace(
        definition,
        references=tuple(
            SchemaReference(item.name, beside(schema.subject, item.subject), item.version)
            for item in definition.references
        ),
    )
