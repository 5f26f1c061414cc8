"""Whether a new schema is compatible with the versions of its subject, and the reasons if it is not."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.formats.codec import FormatError
from kcli.formats.registry.documents import ConfigDocument
from kcli.formats.registry.rule_sets import Metadata
from kcli.formats.schemas import CompatibilityPolicy, ParsedSchema
from kcli.registry.decisions.configs import Level
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.reserved_fields import reserved_field_errors
from kcli.registry.decisions.schemas import Candidate, SchemaParser, invalid

OLD_SCHEMA_CHARACTERS_MAX = 10 * 1024
"""The length to which Confluent's registry cuts an old schema in its messages."""

DIFFERENT_TYPE = "Incompatible because of different schema type"

_NEW, _OLD = "new", "old"


def incompatibilities(
    parser: SchemaParser,
    config: ConfigDocument,
    candidate: Candidate,
    versions: Sequence[StoredSchema],
    *,
    validates_fields: bool = False,
) -> tuple[str, ...]:
    """Returns the messages of Confluent's registry, or nothing if the schema is compatible.

    `versions` are the versions to compare, from the oldest to the newest. A level that is not transitive compares
    only the newest of them. The comparison ends at the first version that is not compatible. `validates_fields` adds
    the check of reserved fields. Raises RegistryError if a schema cannot be parsed or compared.
    """
    try:
        errors = (
            reserved_field_errors(candidate, versions[-1] if versions else None) if validates_fields else []
        )
        messages = [*errors, *_compared(parser, config, candidate, versions)]
    except FormatError as error:  # The schemas are too complex to compare.
        raise invalid(candidate.definition, str(error)) from None
    if not messages:
        return ()
    shown = "true" if validates_fields else "false"
    return (*messages, f"{{validateFields: '{shown}', compatibility: '{level_of(config)}'}}")


def _compared(
    parser: SchemaParser, config: ConfigDocument, candidate: Candidate, versions: Sequence[StoredSchema]
) -> list[str]:
    """The messages about the first version that is not compatible."""
    level, policy = level_of(config), _policy_of(config)
    if level is Level.NONE:
        return []
    compared = [
        version for version in versions if _is_in_group(config.compatibility_group, candidate, version)
    ]
    for version in reversed(compared if level.is_transitive else compared[-1:]):
        messages = _messages(parser, level, policy, candidate, version)
        if messages:
            return messages
    return []


def level_of(config: ConfigDocument) -> Level:
    """Returns the level of a config that applies to a scope. Another writer may have written an unknown level."""
    try:
        return Level((config.compatibility_level or "").upper())
    except ValueError:
        return Level.BACKWARD


def _policy_of(config: ConfigDocument) -> CompatibilityPolicy:
    try:
        return CompatibilityPolicy((config.compatibility_policy or "").upper())
    except ValueError:
        return CompatibilityPolicy.STRICT


def _is_in_group(group: str | None, candidate: Candidate, version: StoredSchema) -> bool:
    """Whether the two schemas have an equal value of the property that names a group, or both have none."""
    return group is None or _property(candidate.definition.metadata, group) == _property(
        version.definition.metadata, group
    )


def _property(metadata: Metadata | None, name: str) -> str | None:
    return None if metadata is None else metadata.properties.get(name)


def _messages(
    parser: SchemaParser,
    level: Level,
    policy: CompatibilityPolicy,
    candidate: Candidate,
    version: StoredSchema,
) -> list[str]:
    if candidate.definition.type != version.definition.type:
        return [DIFFERENT_TYPE]
    new, old = candidate.parsed, parser.stored(version)
    forward = _differences(old, new, policy, reader=_OLD, writer=_NEW) if level.is_forward else []
    backward = _differences(new, old, policy, reader=_NEW, writer=_OLD) if level.is_backward else []
    # Of the two directions of FULL, only the second has the old schema in its messages.
    shows_schema = backward or (forward and not level.is_backward)
    return [*forward, *backward, *(_old_schema(version) if shows_schema else ())]


def _differences(
    reading: ParsedSchema, writing: ParsedSchema, policy: CompatibilityPolicy, *, reader: str, writer: str
) -> list[str]:
    differences = reading.incompatibilities(writing, policy)
    return [difference.message(reader=reader, writer=writer) for difference in differences]


def _old_schema(version: StoredSchema) -> tuple[str, str]:
    text = version.definition.text
    if len(text) > OLD_SCHEMA_CHARACTERS_MAX:
        shown = f"<truncated> '{text[:OLD_SCHEMA_CHARACTERS_MAX]}...'"
    else:
        shown = f"'{text}'"
    return f"{{oldSchemaVersion: {version.version}}}", f"{{oldSchema: {shown}}}"
