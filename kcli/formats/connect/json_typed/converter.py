"""The converter of JSON with a JSON Schema (io.confluent.connect.json.JsonSchemaConverter)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NoReturn

from kcli.config.definition import ConfigValue
from kcli.formats.codec import FormatError
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.json_encoder import java_escapes
from kcli.formats.connect.json_typed.decoding import JsonReaders
from kcli.formats.connect.json_typed.encoding import JsonWriters
from kcli.formats.connect.json_typed.settings import KEYS, JsonSettings
from kcli.formats.connect.json_typed.to_connect import SchemaReader
from kcli.formats.connect.json_typed.to_json import SchemaWriter
from kcli.formats.connect.registry_converter import ErrorTexts, RegistryConverter, registry_keys
from kcli.formats.connect.schema import Schema
from kcli.formats.json_schema.codec import VALUE_BYTES_MAX, json_codec
from kcli.formats.json_schema.language import parse
from kcli.formats.json_schema.text import write_json
from kcli.formats.registry.deserializer import Decode
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.payloads import json_schema_of
from kcli.formats.registry.schemas import LoadedSchema
from kcli.formats.registry.serializer import Encoder
from kcli.formats.schemas import SchemaType


class JsonSchemaConverter(RegistryConverter):
    """Writes values as JSON, with the id of their JSON Schema in a registry."""

    java_class = "io.confluent.connect.json.JsonSchemaConverter"
    config_def = registry_keys(*KEYS)
    error_texts = ErrorTexts(
        "Converting Kafka Connect data to byte[] failed due to serialization error of topic %s: ",
        "Converting byte[] to Kafka Connect data failed due to serialization error of topic %s: ",
        "Failed to access JSON Schema data from topic %s",
    )

    def take_settings(self, values: Mapping[str, ConfigValue]) -> None:
        self._mapping = JsonSettings.of(values)

    def is_null(self, schema: Schema | None) -> bool:
        """A null of an optional schema is the JSON null, and one with a default is this default, as in Java."""
        if schema is None:
            return True
        has_default = schema.default is not None and not self._mapping.ignores_defaults
        return not (schema.optional or has_default)

    def definition(self, schema: Schema | None) -> SchemaDefinition:
        try:
            text = write_json({**SchemaWriter(self._mapping).of(_present(schema))})
            return SchemaDefinition(parse(text, {}, is_new=True).canonical, SchemaType.JSON.value)
        except RecursionError:
            raise DataException("The schema is nested too deeply") from None

    def encoder(self, schema: Schema | None, registered: LoadedSchema) -> Encoder[object]:
        write = JsonWriters(self._mapping).of(_present(schema))
        check = self._check(registered)

        def encode(value: object) -> bytes:
            try:
                data = java_escapes(write(value)).encode()
            except RecursionError:
                raise DataException("The value is nested too deeply") from None
            check(data)
            return data

        return Encoder(encode)

    def decoder(
        self, writer: LoadedSchema, reader: LoadedSchema | None, version: int | None
    ) -> Decode[SchemaAndValue]:
        root = json_schema_of(reader or writer).node
        if root is None:
            raise DataException("The JSON Schema has no schema that Connect's data model can express")
        readers = JsonReaders()
        schema = SchemaReader(self._mapping, lambda inner, tree: JsonReaders().of(inner)(tree)).schema(
            root, version
        )
        read, check = readers.of(schema), self._check(writer)

        def decode(payload: bytes, path: bytes | None) -> SchemaAndValue:
            check(payload)
            try:
                return SchemaAndValue(schema, read(_tree(payload)))
            except RecursionError:
                raise DataException("The JSON value is nested too deeply") from None

        return decode

    def _check(self, schema: LoadedSchema) -> Callable[[bytes], object]:
        """Returns the function that raises ValueError for JSON that the schema does not permit."""
        if not self._settings.validates:
            return _accept
        return json_codec(json_schema_of(schema), validates=True).decode


def _accept(data: bytes) -> None:
    """Accepts a value that is not validated."""


def _tree(data: bytes) -> Any:
    if len(data) > VALUE_BYTES_MAX:
        raise FormatError(f"{len(data)} bytes, expected at most {VALUE_BYTES_MAX}")
    return _DECODER.decode(data.decode())


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataException("JsonSchemaConverter cannot write values without a schema")
    return schema
