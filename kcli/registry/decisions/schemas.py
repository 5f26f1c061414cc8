"""Parses schemas with the schemas to which they refer, and keeps the last ones parsed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kcli.formats.codec import FormatError
from kcli.formats.registry.contexts import beside
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.schemas import ParsedSchema, SchemaReference, SchemaType, language_of
from kcli.model.java_text import trim
from kcli.registry.decisions.errors import RegistryError, invalid_schema
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.state import RegistryState

LATEST = -1
"""The version of a reference that means the newest version."""

REFERENCES_MAX = 1_000
"""The most schemas to which a schema refers directly and indirectly, because the registry parses them all."""
REFERENCE_DEPTH_MAX = 100
"""The longest chain of references. Each link needs three nested calls, and Python allows 1,000 in all."""
CACHED_CHARACTERS_MAX = 2_000_000
"""The most characters of all cached schemas. A parsed schema needs 8 to 22 bytes for each character."""

_CacheKey = tuple[str, str, tuple[tuple[str, str], ...], bool]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schema of a request. Its text is canonical, and each reference has the number of its version."""

    parsed: ParsedSchema
    definition: SchemaDefinition


@dataclass(slots=True)
class SchemaParser:
    """Parses the schemas of requests and of the state.

    `strict_references` refuses a schema that reaches two versions of one reference. `cache_size` counts schemas.
    """

    state: RegistryState
    strict_references: bool = False
    cache_size: int = 1_000
    _cache: dict[_CacheKey, ParsedSchema] = field(default_factory=dict)
    _characters: int = 0

    def candidate(
        self, subject: str, definition: SchemaDefinition, *, is_new: bool, normalize: bool = False
    ) -> Candidate:
        """Parses the schema of a request. A new schema may not refer to deleted versions. Raises RegistryError."""
        references, resolved = self._resolved(subject, definition, is_new=is_new)
        parsed = self._parse(definition, resolved, is_new=is_new)
        if not parsed.canonical:
            # A Protobuf file of comments has no canonical text, and a record without a text is no schema.
            raise invalid_schema("Empty schema")
        if normalize:
            parsed = _normalized(parsed, definition)
            by_place = sorted(references, key=lambda reference: (reference.subject, reference.version))
            references = tuple(dict.fromkeys(by_place))
        return Candidate(parsed, replace(definition, text=parsed.canonical, references=references))

    def stored(self, schema: StoredSchema) -> ParsedSchema:
        """Parses a version. Raises RegistryError if another writer wrote an invalid schema."""
        _, resolved = self._resolved(schema.subject, schema.definition, is_new=False)
        return self._parse(schema.definition, resolved, is_new=False)

    def formatted(self, schema: StoredSchema, name: str) -> str:
        """The text of a version in a format. An empty name means the stored text. Raises RegistryError."""
        if not trim(name):
            return schema.definition.text
        try:
            return self.stored(schema).in_format(name)
        except FormatError as error:
            raise invalid(schema.definition, str(error)) from None

    def _parse(self, definition: SchemaDefinition, resolved: dict[str, str], *, is_new: bool) -> ParsedSchema:
        try:
            schema_type = SchemaType(definition.type)
        except ValueError:
            raise invalid_schema(f"Invalid schema type {definition.type}") from None
        key = (definition.type, definition.text, tuple(resolved.items()), is_new)
        parsed = self._cache.pop(key, None)
        if parsed is None:
            try:
                parsed = language_of(schema_type).parse(definition.text, resolved, is_new=is_new)
            except FormatError as error:
                raise invalid(definition, str(error)) from None
            self._characters += _characters(key)
        self._cache[key] = parsed
        while len(self._cache) > self.cache_size or self._characters > CACHED_CHARACTERS_MAX:
            oldest = next(iter(self._cache))
            del self._cache[oldest]
            self._characters -= _characters(oldest)
        return parsed

    def _resolved(
        self, subject: str, definition: SchemaDefinition, *, is_new: bool
    ) -> tuple[tuple[SchemaReference, ...], dict[str, str]]:
        """The references with their versions, and the texts of all referenced schemas by the names of references."""
        if not definition.references:
            return (), {}
        collector = _References(
            self.state, definition, strict=self.strict_references, allow_deleted=not is_new
        )
        return collector.collect(subject, definition.references, depth=1), collector.texts


@dataclass(slots=True)
class _References:
    """Collects the schemas to which one schema refers. A schema comes after those that it uses."""

    state: RegistryState
    referrer: SchemaDefinition
    strict: bool
    allow_deleted: bool
    texts: dict[str, str] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)

    def collect(
        self, subject: str, references: tuple[SchemaReference, ...], *, depth: int
    ) -> tuple[SchemaReference, ...]:
        if references and depth > REFERENCE_DEPTH_MAX:
            raise invalid(
                self.referrer, f"the references form a chain of more than {REFERENCE_DEPTH_MAX} schemas"
            )
        return tuple(self._reference(subject, reference, depth) for reference in references)

    def _reference(self, subject: str, reference: SchemaReference, depth: int) -> SchemaReference:
        target = self._target(beside(subject, reference.subject), reference.version)
        reference = replace(reference, version=target.version)
        name, version = reference.name, self._versions.get(reference.name)
        if version is None:
            self._versions[name] = target.version
            if len(self._versions) > REFERENCES_MAX:
                raise invalid(self.referrer, f"the schema refers to more than {REFERENCES_MAX} schemas")
            self.collect(target.subject, target.definition.references, depth=depth + 1)
            self.texts[name] = target.definition.text
        elif self.strict and version != target.version:
            versions = f"version {version} and version {target.version}"
            raise invalid(self.referrer, f'Conflicting reference versions for "{name}": {versions}')
        return reference

    def _target(self, subject: str, version: int) -> StoredSchema:
        target = self.state.latest(subject) if version == LATEST else self.state.version(subject, version)
        if target is None or (target.deleted and not self.allow_deleted):
            place = f'subject "{subject}" and version {version}'
            raise invalid(self.referrer, f"No schema reference found for {place}")
        return target


def _normalized(parsed: ParsedSchema, definition: SchemaDefinition) -> ParsedSchema:
    try:
        return parsed.normalized()
    except FormatError as error:
        raise invalid(definition, str(error)) from None


def invalid(definition: SchemaDefinition, reason: str) -> RegistryError:
    """The error of a schema that its language refuses."""
    return invalid_schema(f"Invalid schema of type {definition.type}, details: {reason}")


def _characters(key: _CacheKey) -> int:
    _, text, resolved, _ = key
    return len(text) + sum(len(name) + len(referenced) for name, referenced in resolved)
