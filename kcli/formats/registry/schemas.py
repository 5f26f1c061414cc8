"""The schemas of a registry in memory, each with the texts of its references.

An id and a guid never change their meaning, so their schemas stay in memory, up to a limit. The latest version of a
subject changes, so it is requested each time.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kcli.formats.codec import FormatError, missing_library
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.contexts import context_of
from kcli.formats.registry.documents import RegisteredSchema, SchemaDefinition
from kcli.formats.registry.framing import SchemaKey
from kcli.formats.registry.references import resolved_references
from kcli.formats.registry.rule_sets import Rule, RuleSet
from kcli.formats.schemas import ParsedSchema, SchemaReference, SchemaType, language_of

SCHEMAS_MAX = 1_000
"""The most schemas in memory. A topic has a few schemas."""

DESCRIPTION_MAX = 100


@dataclass(frozen=True)
class LoadedSchema:
    """A schema with all that its language needs to parse it. Spark can pickle it for its workers."""

    type: SchemaType
    text: str
    references: tuple[SchemaReference, ...] = ()
    resolved: Mapping[str, str] = field(default_factory=dict)
    """The texts of all references by name, each after those that it uses."""
    id: int | None = None
    guid: uuid.UUID | None = None
    subject: str | None = None
    version: int | None = None
    rules: tuple[Rule, ...] = ()
    """The rules that a client applies to values, without those that are disabled."""

    @cached_property
    def parsed(self) -> ParsedSchema:
        """The schema in its language. Raises FormatError if the language cannot read it."""
        try:
            return language_of(self.type).parse(self.text, self.resolved, is_new=False)
        except FormatError as error:
            raise FormatError(f"{self.name} is invalid: {error}") from None
        except ImportError as error:
            raise missing_library(error) from None

    @property
    def name(self) -> str:
        """The schema in messages."""
        if self.id is not None:
            return f"schema {self.id}"
        return "the schema" if self.guid is None else f"schema {self.guid}"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "parsed"}


RecordName = Callable[[LoadedSchema], str | None]
"""Returns the name of a schema, for the subject strategies that use it."""


def schema_type(text: str) -> SchemaType:
    """Returns a type by its name. Raises FormatError for a type that kcli does not know."""
    try:
        return SchemaType(text)
    except ValueError:
        raise FormatError(f"unknown schema type {text[:DESCRIPTION_MAX]}") from None


class Schemas:
    """Loads schemas from a registry. Several threads may use it."""

    def __init__(self, client: RegistryClient) -> None:
        self.client = client
        self._known: OrderedDict[tuple[str, SchemaKey], LoadedSchema] = OrderedDict()

    def known(self, key: SchemaKey, subject: str | None = None) -> LoadedSchema | None:
        """Returns a schema if it is in memory."""
        return self._known.get(_place(key, subject))

    async def load(self, key: SchemaKey, subject: str | None = None) -> LoadedSchema:
        """Returns the schema with an id or a guid. The context of the subject gives an id its meaning.

        Raises FormatError if kcli cannot read the schema, and RegistryError.
        """
        if (known := self.known(key, subject)) is not None:
            return known
        if isinstance(key, uuid.UUID):
            answer = await self.client.schema_by_guid(key)
        else:
            answer = await self.client.schema_by_id(key, subject=subject)
        schema = await self._loaded(
            answer.definition,
            subject=answer.subject or subject,
            version=answer.version,
            id=None if isinstance(key, uuid.UUID) else key,
            guid=key if isinstance(key, uuid.UUID) else guid_of(answer.guid),
        )
        return self._keep(_place(key, subject), schema)

    async def latest(self, subject: str, metadata: Sequence[tuple[str, str]] = ()) -> LoadedSchema:
        """Requests the latest version of a subject, whose metadata has these properties. Raises as `load` does."""
        if not metadata:
            return await self.version(subject, LATEST)
        return await self._of_subject(
            subject, await self.client.latest_with_metadata(subject, dict(metadata))
        )

    async def version(self, subject: str, version: Version) -> LoadedSchema:
        """Requests a version of a subject. Raises as `load` does."""
        return await self._of_subject(subject, await self.client.version(subject, version))

    async def _of_subject(self, subject: str, answer: RegisteredSchema) -> LoadedSchema:
        return await self._loaded(
            answer.definition,
            subject=subject,
            version=answer.version,
            id=answer.id,
            guid=guid_of(answer.guid),
        )

    async def with_references(self, definition: SchemaDefinition, subject: str | None = None) -> LoadedSchema:
        """Returns a schema that is not registered yet, with the texts of its references."""
        return await self._loaded(definition, subject=subject)

    def keep(self, schema: LoadedSchema) -> None:
        """Keeps a schema that this process has registered, so that it is not requested."""
        for key in (schema.id, schema.guid):
            if key is not None:
                self._keep(_place(key, schema.subject), schema)

    async def _loaded(
        self,
        definition: SchemaDefinition,
        *,
        subject: str | None,
        version: int | None = None,
        id: int | None = None,
        guid: uuid.UUID | None = None,
    ) -> LoadedSchema:
        kind = schema_type(definition.type)
        resolved = await resolved_references(self.client, definition.references, subject)
        rules = rules_of(definition.rule_set)
        return LoadedSchema(
            kind, definition.text, definition.references, resolved, id, guid, subject, version, rules
        )

    def _keep(self, place: tuple[str, SchemaKey], schema: LoadedSchema) -> LoadedSchema:
        self._known[place] = schema
        while len(self._known) > SCHEMAS_MAX:
            self._known.popitem(last=False)
        return schema


def _place(key: SchemaKey, subject: str | None) -> tuple[str, SchemaKey]:
    """The key of the memory. An id belongs to a context, and a guid is the same in all contexts."""
    return (context_of(subject or "") if isinstance(key, int) else "", key)


def rules_of(rule_set: RuleSet | None) -> tuple[Rule, ...]:
    """Returns the rules about values that are not disabled."""
    if rule_set is None:
        return ()
    return tuple(rule for rule in (*rule_set.domain_rules, *rule_set.encoding_rules) if not rule.disabled)


def guid_of(text: str | None) -> uuid.UUID | None:
    """The guid of an answer. A registry before 8.0 has none."""
    if text is None:
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        raise FormatError(f"the guid of a schema is invalid: {text[:DESCRIPTION_MAX]}") from None
