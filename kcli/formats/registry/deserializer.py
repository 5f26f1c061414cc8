"""Deserializes keys or values that a registry's serializer has written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kcli.formats.codec import FormatError
from kcli.formats.registry.expiring import Expiring
from kcli.formats.registry.framing import Framed, Header, SchemaKey, framed
from kcli.formats.registry.schemas import LoadedSchema, RecordName, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings
from kcli.formats.registry.subjects import Strategy, Subjects

T = TypeVar("T")

Decode = Callable[[bytes, bytes | None], T]
"""Decodes a payload. The second argument is the message path of Protobuf, if a header contains it."""

MakeDecode = Callable[[LoadedSchema, LoadedSchema | None], Decode[T]]
"""Makes the function that decodes values of a writer's schema, as values of a reader's schema if there is one."""

REASON_MAX = 200
"""The most characters of a library's error, which may contain a part of the value."""


class Deserializer(Generic[T]):
    """Decodes the keys or the values of topics. `make` decides what the values become.

    With a reader's schema, or with `use.latest.version`, each value is converted to this schema. Several threads may
    use a deserializer.
    """

    def __init__(
        self,
        schemas: Schemas,
        settings: SerdeSettings,
        make: MakeDecode[T],
        *,
        reader: LoadedSchema | None = None,
        record_name: RecordName = lambda schema: None,
    ) -> None:
        self._schemas, self._settings, self._make, self._reader = schemas, settings, make, reader
        self._record_name = record_name
        chosen = settings.subjects
        self._subjects = Subjects(schemas.client, chosen.strategy, chosen.fallback, chosen.cluster_id)
        self._decoders: Expiring[tuple[str, SchemaKey], Decode[T]] = Expiring(settings.decision_seconds)

    def deserialize(self, topic: str, raw: bytes | None, headers: Iterable[Header] | None = None) -> T | None:
        """Decodes a value. A null stays null. The first value of a schema waits for the registry.

        Raises FormatError for a value that cannot be decoded, and RegistryError.
        """
        if raw is None:
            return None
        parts = self.split(raw, headers)
        decode = self._decoders.get((topic, parts.schema))
        if decode is None:
            decode = asyncio.run(self.prepare(topic, parts.schema))
        return decoded(decode, parts)

    def split(self, raw: bytes, headers: Iterable[Header] | None = None) -> Framed:
        """Splits a value into the key of its schema and its payload. Raises UnknownMagicByte."""
        return framed(raw, headers, is_key=self._settings.is_key)

    async def prepare(self, topic: str, key: SchemaKey) -> Decode[T]:
        """Returns the function that decodes the values of a schema in a topic. Raises as `deserialize` does."""
        if (decode := self._decoders.get((topic, key))) is not None:
            return decode
        subject = await self._subject(topic)
        writer = await self._schemas.load(key, subject)
        decode = self._make(writer, await self._reader_of(topic, writer, subject))
        self._decoders.put((topic, key), decode)
        return decode

    async def _subject(self, topic: str) -> str | None:
        """The subject whose context gives ids their meaning. None if only the record's name would tell the subject."""
        try:
            return await self._subjects.subject(topic, None, is_key=self._settings.is_key)
        except FormatError:
            return None

    async def _reader_of(self, topic: str, writer: LoadedSchema, subject: str | None) -> LoadedSchema | None:
        if self._reader is not None or not self._settings.use_latest:
            return self._reader
        if self._settings.subjects.strategy in (Strategy.RECORD, Strategy.TOPIC_RECORD):
            subject = await self._subjects.subject(
                topic, self._record_name(writer), is_key=self._settings.is_key
            )
        if subject is None:
            raise FormatError(f"use.latest.version: topic {topic} has no subject")
        return await self._schemas.latest(subject)


def decoded(decode: Decode[T], parts: Framed) -> T:
    """Decodes a payload. Raises FormatError for a value that does not fit its schema."""
    try:
        return decode(parts.payload, parts.path)
    except FormatError:
        raise
    except Exception as error:  # the libraries may raise any exception for malformed bytes
        reason = (str(error) or type(error).__name__)[:REASON_MAX]
        raise FormatError(f"the value does not fit schema {parts.schema}: {reason}") from error
