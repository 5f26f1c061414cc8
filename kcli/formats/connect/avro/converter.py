"""The converter of Avro (io.confluent.connect.avro.AvroConverter)."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.definition import ConfigValue
from kcli.formats.connect.avro.data import AvroData
from kcli.formats.connect.avro.settings import KEYS, AvroSettings
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.registry_converter import ErrorTexts, RegistryConverter, registry_keys
from kcli.formats.connect.schema import Schema
from kcli.formats.registry.deserializer import Decode
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.payloads import avro_schema_of
from kcli.formats.registry.schemas import LoadedSchema
from kcli.formats.registry.serializer import Encoder


class AvroConverter(RegistryConverter):
    """Writes values in Avro, with the id of their schema in a registry."""

    java_class = "io.confluent.connect.avro.AvroConverter"
    config_def = registry_keys(*KEYS)
    error_texts = ErrorTexts(
        "Failed to serialize Avro data from topic %s:",
        "Failed to deserialize data for topic %s to Avro:",
        "Failed to access Avro data from topic %s",
    )

    def take_settings(self, values: Mapping[str, ConfigValue]) -> None:
        self._data = AvroData(AvroSettings.of(values))

    def definition(self, schema: Schema | None) -> SchemaDefinition:
        return SchemaDefinition(self._data.text_of(schema))

    def encoder(self, schema: Schema | None, registered: LoadedSchema) -> Encoder[object]:
        return Encoder(self._data.encoder(schema, avro_schema_of(registered)))

    def decoder(
        self, writer: LoadedSchema, reader: LoadedSchema | None, version: int | None
    ) -> Decode[SchemaAndValue]:
        decode = self._data.decoder(
            avro_schema_of(writer), None if reader is None else avro_schema_of(reader), version
        )
        return lambda payload, path: decode(payload)
