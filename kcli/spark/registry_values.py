"""Decodes values with schemas of a registry to columns.

The driver asks the registry once for the reader's schema, which decides about the columns. Each Python worker asks the
registry once for each schema with which values were written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings
from kcli.formats.registry.settings import RegistrySettings
from kcli.formats.registry.subjects import Subjects
from kcli.formats.schemas import SchemaType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

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


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """How the workers decode the values of a topic: the reader's schema and its Arrow type, as Spark takes it."""

    spec: RegistrySpec
    reader: LoadedSchema
    type: pa.StructType

    def decoder(self) -> Callable[[pa.Array, pa.Array], pa.Array]:
        """Returns a function for a worker, from values and headers to structs of `error` and `record`."""
        import pyarrow as pa

        from kcli.formats.registry.columns import ColumnDeserializer

        spec = self.spec
        columns = ColumnDeserializer(
            Schemas(RegistryClient(spec.settings)),
            self.reader,
            message=spec.message,
            subject=self.reader.subject,
        )

        def decode(values: pa.Array, headers: pa.Array) -> pa.Array:
            decoded = columns.decode(values, headers)
            return pa.StructArray.from_arrays([decoded.errors, decoded.values], names=["error", "record"])

        return decode

    @property
    def field(self) -> StructField:
        """The column `value` of the data source."""
        from pyspark.sql.types import StructField

        return StructField("value", self.spark_type())

    def spark_type(self) -> StructType:
        """The type of the values in Spark."""
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StructType

        columns = from_arrow_type(self.type)
        assert isinstance(columns, StructType)
        return columns


def read_columns(spec: RegistrySpec, topic: str | None) -> ReadColumns:
    """Asks the registry for the reader's schema of a topic, unless a file has it. `topic` is None for several topics,
    whose values then need a subject. Raises FormatError and RegistryError."""
    from kcli.formats.registry.columns import column_type

    if topic is None and spec.subject is None:
        raise FormatError("values of several topics with schemas of a registry need a subject")
    reader = waited(_reader(Schemas(RegistryClient(spec.settings)), spec, topic))
    if reader.type is not spec.type:
        raise FormatError(f"{reader.name} is {reader.type}, and the format is {spec.type}")
    return ReadColumns(spec, reader, record_type(column_type(reader, spec.message), reader))


async def _reader(schemas: Schemas, spec: RegistrySpec, topic: str | None) -> LoadedSchema:
    chosen = spec.serde.subjects
    subjects = Subjects(schemas.client, chosen.strategy, chosen.fallback, chosen.cluster_id)
    subject = spec.subject or await subjects.subject(topic or "", None, is_key=False)
    if spec.schema is None:
        return await schemas.latest(subject, spec.serde.latest_metadata)
    return await schemas.with_references(SchemaDefinition(schema_text(spec.schema), spec.type.value), subject)


def schema_text(path: str) -> str:
    """Reads the file of a schema. Raises FormatError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: {error}") from None


def record_type(type_: pa.DataType, schema: LoadedSchema) -> pa.StructType:
    """Returns the type of records. Raises FormatError for another type."""
    import pyarrow as pa

    if not pa.types.is_struct(type_):
        raise FormatError(f"{schema.name} must be a record, so that its values have columns")
    return type_
