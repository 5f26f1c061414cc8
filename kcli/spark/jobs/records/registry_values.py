"""Decodes and encodes values with schemas of a registry, in columns.

The driver asks the registry once for the reader's schema, which decides about the columns, and registers the schema of
what the job writes. Each Python worker asks the registry once for each schema with which values were written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.command.options import option
from kcli.config.definition import ConfigError
from kcli.formats.codec import FormatError
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.errors import RegistryError
from kcli.formats.registry.framing import Place
from kcli.formats.registry.payloads import json_encoder, record_name, value_encoder
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings, unused_registry_keys
from kcli.formats.registry.serializer import Serializer
from kcli.formats.registry.settings import URL, RegistrySettings
from kcli.formats.registry.subjects import Subjects
from kcli.formats.schemas import SchemaType
from kcli.spark.jobs.shared.endpoints import client_properties
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import JobOptions

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

TYPES = {"avro": SchemaType.AVRO, "protobuf": SchemaType.PROTOBUF, "json-schema": SchemaType.JSON}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySpec:
    """A registry, and what the options say about the schema of values. `schema` is the path of a schema file."""

    settings: RegistrySettings
    type: SchemaType
    schema: str | None = None
    subject: str | None = None
    message: str | None = None
    serde: SerdeSettings


@dataclass(frozen=True, kw_only=True)
class RegistryOptions(JobOptions):
    """The options of a job that reads or writes values with schemas of a registry."""

    schema_registry: str | None = option(
        "The URLs of the schema registry for values in the formats avro, protobuf and json-schema, separated by "
        "commas. The file of --command-config may have the keys of Confluent's clients, such as basic.auth.user.info.",
        metavar="URL",
    )

    def registry_spec(
        self, value_format: str, *, schema: str | None, subject: str | None, message: str | None
    ) -> RegistrySpec | None:
        """Returns the registry of values in a format, or None if they need no registry. Raises JobError."""
        if value_format not in TYPES or self.schema_registry is None:
            return None
        texts = {**client_properties(self), URL: self.schema_registry}
        for sentence in unused_registry_keys(texts):
            _log.warning("%s", sentence)
        try:
            return RegistrySpec(
                settings=RegistrySettings.of(texts),
                type=TYPES[value_format],
                schema=schema,
                subject=subject,
                message=message,
                serde=SerdeSettings.of(texts),
            )
        except ConfigError as error:
            raise JobError(f"--schema-registry: {error.located()}") from None


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """How the workers decode the values of a topic: the reader's schema and its Arrow type, as Spark takes it."""

    spec: RegistrySpec
    reader: LoadedSchema
    type: pa.StructType

    def decoder(self) -> Callable[[pa.Array], pa.Array]:
        """Returns a function for a worker, from values to structs of `error` and `record`."""
        import pyarrow as pa

        from kcli.formats.registry.columns import ColumnDeserializer

        spec = self.spec
        columns = ColumnDeserializer(
            Schemas(RegistryClient(spec.settings)),
            self.reader,
            message=spec.message,
            subject=self.reader.subject,
        )

        def decode(values: pa.Array) -> pa.Array:
            decoded = columns.decode(values)
            return pa.StructArray.from_arrays([decoded.errors, decoded.values], names=["error", "record"])

        return decode


def read_columns(spec: RegistrySpec, topic: str | None) -> ReadColumns:
    """Asks the registry for the reader's schema of a topic, unless a file has it. `topic` is None for several topics,
    whose values then need a subject. Raises JobError."""
    from kcli.formats.registry.columns import column_type

    if topic is None and spec.subject is None:
        raise JobError("values of several topics with schemas of a registry need --value-subject")
    schemas = Schemas(RegistryClient(spec.settings))
    try:
        reader = waited(_reader(schemas, spec, topic))
        if reader.type is not spec.type:
            raise JobError(f"{reader.name} is {reader.type}, and the format is {spec.type}")
        return ReadColumns(spec, reader, _record_type(column_type(reader, spec.message), reader))
    except (FormatError, RegistryError) as error:
        raise JobError(f"values of {topic or spec.subject}: {error}") from None


async def _reader(schemas: Schemas, spec: RegistrySpec, topic: str | None) -> LoadedSchema:
    chosen = spec.serde.subjects
    subjects = Subjects(schemas.client, chosen.strategy, chosen.fallback, chosen.cluster_id)
    subject = spec.subject or await subjects.subject(topic or "", None, is_key=False)
    if spec.schema is None:
        return await schemas.latest(subject, spec.serde.latest_metadata)
    return await schemas.with_references(SchemaDefinition(_text(spec.schema), spec.type.value), subject)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: {error}") from None


def _record_type(type_: pa.DataType, schema: LoadedSchema) -> pa.StructType:
    import pyarrow as pa

    if not pa.types.is_struct(type_):
        raise JobError(f"{schema.name} must be a record, so that its values have columns")
    return type_


@dataclass(frozen=True, slots=True)
class WrittenValues:
    """How the workers encode values: the registered schema, and the bytes before each value."""

    spec: RegistrySpec
    schema: LoadedSchema
    prefix: bytes

    def encoder(self) -> Callable[[pa.Array], pa.Array]:
        """Returns a function for a worker, from rows to values."""
        import pyarrow as pa

        from kcli.formats.registry.columns import row_encoder

        spec, prefix = self.spec, self.prefix
        encode = row_encoder(self.schema, spec.message, validates=spec.serde.validates)

        def encode_rows(rows: pa.Array) -> pa.Array:
            return pa.array([prefix + encode(row) for row in rows.to_pylist()], pa.binary())

        return encode_rows

    def text_encoder(self) -> Callable[[pa.Array], pa.Array]:
        """Returns a function for a worker, from JSON texts to values, as the console producer encodes them."""
        import pyarrow as pa

        spec, prefix = self.spec, self.prefix
        encode = json_encoder(self.schema, spec.message, validates=spec.serde.validates).encode

        def encode_texts(texts: pa.Array) -> pa.Array:
            values = [None if text is None else prefix + encode(text) for text in texts.to_pylist()]
            return pa.array(values, pa.binary())

        return encode_texts

    def columns(self) -> pa.StructType:
        """Returns the Arrow type of the rows. Raises JobError if the schema is no record."""
        from kcli.formats.registry.columns import column_type

        try:
            return _record_type(column_type(self.schema, self.spec.message), self.schema)
        except FormatError as error:
            raise JobError(str(error)) from None


def written_values(spec: RegistrySpec, topic: str) -> WrittenValues:
    """Registers the schema of the values of a topic, or looks it up, as the properties say. Without a schema file, the
    latest version of the subject is used. Raises JobError."""
    if spec.serde.place is not Place.PREFIX:
        raise JobError("a job writes the id of a schema before each value, not in a header")
    own = None if spec.schema is None else SchemaDefinition(_text(spec.schema), spec.type.value)
    schemas = Schemas(RegistryClient(spec.settings))
    serializer = Serializer(
        schemas,
        spec.serde,
        lambda schema: value_encoder(schema, spec.message),
        own=own,
        subject=spec.subject,
        record_name=lambda schema: record_name(schema, spec.message),
    )
    try:
        prepared = waited(serializer.prepare(topic))
    except (FormatError, RegistryError) as error:
        raise JobError(f"values of {topic}: {error}") from None
    return WrittenValues(spec, prepared.schema, prepared.prefix)
