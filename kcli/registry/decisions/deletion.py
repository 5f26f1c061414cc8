"""Deletions of versions, subjects and contexts.

A soft deletion hides a version, and its id stays readable. A permanent deletion removes a version that is hidden.
"""

from __future__ import annotations

from kcli.formats.registry.contexts import Subject, normalized
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.errors import (
    context_not_empty,
    not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from kcli.registry.decisions.records import (
    ContextKey,
    Entry,
    KeyType,
    ScopeKey,
    StoredSchema,
    delete_subject_value,
    schema_value,
)
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.schemas import LATEST


def delete_version(rules: Rules, subject: str, version: int, *, permanent: bool = False) -> Decision[int]:
    """Deletes a version. -1 is the newest version. The answer is the number of the version. Raises RegistryError."""
    subject = normalized(subject)
    schema = rules.state.latest(subject) if version == LATEST else rules.state.version(subject, version)
    if schema is None and not rules.state.versions(subject):
        raise subject_not_found(subject)
    if schema is None:
        raise version_not_found(version)
    if schema.deleted and not permanent:
        raise version_soft_deleted(subject, version)
    check_not_readonly(rules, subject)
    if any(permanent or not referrer.deleted for referrer in rules.state.referrers(schema.key)):
        raise reference_exists(subject, schema.version)
    if permanent and not schema.deleted:
        raise version_not_soft_deleted(subject, schema.version)
    if not permanent:
        return Decision(schema.version, rules.state.entries(schema.key, schema_value(schema.soft_deleted())))
    entries = rules.state.entries(schema.key, None)
    is_last = len(rules.state.versions(subject)) == 1
    return Decision(schema.version, (*entries, *(_remnants(rules, subject) if is_last else ())))


def delete_subject(rules: Rules, subject: str, *, permanent: bool = False) -> Decision[tuple[int, ...]]:
    """Deletes all versions of a subject. The answer has their numbers. Raises RegistryError."""
    subject = normalized(subject)
    stored, live = rules.state.versions(subject), rules.state.live_versions(subject)
    if not stored:
        raise subject_not_found(subject)
    if not (permanent or live):
        raise subject_soft_deleted(subject)
    check_not_readonly(rules, subject)
    schemas = stored if permanent else live
    for schema in schemas:
        _check_not_referenced(rules, schema, permanent=permanent)
        if permanent and not schema.deleted:
            raise subject_not_soft_deleted(subject)
    numbers = tuple(schema.version for schema in schemas)
    if not permanent:
        # The record replaces the one of an earlier deletion, so it must cover the versions of that one too. An import
        # may have added lower versions since.
        key = ScopeKey(KeyType.DELETE_SUBJECT, subject)
        return Decision(numbers, rules.state.entries(key, delete_subject_value(subject, stored[-1].version)))
    # The newest version is deleted first, because it may refer to older versions of the subject.
    entries = tuple(entry for schema in reversed(schemas) for entry in rules.state.entries(schema.key, None))
    return Decision(numbers, (*entries, *_remnants(rules, subject)))


def delete_context(rules: Rules, context: str) -> Decision[None]:
    """Deletes a context without subjects, for example `:.team:`. Raises RegistryError."""
    scope = normalized(context)
    if rules.state.has_subjects(scope, deleted=True):
        raise context_not_empty(scope)
    name = Subject.of(scope).context
    return Decision(
        None, rules.state.entries(ContextKey(name), None) if rules.state.has_context(name) else ()
    )


def check_not_readonly(rules: Rules, scope: str | None) -> None:
    """Raises RegistryError if the mode of a scope forbids changes."""
    if rules.mode_of(scope).is_readonly:
        prefix = "" if scope is None else Subject.of(scope).prefix
        name = "null" if scope is None else scope
        raise not_permitted(f"Subject {name} in context {prefix} is in read-only mode")


def _remnants(rules: Rules, subject: str) -> tuple[Entry, ...]:
    """Deletes the mode and the config of a subject that has no versions any more."""
    keys = ((KeyType.MODE, subject in rules.state.modes), (KeyType.CONFIG, subject in rules.state.configs))
    return tuple(
        entry
        for key_type, is_present in keys
        if is_present
        for entry in rules.state.entries(ScopeKey(key_type, subject), None)
    )


def _check_not_referenced(rules: Rules, schema: StoredSchema, *, permanent: bool) -> None:
    """Schemas of the subject itself may refer to a version, because they are deleted with it."""
    for referrer in rules.state.referrers(schema.key):
        if referrer.subject != schema.subject and (permanent or not referrer.deleted):
            raise reference_exists(schema.subject, schema.version)
