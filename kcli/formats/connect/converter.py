"""The interface of converters between values and bytes (org.apache.kafka.connect.storage.Converter)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, OneOf
from kcli.formats.connect.schema import Schema


class SchemaAndValue(NamedTuple):
    schema: Schema | None
    value: object


NULL = SchemaAndValue(None, None)

CONVERTER_TYPE = ConfigKey(
    "converter.type",
    ConfigType.STRING,
    None,
    OneOf(("key", "value", "header")),
    Importance.LOW,
    "What the converter is for: keys, values or headers. The worker sets this key.",
    required=True,
)
"""The key that every converter of Kafka Connect declares."""


class Converter:
    """Converts keys or values of records. `from_connect` and `to_connect` raise DataException."""

    version: ClassVar[str | None] = None
    java_class: ClassVar[str | None] = None
    config_def: ClassVar[ConfigDef]

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """Takes the configuration, without the prefix `key.converter.` or `value.converter.`. Raises ConfigError."""

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError

    def close(self) -> None:
        """Frees what `configure` has opened."""


class HeaderConverter:
    """Converts the values of headers. `from_connect_header` and `to_connect_header` raise DataException."""

    version: ClassVar[str | None] = None
    java_class: ClassVar[str | None] = None
    config_def: ClassVar[ConfigDef]

    def configure(self, config: Mapping[str, str]) -> None:
        """Takes the configuration, without the prefix `header.converter.`. Raises ConfigError."""

    def from_connect_header(
        self, topic: str, header: str, schema: Schema | None, value: object
    ) -> bytes | None:
        raise NotImplementedError

    def to_connect_header(self, topic: str, header: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError

    def close(self) -> None:
        """Frees what `configure` has opened."""


class GeneralConverter(Converter, HeaderConverter):
    """A converter of keys and values that converts headers in the same way."""

    config_def: ClassVar[ConfigDef] = ConfigDef((CONVERTER_TYPE,))

    def configure(self, config: Mapping[str, str], *, is_key: bool = False) -> None:
        """Takes the configuration. Raises ConfigError."""

    def from_connect_header(
        self, topic: str, header: str, schema: Schema | None, value: object
    ) -> bytes | None:
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, header: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect(topic, data)

    def close(self) -> None:
        """Does nothing, because a converter of this kind opens nothing."""
