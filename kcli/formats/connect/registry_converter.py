"""What the converters have in common whose schemas are in a registry: the client, the memory, and the errors.

A schema is chosen, registered or loaded once for each topic. Later values only need the functions that encode and
decode them.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, NoReturn

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigValue
from kcli.formats.codec import FormatError
from kcli.formats.connect.converter import CONVERTER_TYPE, NULL, Converter, SchemaAndValue
from kcli.formats.connect.data_keys import CACHE_SIZE
from kcli.formats.connect.errors import (
    ConnectException,
    DataException,
    RetriableException,
    SerializationException,
)
from kcli.formats.connect.schema import Schema
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.deserializer import Decode, Deserializer
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.errors import NOT_FOUND, RegistryError, RegistryRefused, RegistrySilent
from kcli.formats.registry.expiring import Expiring
from kcli.formats.registry.framing import GUID_BYTES, ID_BYTES, ID_MAGIC, Place, framed
from kcli.formats.registry.payloads import record_name
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import SERDE_KEYS, SerdeSettings, unused_registry_keys
from kcli.formats.registry.serializer import Encoder, Prepared, Serializer
from kcli.formats.registry.settings import CLIENT_KEYS, RegistrySettings

LOG = logging.getLogger("kcli.connect.converter")

NULL_VALUE: Final = "Found null value for non-optional schema"
_REFUSED = ("ignore.modern.dialects",)
"""Keys of the converters alone that change values, and that kcli cannot obey."""


def registry_keys(*keys: ConfigKey) -> ConfigDef:
    """Returns the keys of a converter: those of the registry's client, of the serializers, and `keys`."""
    return ConfigDef((CONVERTER_TYPE, *CLIENT_KEYS.values(), *SERDE_KEYS.values(), *keys))


@dataclass(frozen=True, slots=True)
class ErrorTexts:
    """The texts of Java's errors. `%s` stands for the topic."""

    writing: str
    reading: str
    access: str


