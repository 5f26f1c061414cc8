"""Lists of subjects, versions, schemas, ids and contexts."""

from __future__ import annotations

import enum
from collections.abc import Callable

from kcli.formats.registry.contexts import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    Subject,
    beside,
    context_of,
    normalized,
)
from kcli.formats.registry.digests import digest_of_guid
from kcli.formats.registry.documents import ContextId, RegisteredSchema, SubjectVersion
from kcli.formats.registry.rule_sets import RuleSet
from kcli.model.java_order import text_order
from kcli.registry.decisions.errors import schema_not_found, subject_not_found
from kcli.registry.decisions.lookup import find_id, find_version
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.rules import Rules


class Deleted(enum.Enum):
    """Which versions a list has: those that are not deleted, all, or only deleted ones."""

    EXCLUDED = "excluded"
    INCLUDED = "included"
    ONLY = "only"

    def takes(self, *, deleted: bool) -> bool:
        return self is Deleted.INCLUDED or deleted == (self is Deleted.ONLY)


def subjects(rules: Rules, prefix: str = ALL_CONTEXTS, deleted: Deleted = Deleted.EXCLUDED) -> list[str]:
    """Returns the subjects that begin with a prefix, sorted. A subject is deleted if all its versions are."""
    names = list(filter(_prefix_test(prefix), rules.state.subjects()))
    return sorted(
        (name for name in names if deleted.takes(deleted=rules.state.latest(name) is None)), key=text_order
    )


def versions(
    rules: Rules, subject: str, deleted: Deleted = Deleted.EXCLUDED, *, negative: bool = False
) -> list[int]:
    """Returns the versions of a subject. `negative` lists all, and deleted ones as negative numbers."""
    subject = normalized(subject)
    if not rules.state.has_subjects(subject, deleted=deleted is not Deleted.EXCLUDED):
        raise subject_not_found(subject)
    stored = rules.state.versions(subject)
    if negative:
        return [-schema.version if schema.deleted else schema.version for schema in stored]
    return [schema.version for schema in stored if deleted.takes(deleted=schema.deleted)]


def schemas(
    rules: Rules,
    prefix: str = "",
    *,
    deleted: bool = False,
    latest_only: bool = False,
    rule_type: str = "",
    with_aliases: bool = False,
) -> list[RegisteredSchema]:
    """Returns the versions of all subjects that begin with a prefix, sorted by subject and version."""
    aliases = _aliases(rules, prefix) if with_aliases else {}
    names = set(filter(_prefix_test(prefix), rules.state.subjects())) | aliases.keys()
    return [
        schema.document(aliases=tuple(aliases.get(name, ())))
        for name in sorted(names, key=text_order)
        for schema in _listed(rules, name, deleted=deleted, latest_only=latest_only)
        if not rule_type or _has_rule(schema.definition.rule_set, rule_type)
    ]


def versions_of_id(
    rules: Rules, schema_id: int, subject: str | None = None, *, deleted: bool = False
) -> list[SubjectVersion]:
    """Returns the versions that have an id. Raises RegistryError if the id does not exist."""
    schema = find_id(rules, schema_id, subject)
    if schema is None:
        raise schema_not_found()
    holders = rules.state.holders(context_of(schema.subject), schema_id)
    keys = sorted(holder.key for holder in holders if deleted or not holder.deleted)
    return [SubjectVersion(key.subject, key.version) for key in keys]


def subjects_of_id(
    rules: Rules, schema_id: int, subject: str | None = None, *, deleted: bool = False
) -> list[str]:
    """Returns the subjects that have an id. Raises RegistryError if the id does not exist."""
    held = versions_of_id(rules, schema_id, subject, deleted=deleted)
    return list(dict.fromkeys(version.subject for version in held))


def ids_of_guid(rules: Rules, guid: str) -> list[ContextId]:
    """Returns the ids that a schema has in all contexts."""
    digest = digest_of_guid(guid) or b""
    return [
        ContextId(context, schema_id)
        for context in rules.state.contexts()
        for schema_id in sorted({schema.id for schema in rules.state.equal_schemas(context, digest)})
    ]


def referenced_by(rules: Rules, subject: str, version: int, *, deleted: bool = False) -> list[int]:
    """Returns the ids of the schemas that refer to a version. Raises RegistryError."""
    target = find_version(rules, normalized(subject), version, deleted=True)
    referrers = (schema for schema in rules.state.referrers(target.key) if deleted or not schema.deleted)
    ids = sorted({(context_of(schema.subject), schema.id) for schema in referrers})
    return [schema_id for _, schema_id in ids]


def contexts(rules: Rules, prefix: str = "") -> list[str]:
    """Returns the names of contexts that begin with a prefix. The default context is first."""
    return [context for context in rules.state.contexts() if context.startswith(prefix)]


def _listed(rules: Rules, subject: str, *, deleted: bool, latest_only: bool) -> list[StoredSchema]:
    stored = rules.state.versions(subject) if deleted else rules.state.live_versions(subject)
    return stored[-1:] if latest_only else stored


def _prefix_test(prefix: str) -> Callable[[str], bool]:
    """Returns a function that tests whether a subject begins with a prefix.

    After a wildcard, the prefix is that of a name in any context.
    """
    if ALL_CONTEXTS in prefix:
        name = prefix.partition(ALL_CONTEXTS)[2]
        return lambda subject: Subject.of(subject).name.startswith(name)
    wanted = Subject.of(prefix)
    if prefix.startswith(":.") and prefix.count(":") == 1:  # The prefix ends inside the name of a context.
        return lambda subject: context_of(subject).startswith(wanted.context)
    if wanted.context != DEFAULT_CONTEXT:
        return lambda subject: subject.startswith(wanted.text)
    return lambda subject: subject.startswith(wanted.name) and context_of(subject) == DEFAULT_CONTEXT


def _aliases(rules: Rules, prefix: str) -> dict[str, list[str]]:
    """The subjects that begin with a prefix and are aliases, by the subject that they mean."""
    has_prefix = _prefix_test(prefix)
    aliases: dict[str, list[str]] = {}
    for scope, config in rules.state.configs.items():
        if scope is not None and config.alias and has_prefix(scope):
            aliases.setdefault(beside(scope, config.alias), []).append(scope)
    return aliases


def _has_rule(rule_set: RuleSet | None, rule_type: str) -> bool:
    if rule_set is None:
        return False
    rules = (*rule_set.domain_rules, *rule_set.migration_rules, *rule_set.encoding_rules)
    return any(rule.type == rule_type for rule in rules)
