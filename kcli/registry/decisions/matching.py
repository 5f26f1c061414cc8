"""Finds the version of a subject that has the schema of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kcli.formats.registry.contexts import beside, context_of
from kcli.formats.registry.digests import digest_of
from kcli.formats.registry.documents import RegisteredSchema, SchemaDefinition
from kcli.formats.registry.rule_sets import Metadata
from kcli.formats.schemas import SchemaReference
from kcli.registry.decisions.annotations import version_of, without_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.schemas import LATEST, Candidate


@dataclass(frozen=True, slots=True)
class Match:
    """A version that has the schema of a request. An exact match has the same digest too."""

    schema: StoredSchema
    is_exact: bool

    def document(self) -> RegisteredSchema:
        document = self.schema.document()
        # Confluent's registry answers an exact match from the request, which has no time and is not deleted.
        return replace(document, timestamp_ms=None, deleted=None) if self.is_exact else document


def candidate_of(
    rules: Rules, subject: str, definition: SchemaDefinition, *, is_new: bool, normalize: bool
) -> Candidate:
    """Parses the schema of a request. `normalize` is what the request asks for, and a config can ask for it too.

    An imported schema is never normalized, because it must keep the text that it has in the other registry.
    """
    if rules.mode_of(subject).takes_ids:
        normalize = False
    else:
        normalize = normalize or bool(rules.config_of(subject).normalize)
    return rules.parser.candidate(subject, definition, is_new=is_new, normalize=normalize)


def match_in_subject(
    rules: Rules, subject: str, definition: SchemaDefinition, *, normalize: bool, deleted: bool = False
) -> Match | None:
    """Returns the newest version of a subject that has a schema. An exact match comes before other matches."""
    if definition.is_blank:
        return None
    candidate = candidate_of(rules, subject, definition, is_new=False, normalize=normalize)
    exact = exact_match(rules, subject, candidate, deleted=deleted)
    if exact is not None:
        return Match(exact, is_exact=True)
    versions = rules.state.versions(subject) if deleted else rules.state.live_versions(subject)
    return first_match(rules, candidate, versions)


def match_of_latest(
    rules: Rules, subject: str, definition: SchemaDefinition, *, normalize: bool
) -> Match | None:
    """Returns the newest version of a subject if it has a schema."""
    latest = rules.state.latest(subject)
    if latest is None or definition.is_blank:
        return None
    return first_match(
        rules, candidate_of(rules, subject, definition, is_new=False, normalize=normalize), [latest]
    )


def exact_match(
    rules: Rules, subject: str, candidate: Candidate, *, deleted: bool = False
) -> StoredSchema | None:
    """Returns the newest version of a subject that is equal to a schema. A live version comes first."""
    digest = digest_of(candidate.definition)
    versions = rules.state.versions(subject) if deleted else rules.state.live_versions(subject)
    matches = [old for old in versions if old.digest == digest and old.definition == candidate.definition]
    return max(matches, key=lambda schema: (not schema.deleted, schema.version), default=None)


def equal_schemas(rules: Rules, subject: str, candidate: Candidate) -> list[StoredSchema]:
    """Returns the versions of all subjects of the context that are equal to a schema.

    Some definitions have one digest, because the digest of empty metadata is also the digest of empty rules.
    """
    equal = rules.state.equal_schemas(context_of(subject), digest_of(candidate.definition))
    return [schema for schema in equal if schema.definition == candidate.definition]


def first_match(rules: Rules, candidate: Candidate, versions: Sequence[StoredSchema]) -> Match | None:
    """Returns the newest of the versions that has a schema. The versions are in ascending order."""
    for version in reversed(versions):
        if _is_match(rules, candidate, version):
            return Match(version, is_exact=False)
    return None


def _is_match(rules: Rules, candidate: Candidate, version: StoredSchema) -> bool:
    """Whether a version has the schema, except for the version property and the way in which it names references."""
    new, old = candidate.definition, version.definition
    if new.type != old.type or not _have_equal_annotations(new, old, version.version):
        return False
    # A client may send a schema with the text of all references in it.
    is_inlined = bool(old.references) and not new.references
    if not is_inlined and new.references != _with_versions(rules, version):
        return False
    if new.text == old.text:
        return True
    try:
        return candidate.parsed.is_equal(rules.parser.stored(version))
    except RegistryError:
        return False  # Another registry has written a schema that this one cannot parse.


def _have_equal_annotations(new: SchemaDefinition, old: SchemaDefinition, old_version: int) -> bool:
    """Whether two schemas have equal rules and metadata. Only one of them may have the version property."""
    new_number, old_number = version_of(new.metadata), version_of(old.metadata)
    new_metadata, old_metadata = new.metadata, old.metadata
    if new_number is None and old_number is not None:
        new_metadata = new_metadata or Metadata()
        old_metadata = without_version(old_metadata or Metadata())
    elif new_number is not None and old_number is None:
        if new_number != old_version:
            return False
        new_metadata = without_version(new_metadata or Metadata())
        old_metadata = old_metadata or Metadata()
    return new_metadata == old_metadata and new.rule_set == old.rule_set


def _with_versions(rules: Rules, version: StoredSchema) -> tuple[SchemaReference, ...]:
    """The references of a version. Another writer may have stored one without the number of its version."""
    return tuple(
        _with_version(rules, version.subject, reference) for reference in version.definition.references
    )


def _with_version(rules: Rules, subject: str, reference: SchemaReference) -> SchemaReference:
    latest = rules.state.latest(beside(subject, reference.subject)) if reference.version == LATEST else None
    return reference if latest is None else replace(reference, version=latest.version)