class RegistryConverter(Converter):
    """A converter whose schemas are in a registry. A subclass maps schemas and values of one schema language."""

    error_texts: ClassVar[ErrorTexts]

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """Takes the configuration. Raises ConfigError."""
        values = self.config_def.parse({**config, CONVERTER_TYPE.name: "key" if is_key else "value"})
        self._settings = serde_settings(config, is_key=is_key)
        self._schemas = Schemas(RegistryClient(RegistrySettings.of(config)))
        self._deserializer: Deserializer[SchemaAndValue] = Deserializer(
            self._schemas, self._settings, self._unversioned, record_name=record_name
        )
        size = values[CACHE_SIZE]
        assert isinstance(size, int), "the key has a default"
        seconds = self._settings.decision_seconds
        self._writers: Expiring[tuple[str, Schema | None], Prepared[object]] = Expiring(seconds, size)
        self._readers: Expiring[tuple[str, bytes], Decode[SchemaAndValue]] = Expiring(seconds, size)
        self.take_settings(values)

    @abstractmethod
    def take_settings(self, values: Mapping[str, ConfigValue]) -> None:
        """Takes the settings of the mapping. Raises ConfigError."""

    @abstractmethod
    def definition(self, schema: Schema | None) -> SchemaDefinition:
        """Returns the schema to register for values of a schema. Raises DataException."""

    @abstractmethod
    def encoder(self, schema: Schema | None, registered: LoadedSchema) -> Encoder[object]:
        """Returns the function that encodes values of a schema. Raises DataException and FormatError."""

    @abstractmethod
    def decoder(
        self, writer: LoadedSchema, reader: LoadedSchema | None, version: int | None
    ) -> Decode[SchemaAndValue]:
        """Returns the function that decodes values. `version` is that of the writer's schema in the registry.

        Raises DataException and FormatError.
        """

    # Values to bytes

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        prepared = self._writers.get((topic, schema))
        if prepared is None or value is None:
            if value is None and self.is_null(schema):
                return None
            prepared = prepared or self._prepared(topic, schema)
        try:
            return prepared.prefix + prepared.encode(value)
        except ConnectException:
            raise
        except Exception as error:  # a library may raise any exception for a value that does not fit
            self._fail(error, topic, self.error_texts.writing)

    def is_null(self, schema: Schema | None) -> bool:
        """Whether a null of this schema has no bytes. Raises DataException if the schema does not permit a null."""
        if schema is not None and not schema.optional:
            raise DataException(NULL_VALUE)
        return True

    def _prepared(self, topic: str, schema: Schema | None) -> Prepared[object]:
        with self._java_errors(topic, self.error_texts.writing):
            serializer: Serializer[object] = Serializer(
                self._schemas,
                self._settings,
                lambda registered: self.encoder(schema, registered),
                own=self.definition(schema),
                record_name=record_name,
            )
            prepared = asyncio.run(serializer.prepare(topic))
        self._writers.put((topic, schema), prepared)
        return prepared

    # Bytes to values

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        end = ID_BYTES if data[:1] == _ID_MAGIC else GUID_BYTES
        prefix = data[:end]
        decode = self._readers.get((topic, prefix))
        if decode is None:
            decode = self._reader(topic, data, prefix)
        try:
            return decode(data[end:], None)
        except ConnectException:
            raise
        except Exception as error:  # the libraries may raise any exception for malformed bytes
            self._fail(error, topic, self.error_texts.reading)

    def _reader(self, topic: str, data: bytes, prefix: bytes) -> Decode[SchemaAndValue]:
        with self._java_errors(topic, self.error_texts.reading):
            decode = asyncio.run(self._new_reader(topic, data))
        self._readers.put((topic, prefix), decode)
        return decode

    async def _new_reader(self, topic: str, data: bytes) -> Decode[SchemaAndValue]:
        writer, reader = await self._deserializer.schemas_of(topic, framed(data).schema)
        return self.decoder(writer, reader, await self._version(topic, writer))

    async def _version(self, topic: str, writer: LoadedSchema) -> int | None:
        """Returns the version of a schema in the subject of its topic. None if the subject does not have the schema,
        for example because the topic is a copy. Java refuses such values."""
        subject = await self._deserializer.subject_of(topic, writer)
        definition = SchemaDefinition(writer.text, writer.type.value, writer.references)
        try:
            return (await self._schemas.client.look_up(subject, definition, deleted=True)).version
        except RegistryRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _unversioned(self, writer: LoadedSchema, reader: LoadedSchema | None) -> Decode[SchemaAndValue]:
        return self.decoder(writer, reader, None)

    # Errors

    @contextmanager
    def _java_errors(self, topic: str, text: str) -> Iterator[None]:
        """Turns errors of the registry and of schemas to those of Confluent's converters."""
        try:
            yield
        except (FormatError, RegistryError) as error:
            self._fail(error, topic, text)

    def _fail(self, error: Exception, topic: str, text: str) -> NoReturn:
        message = text % topic
        if isinstance(error, RegistrySilent):
            raise RetriableException(message) from error
        if isinstance(error, RegistryRefused) and error.code // 100 == 4:
            raise ConfigError(f"{self.error_texts.access % topic} : {error}") from error
        cause = SerializationException(str(error) or type(error).__name__)
        cause.__cause__ = error
        raise DataException(message) from cause


_ID_MAGIC: Final = bytes((ID_MAGIC,))


def serde_settings(config: Mapping[str, str], *, is_key: bool) -> SerdeSettings:
    """Reads the settings of the serializer and the deserializer. Raises ConfigError."""
    settings = SerdeSettings.of(config, is_key=is_key)
    part = "key" if is_key else "value"
    if settings.place is not Place.PREFIX:
        raise ConfigError(
            f"{part}.schema.id.serializer: a converter of kcli writes the id before the value, not in a header"
        )
    for name in _REFUSED:
        if config.get(name, "false").lower() != "false":
            raise ConfigError(f"{name}: kcli's converters do not have this setting", key=name)
    for text in unused_registry_keys(config):
        LOG.warning("%s", text)
    return settings
