"""Deserializes keys or values that a registry's serializer has written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kcli.formats.codec import FormatError, missing_library
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.errors import NOT_FOUND, RegistryRefused
from kcli.formats.registry.expiring import Expiring
from kcli.formats.registry.framing import ID_BYTES, Framed, Header, SchemaKey, framed
from kcli.formats.registry.schemas import LoadedSchema, RecordName, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings
from kcli.formats.registry.subjects import Strategy, Subjects

T = TypeVar("T")

Decode = Callable[[bytes, bytes | None], T]
"""Decodes a payload. The second argument is the message path of Protobuf, if a header contains it."""

MakeDecode = Callable[[LoadedSchema, LoadedSchema | None], Decode[T]]
"""Makes the function that decodes values of a writer's schema, as values of a reader's schema if there is one."""

BULK_MIN = 100
"""The fewest values of one schema that are decoded at once. The columns of fewer values cost more than they save."""

REASON_MAX = 200
"""The most characters of a library's error, which may contain a part of the value."""


@dataclass(frozen=True, slots=True)
class BulkDecode(Generic[T]):
    """A `Decode` that can also decode many payloads at once. `many` returns None for a payload that `one` must decode
    or refuse."""

    one: Decode[T]
    many: Callable[[Sequence[bytes], Sequence[bytes | None]], Sequence[T | None]]

    def __call__(self, payload: bytes, path: bytes | None) -> T:
        return self.one(payload, path)


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
        return decoded(self._decode_of(topic, parts.schema), parts)

    def deserialize_all(
        self, values: Sequence[tuple[str, bytes | None, Iterable[Header] | None]]
    ) -> list[T | FormatError | RegistryRefused | None]:
        """Decodes many values, each with its topic and its headers. An error is in the place of its value.

        Raises RegistryError if the registry does not answer.
        """
        results: list[T | FormatError | RegistryRefused | None] = [None] * len(values)
        groups: dict[tuple[str, SchemaKey], _Group] = {}
        for nth, (topic, raw, headers) in enumerate(values):
            if raw is None:
                continue
            key: SchemaKey
            path: bytes | None = None
            if raw[:1] == b"\0" and len(raw) >= ID_BYTES and not headers:  # as most values are
                key, payload = int.from_bytes(raw[1:ID_BYTES], "big"), raw[ID_BYTES:]
            else:
                try:
                    parts = self.split(raw, headers)
                except FormatError as error:
                    results[nth] = error
                    continue
                key, payload, path = parts.schema, parts.payload, parts.path
            if (group := groups.get((topic, key))) is None:
                group = groups[topic, key] = _Group()
            group.rows.append(nth)
            group.payloads.append(payload)
            group.paths.append(path)
        for (topic, key), group in groups.items():
            try:
                decode = self._decode_of(topic, key)
            except (FormatError, RegistryRefused) as error:
                if isinstance(error, RegistryRefused) and error.status != NOT_FOUND:
                    raise
                for nth in group.rows:
                    results[nth] = error
            else:
                _decode_group(decode, key, group, results)
        return results

    def _decode_of(self, topic: str, key: SchemaKey) -> Decode[T]:
        """The function that decodes the values of a schema. Waits for the registry if it is new."""
        return self._decoders.get((topic, key)) or waited(self.prepare(topic, key))

    def split(self, raw: bytes, headers: Iterable[Header] | None = None) -> Framed:
        """Splits a value into the key of its schema and its payload. Raises UnknownMagicByte."""
        return framed(raw, headers, is_key=self._settings.is_key)

    async def prepare(self, topic: str, key: SchemaKey) -> Decode[T]:
        """Returns the function that decodes the values of a schema in a topic. Raises as `deserialize` does."""
        if (decode := self._decoders.get((topic, key))) is not None:
            return decode
        writer, reader = await self.schemas_of(topic, key)
        try:
            decode = self._make(writer, reader)
        except ImportError as error:
            raise missing_library(error) from None
        self._decoders.put((topic, key), decode)
        return decode

    async def schemas_of(self, topic: str, key: SchemaKey) -> tuple[LoadedSchema, LoadedSchema | None]:
        """Returns the schema with which values of a topic were written, and the reader's schema if there is one."""
        subject = await self._subject(topic)
        writer = await self._schemas.load(key, subject)
        return writer, await self._reader_of(topic, writer, subject)

    async def subject_of(self, topic: str, writer: LoadedSchema) -> str:
        """Returns the subject of a schema in a topic. Raises FormatError and RegistryError."""
        return await self._subjects.subject(topic, self._record_name(writer), is_key=self._settings.is_key)

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
            subject = await self.subject_of(topic, writer)
        if subject is None:
            raise FormatError(f"use.latest.version: topic {topic} has no subject")
        return await self._schemas.latest(subject, self._settings.latest_metadata)


@dataclass(frozen=True, slots=True)
class _Group:
    """The values of one schema: their places in the results, their payloads and their message paths."""

    rows: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    paths: list[bytes | None] = field(default_factory=list)


def _decode_group(
    decode: Decode[T], key: SchemaKey, group: _Group, results: list[T | FormatError | RegistryRefused | None]
) -> None:
    """Decodes the values of one schema to their places in `results`."""
    values: Sequence[T | None] = ()
    if isinstance(decode, BulkDecode) and len(group.rows) >= BULK_MIN:
        values = decode.many(group.payloads, group.paths)
    if not values:
        values = [None] * len(group.rows)
    for nth, payload, path, value in zip(group.rows, group.payloads, group.paths, values, strict=True):
        if value is not None:
            results[nth] = value
            continue
        try:
            results[nth] = decoded(decode, Framed(key, payload, path))
        except FormatError as error:
            results[nth] = error


def decoded(decode: Decode[T], parts: Framed) -> T:
    """Decodes a payload. Raises FormatError for a value that does not fit its schema."""
    try:
        return decode(parts.payload, parts.path)
    except FormatError:
        raise
    except Exception as error:  # the libraries may raise any exception for malformed bytes
        reason = (str(error) or type(error).__name__)[:REASON_MAX]
        raise FormatError(f"the value does not fit schema {parts.schema}: {reason}") from error
