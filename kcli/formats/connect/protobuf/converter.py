"""The converter of Protobuf (io.confluent.connect.protobuf.ProtobufConverter)."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.definition import ConfigValue
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.protobuf.data import ProtobufData
from kcli.formats.connect.protobuf.settings import KEYS, ProtobufSettings
from kcli.formats.connect.registry_converter import ErrorTexts, RegistryConverter, registry_keys
from kcli.formats.connect.schema import Schema
from kcli.formats.registry.deserializer import Decode
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.payloads import protobuf_schema_of
from kcli.formats.registry.schemas import LoadedSchema
from kcli.formats.registry.serializer import Encoder
from kcli.formats.schemas import SchemaType


class ProtobufConverter(RegistryConverter):
    """Writes values in Protobuf, with the id of their schema in a registry."""

    java_class = "io.confluent.connect.protobuf.ProtobufConverter"
    config_def = registry_keys(*KEYS)
    error_texts = ErrorTexts(
        "Failed to serialize Protobuf data from topic %s:",
        "Failed to deserialize data for topic %s to Protobuf:",
        "Failed to access Protobuf data from topic %s",
    )

    def take_settings(self, values: Mapping[str, ConfigValue]) -> None:
        self._data = ProtobufData(ProtobufSettings.of(values))

    def is_null(self, schema: Schema | None) -> bool:
        """A null has no bytes, as in Java, even if the schema requires a value."""
        return True

    def definition(self, schema: Schema | None) -> SchemaDefinition:
        return SchemaDefinition(self._data.text_of(schema), SchemaType.PROTOBUF.value)

    def encoder(self, schema: Schema | None, registered: LoadedSchema) -> Encoder[object]:
        return Encoder(*self._data.encoder(schema, protobuf_schema_of(registered)))

    def decoder(
        self, writer: LoadedSchema, reader: LoadedSchema | None, version: int | None
    ) -> Decode[SchemaAndValue]:
        return self._data.decoder(
            protobuf_schema_of(writer), None if reader is None else protobuf_schema_of(reader), version
        )
