"""The options of jobs for values with schemas of a registry, and how the workers encode such values.

The driver registers the schema of what a job writes, once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kcli.command.options import option
from kcli.config.definition import ConfigError
from kcli.formats.codec import FormatError, Value
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.deserializer import REASON_MAX
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.errors import RegistryError
from kcli.formats.registry.framing import Header, header_of
from kcli.formats.registry.payloads import json_encoder, record_name, value_encoder
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings, unused_registry_keys
from kcli.formats.registry.serializer import Serializer
from kcli.formats.registry.settings import URL, RegistrySettings
from kcli.spark.jobs.shared.endpoints import client_properties
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import JobOptions
from kcli.spark.registry_values import (
    TYPES,
    ReadColumns,
    RegistrySpec,
    read_columns,
    record_type,
    schema_text,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

T = TypeVar("T")

_log = logging.getLogger(__name__)


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


def job_columns(spec: RegistrySpec, topic: str | None) -> ReadColumns:
    """Returns the columns of the values of a topic. Raises JobError."""
    try:
        return read_columns(spec, topic)
    except (FormatError, RegistryError) as error:
        raise JobError(f"values of {topic or spec.subject or 'several topics'}: {error}") from None


@dataclass(frozen=True, slots=True)
class WrittenValues:
    """How the workers encode values: the registered schema, and the bytes before each value or the header of each
    record, which name this schema."""

    spec: RegistrySpec
    schema: LoadedSchema
    prefix: bytes
    header: Header | None

    def encoder(self) -> Callable[[pa.Array], pa.Array]:
        """Returns a function for a worker, from rows to values. A row that does not fit the schema is an error."""
        import pyarrow as pa

        encode = self._encode_row()
        return lambda rows: pa.array([encode(row) for row in rows.to_pylist()], pa.binary())

    def row_encoder(self) -> Callable[[pa.Array], pa.Array]:
        """Returns a function for a worker, from rows to structs of `error` and `value`. A null has neither."""
        return _checked(self.schema, self._encode_row())

    def text_encoder(self) -> Callable[[pa.Array], pa.Array]:
        """Returns the same function for JSON texts, which are encoded as in the console producer."""
        spec, prefix = self.spec, self.prefix
        encode = json_encoder(self.schema, spec.message, validates=spec.serde.validates).encode

        def encode_text(text: str) -> bytes:
            return prefix + encode(text)

        return _checked(self.schema, encode_text)

    def _encode_row(self) -> Callable[[Value], bytes]:
        from kcli.formats.registry.columns import row_encoder

        prefix = self.prefix
        encode = row_encoder(self.schema, self.spec.message, validates=self.spec.serde.validates)
        return lambda row: prefix + encode(row)

    def headers(self, before: Column | None) -> Column | None:
        """Returns the headers of records. A header of another schema, which a record had before, is left out."""
        from pyspark.sql.functions import array, coalesce, concat, filter, lit, struct

        name = header_of(is_key=False)
        others = None if before is None else filter(before, lambda header: header["key"] != name)
        if self.header is None:
            return others
        own = array(struct(lit(name).alias("key"), lit(self.header[1]).alias("value")))
        return own if others is None else coalesce(concat(others, own), own)

    def columns(self) -> pa.StructType:
        """Returns the Arrow type of the rows. Raises JobError if the schema is no record."""
        from kcli.formats.registry.columns import column_type

        try:
            return record_type(column_type(self.schema, self.spec.message), self.schema)
        except FormatError as error:
            raise JobError(str(error)) from None


def written_values(spec: RegistrySpec, topic: str) -> WrittenValues:
    """Registers the schema of the values of a topic, or looks it up, as the properties say. Without a schema file, the
    latest version of the subject is used. Raises JobError."""
    own = None if spec.schema is None else SchemaDefinition(schema_text(spec.schema), spec.type.value)
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
    return WrittenValues(spec, prepared.schema, prepared.prefix, prepared.header)


def _checked(schema: LoadedSchema, encode: Callable[[T], bytes]) -> Callable[[pa.Array], pa.Array]:
    """Returns a function from Arrow values to structs of `error` and `value`."""
    import pyarrow as pa

    def encode_all(inputs: pa.Array) -> pa.Array:
        values: list[bytes | None] = []
        errors: list[str | None] = []
        for value in inputs.to_pylist():
            try:
                values.append(None if value is None else encode(value))
                errors.append(None)
            except Exception as error:  # the libraries may raise any exception for a value of another type
                values.append(None)
                reason = (str(error) or type(error).__name__)[:REASON_MAX]
                errors.append(f"the row does not fit {schema.name}: {reason}")
        return pa.StructArray.from_arrays(
            [pa.array(errors, pa.string()), pa.array(values, pa.binary())], names=["error", "value"]
        )

    return encode_all
