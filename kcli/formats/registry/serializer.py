"""Serializes keys or values, and names their schema as Confluent's serializers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from kcli.formats.codec import FormatError, missing_library
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.documents import RegisterRequest, SchemaDefinition
from kcli.formats.registry.expiring import Expiring
from kcli.formats.registry.framing import Header, Place, guid_prefix, header_of, id_prefix
from kcli.formats.registry.rule_sets import RuleMode
from kcli.formats.registry.schemas import (
    LoadedSchema,
    RecordName,
    Schemas,
    guid_of,
    rules_of,
)
from kcli.formats.registry.serde_settings import SerdeSettings
from kcli.formats.registry.subjects import Subjects
from kcli.formats.schemas import CompatibilityPolicy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Encoder(Generic[T]):
    """Encodes values of one schema. `path` is the message path of Protobuf, and empty in the other formats."""

    encode: Callable[[T], bytes]
    path: bytes = b""


MakeEncoder = Callable[[LoadedSchema], Encoder[T]]


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """The serializer of one topic. `prefix` comes before each payload, and `header` is a header of each record."""

    schema: LoadedSchema
    encode: Callable[[T], bytes]
    prefix: bytes
    header: Header | None

    def serialize(self, value: T) -> bytes:
        """Encodes a value. Raises FormatError for a value that does not fit the schema."""
        try:
            return self.prefix + self.encode(value)
        except FormatError:
            raise
        except Exception as error:  # the libraries may raise any exception for a value of another type
            reason = str(error) or type(error).__name__
            raise FormatError(f"the value does not fit {self.schema.name}: {reason}") from error


class Serializer(Generic[T]):
    """Encodes the keys or the values of topics with one schema. `make` decides which values it takes.

    The schema is the own schema, which is registered or looked up, or the schema of `use.schema.id`, or the latest
    version of the subject. `subject` takes precedence over the strategy. Several threads may use a serializer.
    """

    def __init__(
        self,
        schemas: Schemas,
        settings: SerdeSettings,
        make: MakeEncoder[T],
        *,
        own: SchemaDefinition | None = None,
        subject: str | None = None,
        record_name: RecordName = lambda schema: None,
    ) -> None:
        self._schemas, self._settings, self._make = schemas, settings, make
        self._own, self._subject, self._record_name = own, subject, record_name
        chosen = settings.subjects
        self._subjects = Subjects(schemas.client, chosen.strategy, chosen.fallback, chosen.cluster_id)
        self._prepared: Expiring[str, Prepared[T]] = Expiring(settings.decision_seconds)

    def serialize(self, topic: str, value: T | None) -> tuple[bytes | None, Sequence[Header]]:
        """Returns the bytes of a value and the headers of its record. A null stays null.

        The first value of a topic waits for the registry. Raises FormatError and RegistryError.
        """
        if value is None:
            return None, ()
        prepared = self._prepared.get(topic) or waited(self.prepare(topic))
        return prepared.serialize(value), () if prepared.header is None else (prepared.header,)

    async def prepare(self, topic: str) -> Prepared[T]:
        """Chooses the schema of a topic, and registers it if the settings say so. Raises as `serialize` does."""
        if (prepared := self._prepared.get(topic)) is not None:
            return prepared
        schema = await self._schema(topic)
        _check_rules(schema)
        try:
            encoder = self._make(schema)
        except ImportError as error:
            raise missing_library(error) from None
        prefix, header = await self._framing(schema, encoder.path)
        prepared = Prepared(schema, encoder.encode, prefix, header)
        self._prepared.put(topic, prepared)
        return prepared

    async def _schema(self, topic: str) -> LoadedSchema:
        settings = self._settings
        own = None if self._own is None else await self._schemas.with_references(self._own, self._subject)
        if settings.schema_id is not None:
            chosen = await self._schemas.load(settings.schema_id, self._subject)
            return self._compatible(own, chosen)
        subject = self._subject or await self._subject_of(topic, own)
        if own is None or settings.use_latest:
            return self._compatible(own, await self._schemas.latest(subject, settings.latest_metadata))
        assert self._own is not None
        if settings.auto_register:
            request = RegisterRequest(self._own, propagate_schema_tags=settings.propagates_tags or None)
            answer = await self._schemas.client.register(subject, request, normalize=settings.normalize)
            # The configuration of the subject may have added rules to the own ones.
            rules = own.rules if answer.definition is None else rules_of(answer.definition.rule_set)
            registered = replace(own, id=answer.id, guid=guid_of(answer.guid), subject=subject, rules=rules)
        else:
            held = await self._schemas.client.look_up(subject, self._own, normalize=settings.normalize)
            rules = rules_of(held.definition.rule_set)
            registered = replace(own, id=held.id, guid=guid_of(held.guid), subject=subject, rules=rules)
        self._schemas.keep(registered)
        return registered

    async def _subject_of(self, topic: str, own: LoadedSchema | None) -> str:
        name = None if own is None else self._record_name(own)
        return await self._subjects.subject(topic, name, is_key=self._settings.is_key)

    def _compatible(self, own: LoadedSchema | None, chosen: LoadedSchema) -> LoadedSchema:
        """Returns the schema of the registry. Raises FormatError if it cannot read what the own schema writes."""
        if own is None or not self._settings.is_strict:
            return chosen
        if own.type is not chosen.type:
            raise FormatError(f"{chosen.name} is {chosen.type}, and the own schema is {own.type}")
        reasons = chosen.parsed.incompatibilities(own.parsed, CompatibilityPolicy.STRICT)
        if reasons:
            reason = reasons[0].message(reader=chosen.name, writer="the own schema")
            raise FormatError(f"{chosen.name} cannot read values of the own schema: {reason}")
        return chosen

    async def _framing(self, schema: LoadedSchema, path: bytes) -> tuple[bytes, Header | None]:
        if self._settings.place is Place.PREFIX:
            assert schema.id is not None, "a schema of the registry has an id"
            return id_prefix(schema.id) + path, None
        guid = schema.guid
        if guid is None:
            assert schema.id is not None, "a schema of the registry has an id"
            guid = guid_of((await self._schemas.client.schema_by_id(schema.id, subject=schema.subject)).guid)
        if guid is None:
            raise FormatError("the schema registry has no guids, and the header form needs them")
        return b"", (header_of(is_key=self._settings.is_key), guid_prefix(guid) + path)


def _check_rules(schema: LoadedSchema) -> None:
    """Raises FormatError if values must be changed or checked before they are written, for example encrypted.

    kcli executes no rules. Confluent's serializers fail too if they have no executor for the type of a rule.
    """
    for rule in schema.rules:
        if rule.mode in (RuleMode.WRITE, RuleMode.WRITEREAD):
            raise FormatError(
                f"{schema.name} has the rule {rule.name} of the type {rule.type}, and kcli executes no rules"
            )
