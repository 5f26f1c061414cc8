"""The state of a registry, which only the records of `_schemas` change.

A leader decides on this state, writes records, and reads them before its next decision. So a leader, a follower and a
registry that has just started reach the same state by the same code.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from kcli.formats.registry.contexts import DEFAULT_CONTEXT, GLOBAL_CONTEXT, Subject, beside, context_of
from kcli.formats.registry.documents import ConfigDocument, SchemaDefinition
from kcli.model.java_json import parse_json
from kcli.model.java_order import text_order
from kcli.registry.decisions.records import (
    ContextKey,
    Entry,
    IgnoredKey,
    InvalidRecord,
    KeyType,
    Mode,
    RecordKey,
    SchemaKey,
    ScopeKey,
    StoredSchema,
    key_bytes,
    parse_config,
    parse_delete_subject,
    parse_key,
    parse_mode,
    parse_schema,
    schema_value,
)

K = TypeVar("K")
V = TypeVar("V")

_Keys = dict[SchemaKey, None]

_NO_VALUES = (b"", b"null")
"""Values that delete a key. Karapace writes an empty value, because its producer takes no missing one."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that has no effect, because it is invalid or conflicts with another record.

    A leader writes the entries of `repair`, which restore the value that the record has overwritten in the topic.
    """

    reason: str
    repair: tuple[Entry, ...] = ()


@dataclass(slots=True)
class _Context:
    """The versions of a context by their ids and digests. `max_id` counts permanently deleted versions too."""

    by_id: dict[int, _Keys] = field(default_factory=dict)
    by_digest: dict[bytes, _Keys] = field(default_factory=dict)
    max_id: int = 0


@dataclass(slots=True)
class RegistryState:
    """Schemas, configs and modes. Subjects are normalized texts, and None stands for the default context."""

    configs: dict[str | None, ConfigDocument] = field(default_factory=dict)
    modes: dict[str | None, Mode] = field(default_factory=dict)
    _subjects: dict[str, dict[int, StoredSchema]] = field(default_factory=dict)
    _contexts: dict[str, _Context] = field(default_factory=dict)
    _referrers: dict[SchemaKey, _Keys] = field(default_factory=dict)
    _named_contexts: list[str] = field(default_factory=list)
    """In their order, because a look-up without a context looks into all of them."""
    _forms: dict[RecordKey, tuple[bytes, ...]] = field(default_factory=dict)

    # What the records say.

    def version(self, subject: str, version: int) -> StoredSchema | None:
        """A version of a subject, which may be deleted."""
        return self._subjects.get(subject, {}).get(version)

    def versions(self, subject: str) -> list[StoredSchema]:
        """All versions of a subject, with deleted ones, from the oldest to the newest."""
        versions = self._subjects.get(subject, {})
        return [versions[number] for number in sorted(versions)]

    def live_versions(self, subject: str) -> list[StoredSchema]:
        return [schema for schema in self.versions(subject) if not schema.deleted]

    def latest(self, subject: str) -> StoredSchema | None:
        """The newest version that is not deleted."""
        live = [schema for schema in self._subjects.get(subject, {}).values() if not schema.deleted]
        return max(live, key=lambda schema: schema.version, default=None)

    def subjects(self) -> Iterable[str]:
        """All subjects that have a version, which may be deleted, in no particular order."""
        return self._subjects.keys()

    @property
    def version_count(self) -> int:
        """The number of versions of all subjects, with deleted ones."""
        return sum(map(len, self._subjects.values()))

    def has_subjects(self, scope: str | None, *, deleted: bool) -> bool:
        """Whether a subject of a scope has a version. `deleted` counts deleted versions too."""
        return any(
            deleted or not schema.deleted
            for subject in self.subjects_in(scope)
            for schema in self._subjects[subject].values()
        )

    def subjects_in(self, scope: str | None) -> list[str]:
        """The subjects of a scope: a subject, a context, or all contexts if the scope is None or the global context."""
        if scope is None:
            return list(self._subjects)
        parsed = Subject.of(scope)
        if parsed.name:
            return [scope] if scope in self._subjects else []
        if parsed.context == GLOBAL_CONTEXT:
            return list(self._subjects)
        return [subject for subject in self._subjects if context_of(subject) == parsed.context]

    def holders(self, context: str, schema_id: int) -> Iterator[StoredSchema]:
        """The versions of a context that have an id."""
        return self._stored(self._context(context).by_id.get(schema_id, {}))

    def equal_schemas(self, context: str, digest: bytes) -> Iterator[StoredSchema]:
        """The versions of a context that have a digest."""
        return self._stored(self._context(context).by_digest.get(digest, {}))

    def referrers(self, key: SchemaKey) -> Iterator[StoredSchema]:
        """The versions that refer to a version, with deleted ones."""
        return self._stored(self._referrers.get(key, {}))

    def max_id(self, context: str) -> int:
        """The highest id that a context has had, or 0."""
        return self._context(context).max_id

    def contexts(self) -> list[str]:
        """The names of all contexts, of which the default context is the first."""
        return [DEFAULT_CONTEXT, *self._named_contexts]

    def has_context(self, context: str) -> bool:
        at = bisect.bisect_left(self._named_contexts, text_order(context), key=text_order)
        return self._named_contexts[at : at + 1] == [context]

    def entries(self, key: RecordKey, value: bytes | None) -> tuple[Entry, ...]:
        """The records that set the value of a key, with the bytes that the key already has in the topic.

        If the topic has a key in several forms, compaction keeps them all. So every other form is deleted.
        """
        forms = self._forms.get(key) or (key_bytes(key),)
        return (*((form, None) for form in forms[:-1]), (forms[-1], value))

    # How records change it.

    def replay(self, key: bytes, value: bytes | None, offset: int, timestamp_ms: int) -> Skipped | None:
        """Applies a record. Returns a reason if the record has no effect."""
        if value in _NO_VALUES:
            value = None
        try:
            parsed = parse_key(key)
            was_present = self._is_present(parsed)
            skipped = self._apply(parsed, key, value, offset, timestamp_ms)
        except InvalidRecord as error:
            return Skipped(f"the record at offset {offset} is invalid: {error}")
        if skipped is None:
            self._note_form(parsed, key, was_present=was_present, is_deletion=value is None)
        return skipped

    def _apply(
        self, key: RecordKey, raw_key: bytes, value: bytes | None, offset: int, timestamp_ms: int
    ) -> Skipped | None:
        match key:
            case SchemaKey():
                return self._replay_schema(key, raw_key, value, offset, timestamp_ms)
            case ScopeKey():
                self._replay_scope(key, value)
            case ContextKey(context):
                self._replay_context(context, is_named=value is not None and context != DEFAULT_CONTEXT)
            case IgnoredKey(KeyType.ASSOCIATION):
                return Skipped(
                    f"the record at offset {offset} is an association, which this registry does not have"
                )
            case IgnoredKey():
                pass
        return None

    def _replay_context(self, context: str, *, is_named: bool) -> None:
        if is_named and not self.has_context(context):
            bisect.insort(self._named_contexts, context, key=text_order)
        elif not is_named and self.has_context(context):
            self._named_contexts.remove(context)

    def _replay_schema(
        self, key: SchemaKey, raw_key: bytes, value: bytes | None, offset: int, timestamp_ms: int
    ) -> Skipped | None:
        old = self.version(key.subject, key.version)
        if value is None:
            if old is not None:
                self._remove(old)
            return None
        schema = parse_schema(key, value, offset, timestamp_ms)
        context = context_of(key.subject)
        holder = next(self.holders(context, schema.id), None)
        if holder is not None and not _have_equal_texts(holder.definition, schema.definition):
            reason = (
                f"the record at offset {offset} gives the id {schema.id} of {holder.key} to another schema"
            )
            return Skipped(reason, ((raw_key, None if old is None else schema_value(old)),))
        if old is not None:
            self._remove(old)
        self._add(context, schema)
        return None

    def _replay_scope(self, key: ScopeKey, value: bytes | None) -> None:
        match key.type:
            case KeyType.CONFIG:
                _set(self.configs, key.subject, None if value is None else parse_config(value))
            case KeyType.MODE:
                _set(self.modes, key.subject, None if value is None else parse_mode(value))
            case KeyType.DELETE_SUBJECT:
                if value is not None:
                    self._delete_subject(key.subject or "", parse_delete_subject(value))
            case _:
                if value is not None:
                    self._clear_subjects(key.subject)

    def _delete_subject(self, subject: str, last_version: int) -> None:
        versions = self._subjects.get(subject, {})
        for number, schema in versions.items():
            if number <= last_version and not schema.deleted:
                versions[number] = schema.soft_deleted()

    def _clear_subjects(self, scope: str | None) -> None:
        """Forgets the deleted versions of a scope, because a mode of the scope becomes IMPORT."""
        for subject in self.subjects_in(scope):
            for schema in self.versions(subject):
                if schema.deleted:
                    self._remove(schema)

    def _add(self, context_name: str, schema: StoredSchema) -> None:
        key = schema.key
        context = self._contexts.setdefault(context_name, _Context())
        context.by_id.setdefault(schema.id, {})[key] = None
        context.by_digest.setdefault(schema.digest, {})[key] = None
        context.max_id = max(context.max_id, schema.id, 1)
        for target in referenced_keys(schema):
            self._referrers.setdefault(target, {})[key] = None
        self._subjects.setdefault(schema.subject, {})[schema.version] = schema

    def _remove(self, schema: StoredSchema) -> None:
        key = schema.key
        context = self._contexts[context_of(schema.subject)]
        _discard(context.by_id, schema.id, key)
        _discard(context.by_digest, schema.digest, key)
        for target in referenced_keys(schema):
            _discard(self._referrers, target, key)
        del self._subjects[schema.subject][schema.version]
        if not self._subjects[schema.subject]:
            del self._subjects[schema.subject]

    def _note_form(self, key: RecordKey, form: bytes, *, was_present: bool, is_deletion: bool) -> None:
        """Remembers the bytes of a key, unless they are the only form in the topic and are ours."""
        own = key_bytes(key)
        forms = self._forms.pop(key, (own,) if was_present else ())
        others = tuple(other for other in forms if other != form)
        forms = others if is_deletion else (*others, form)
        if forms and forms != (own,):
            self._forms[key] = forms

    def _is_present(self, key: RecordKey) -> bool:
        match key:
            case SchemaKey(subject, version):
                return self.version(subject, version) is not None
            case ScopeKey(KeyType.CONFIG, subject):
                return subject in self.configs
            case ScopeKey(KeyType.MODE, subject):
                return subject in self.modes
            case ContextKey(context):
                return self.has_context(context)
            case _:
                return False

    def _context(self, context: str) -> _Context:
        return self._contexts.get(context) or _Context()

    def _stored(self, keys: _Keys) -> Iterator[StoredSchema]:
        return (self._subjects[key.subject][key.version] for key in keys)


def referenced_keys(schema: StoredSchema) -> list[SchemaKey]:
    """The versions to which a version refers directly."""
    references = schema.definition.references
    return [
        SchemaKey(beside(schema.subject, reference.subject), reference.version) for reference in references
    ]


def _have_equal_texts(one: SchemaDefinition, other: SchemaDefinition) -> bool:
    """Whether one id may stand for both schemas. Karapace gives one id to texts whose members have another order."""
    if one.text == other.text:
        return True
    try:
        return one.type == other.type and _sorted_json(one.text) == _sorted_json(other.text)
    except (ValueError, RecursionError):
        return False


def _sorted_json(text: str) -> str:
    return json.dumps(parse_json(text), sort_keys=True)


def _set(values: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _discard(index: dict[K, _Keys], name: K, key: SchemaKey) -> None:
    """Removes a key from an index, in which it may be only once."""
    keys = index.get(name, {})
    keys.pop(key, None)
    if not keys:
        index.pop(name, None)
