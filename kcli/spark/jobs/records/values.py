"""Decodes values to columns, and encodes columns as values.

Spark itself decodes and encodes JSON and CSV. Functions over Arrow arrays decode and encode Avro and Protobuf.

`decoded` adds a struct column `_record` and a column `_parse_error`, which is null if the value parses. A null value (a
tombstone) is not an error: all its columns are null. `encoded` does the reverse of `decoded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.command.options import Kind, option
from kcli.formats.avro.codec import avro_schema
from kcli.formats.avro.schema import Record
from kcli.formats.codec import FormatError, Value
from kcli.formats.protobuf.codec import message_class
from kcli.spark.jobs.records.column_names import column_list, free_name, renamed
from kcli.spark.jobs.records.registry_values import (
    RegistryOptions,
    WrittenValues,
    job_columns,
)
from kcli.spark.jobs.shared.errors import JobError, require
from kcli.spark.registry_values import ReadColumns, RegistrySpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

FORMATS = ("raw", "json", "csv", "avro", "protobuf", "json-schema")
RECORD, ERROR = "_record", "_parse_error"
CORRUPT = "_corrupt_record"
"""The column in which Spark stores a JSON or CSV text that does not parse."""

JSON_OBJECT = r"(?s)\A[ \t\r\n]*\{.*\}[ \t\r\n]*\z"
"""A regular expression of Java for text that may be one JSON object."""


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """A value format with its schema, and for Protobuf the name of the message."""

    format: str = "raw"
    schema: str | None = None
    """JSON and CSV: the columns in DDL, such as `id bigint, name string`. Avro and Protobuf: the path of a schema file.
    """
    message: str | None = None
    skip_bytes: int = 0
    """The number of bytes to skip at the start of a value. Schema registries write a prefix of 5 bytes for Avro, and 6
    for Protobuf."""
    columns: StructType | None = None
    """JSON: the columns that were inferred from records."""
    registry: RegistrySpec | None = None
    """The registry of the schemas of values, or None if a file has the one schema."""
    read: ReadColumns | None = None
    """The columns of the topic that is read, if there is a registry."""

    def check(self) -> None:
        """Checks that the format is complete. Raises JobError if a part is missing or wrong."""
        if self.format not in FORMATS:
            raise JobError(f"value format {self.format}: expected one of {', '.join(FORMATS)}")
        if self.registry is not None:
            if self.skip_bytes:
                raise JobError("bytes are not skipped in values that name their schema in a registry")
            if self.schema and not Path(self.schema).is_file():
                raise JobError(f"there is no schema file {self.schema}")
            return
        if self.format == "json-schema":
            raise JobError("json-schema values need --schema-registry")
        if self.format == "csv" and not self.schema:
            raise JobError("CSV values need a schema, such as 'id bigint, name string'")
        if self.format in ("avro", "protobuf"):
            if not self.schema:
                raise JobError(f"{self.format} values need a schema file, or --schema-registry")
            if not Path(self.schema).is_file():
                raise JobError(f"there is no schema file {self.schema}")
            require("pyarrow" if self.format == "avro" else "google.protobuf", "kcli-streaming[spark]")
            codec_of(self)
        elif self.skip_bytes:
            raise JobError(f"bytes can be skipped in Avro and Protobuf values only, not in {self.format}")


def for_topic(spec: ValueSpec, topic: str | None) -> ValueSpec:
    """Returns the format of the values of a topic. For values with schemas of a registry, asks the registry for the
    columns. `topic` is None for several topics. Raises JobError."""
    return spec if spec.registry is None else replace(spec, read=job_columns(spec.registry, topic))


def is_inferred(spec: ValueSpec) -> bool:
    """Whether the columns must be inferred from records."""
    return spec.format == "json" and not spec.schema


@dataclass(frozen=True, kw_only=True)
class ValueOptions(RegistryOptions):
    """The options of a job that reads values."""

    value_format: str = option(
        "The format of the values in the topics that are read.", choices=FORMATS, default="raw"
    )
    value_schema: str | None = option(
        "The schema of the values. For JSON and CSV: columns such as 'id bigint, name string'. If this "
        "option is not given, the schema of JSON values is inferred. For Avro: an .avsc file. For Protobuf: "
        "a file that protoc --descriptor_set_out --include_imports wrote. With --schema-registry: a file with the "
        "schema to which all values are converted, in place of the latest version of the subject.",
        metavar="TEXT",
    )
    value_message: str | None = option(
        "Protobuf: the full name of the message. With --schema-registry, the default is the first of the schema.",
        metavar="NAME",
    )
    value_subject: str | None = option(
        "With --schema-registry: the subject of the schema of the values. Default: the subject of the topic.",
        metavar="SUBJECT",
    )
    value_skip_bytes: int = option(
        "Avro, Protobuf: how many bytes to skip at the beginning of each value. The prefix of a schema "
        "registry has 5 bytes (Avro) or 6 bytes (Protobuf).",
        Kind.INTEGER,
        metavar="N",
        default=0,
    )

    @property
    def values(self) -> ValueSpec:
        """The format of the values that the options describe."""
        return self.value_spec(
            self.value_format,
            self.value_schema,
            message=self.value_message,
            subject=self.value_subject,
            skip_bytes=self.value_skip_bytes,
        )

    def value_spec(
        self,
        format_: str,
        schema: str | None,
        *,
        message: str | None,
        subject: str | None,
        skip_bytes: int = 0,
    ) -> ValueSpec:
        """Returns a format of values, with the registry of the options if the format may have one. Raises JobError."""
        registry = self.registry_spec(format_, schema=schema, subject=subject, message=message)
        if subject is not None and registry is None:
            raise JobError("a subject needs --schema-registry, and the format avro, protobuf or json-schema")
        return ValueSpec(format_, schema, message, skip_bytes, registry=registry)


def decoded(frame: DataFrame, spec: ValueSpec, taken: Iterable[str] = ()) -> DataFrame:
    """Decodes the column `value` of `frame`. Returns `frame` with the columns RECORD and ERROR.

    `frame` also has the column `headers` if there is a registry, because a header may name the schema of a value.
    The fields of RECORD have unique names. `taken` contains names that these fields cannot have.
    """
    from pyspark.sql.functions import col

    if spec.read is not None or spec.format in ("avro", "protobuf"):
        decoder, columns = _decoder(spec) if spec.read is None else _registry_decoder(spec.read)
        inputs = ["value"] if spec.read is None else ["value", "headers"]
        frame = frame.withColumn("_decoded", decoder(*map(col, inputs)))
        record = col("_decoded.record").cast(renamed(columns, taken))
        return frame.withColumn(RECORD, record).withColumn(ERROR, col("_decoded.error")).drop("_decoded")
    return _decoded_text(frame, spec, taken)


def _decoded_text(frame: DataFrame, spec: ValueSpec, taken: Iterable[str]) -> DataFrame:
    """Decodes JSON and CSV. No name of a record gets into an expression of SQL, because a name may be any text."""
    from pyspark.sql.functions import col, from_csv, from_json, is_valid_utf8, lit, struct, when
    from pyspark.sql.types import StructType

    schema = spec.columns or struct_type(spec.schema or "")
    named = renamed(schema, taken)
    corrupt = free_name(CORRUPT, [*schema.names, *named.names])
    reading = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt, "allowNonNumericNumbers": "false"}
    text = col("value").cast("string")
    if spec.format == "json":
        parsed = from_json(text, StructType([*schema.fields]).add(corrupt, "string"), reading)
        is_whole = text.rlike(
            JSON_OBJECT
        )  # Spark takes the first object of an array, and ignores text after an object
    else:
        places = [f"_{nth} {field.dataType.simpleString()}" for nth, field in enumerate(schema.fields)]
        parsed = from_csv(text, ", ".join([*places, f"{corrupt} string"]), reading)
        is_whole = lit(True)
    frame = frame.withColumn("_decoded", parsed.cast(StructType([*named.fields]).add(corrupt, "string")))
    wrong = col("_decoded").isNull() | col("_decoded").getField(corrupt).isNotNull() | ~is_whole
    error = when(~is_valid_utf8(text), lit("the value is not UTF-8")).when(
        wrong, lit(_expected(spec, schema))
    )
    fields = [col("_decoded").getField(name).alias(name) for name in named.names]
    frame = frame.withColumn(ERROR, when(col("value").isNotNull(), error))
    return frame.withColumn(RECORD, struct(*fields)).drop("_decoded")


def _expected(spec: ValueSpec, schema: StructType) -> str:
    """Returns the error of a value that does not parse."""
    types = column_list(schema)
    hint = " (inferred; --value-schema sets other columns)" if spec.columns is not None else ""
    return f"the value is not {spec.format.upper()} of {types}{hint}"


def struct_type(ddl: str) -> StructType:
    """Parses a schema in DDL. Raises JobError if the text is not DDL."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return StructType.fromDDL(ddl)
    except PySparkException as error:
        raise JobError(
            f"schema {ddl!r}: expected columns, as in 'id bigint, name string' ({str(error).splitlines()[0]})"
        ) from None


def encoded(columns: list[Column], spec: ValueSpec, written: WrittenValues | None) -> Column:
    """Encodes the columns of a row as one value in the format of `spec`, or by a schema of a registry."""
    from pyspark.sql.functions import struct, to_csv, to_json

    row = struct(*columns)
    if written is not None:
        return worker_function(written.encoder, "binary")(row)
    if spec.format == "json":
        return to_json(row)
    if spec.format == "csv":
        return to_csv(row)
    return _encoder(spec)(row)


def _registry_decoder(read: ReadColumns) -> tuple[Callable[..., Column], StructType]:
    """Returns a function that decodes a column, and the type of the decoded records."""
    from pyspark.sql.types import StringType, StructType

    columns = read.spark_type()
    result = StructType().add("error", StringType()).add("record", columns)
    return worker_function(read.decoder, result), columns


def worker_function(
    make: Callable[[], Callable[..., pa.Array]], result: DataType | str
) -> Callable[..., Column]:
    """Returns a function over one or two columns. `make` is called once in each worker, because Spark cannot send
    parsed schemas and connections."""
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    made: list[Callable[..., pa.Array]] = []

    def convert(values: pa.Array, *more: pa.Array) -> pa.Array:
        if not made:
            made.append(make())
        return made[0](values, *more)

    convert.__annotations__ = {"values": pa.Array, "more": pa.Array, "return": pa.Array}
    return arrow_udf(convert, result)


@dataclass(frozen=True, slots=True)
class RecordCodec:
    """Decodes and encodes values of one Avro or Protobuf schema."""

    columns: pa.StructType
    """The Arrow type of the decoded values."""

    decode: Callable[[pa.Array, int], tuple[pa.Array, pa.Array]]
    """Decodes a column without the first bytes of each value. Returns the records, and the errors."""

    encode: Callable[[Value], bytes]
    """Encodes a row of such records."""


def codec_of(spec: ValueSpec) -> RecordCodec:
    """Returns the codec for an Avro or Protobuf format. Raises JobError if the schema is invalid."""
    assert spec.schema is not None
    is_protobuf = spec.format == "protobuf"
    if is_protobuf and spec.message is None:
        raise JobError("Protobuf values need the full name of their message")
    try:
        return record_codec(Path(spec.schema).read_bytes(), spec.message if is_protobuf else None)
    except FormatError as error:
        raise JobError(f"{spec.schema}: {error}") from None


def record_codec(schema: bytes, message: str | None) -> RecordCodec:
    """Returns the codec for the content of a schema file. With `message`, the file is a Protobuf schema. Without it,
    the file is an Avro schema."""
    if message is not None:
        return _protobuf_codec(schema, message)
    from kcli.formats.avro.column_rows import row_encoder
    from kcli.formats.avro.columns import ColumnDecoder

    declared = avro_schema(schema)
    decoder = ColumnDecoder(declared)
    if not isinstance(declared.root, Record):
        raise JobError("the Avro schema must be a record")

    def decode(values: pa.Array, skip_bytes: int) -> tuple[pa.Array, pa.Array]:
        column = decoder.decode(values, skip_bytes)
        return column.values, column.errors

    return RecordCodec(decoder.type, decode, row_encoder(declared))


def _protobuf_codec(schema: bytes, message: str) -> RecordCodec:
    from kcli.formats.protobuf.columns import ColumnDecoder

    decoder = ColumnDecoder(message_class(schema, message))

    def decode(values: pa.Array, skip_bytes: int) -> tuple[pa.Array, pa.Array]:
        column = decoder.decode(values, skip_bytes)
        return column.records, column.errors

    return RecordCodec(decoder.type, decode, decoder.row_codec.encode)


def _decoder(spec: ValueSpec) -> tuple[Callable[..., Column], StructType]:
    """Returns a function that decodes a column, and the type of the decoded records."""
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    codec = codec_of(spec)
    skip, name = spec.skip_bytes, spec.format
    result = pa.struct([("error", pa.string()), ("record", codec.columns)])
    columns = from_arrow_type(codec.columns)
    assert isinstance(columns, StructType)
    rebuild = _rebuilder(spec)

    def decode(values: pa.Array) -> pa.Array:
        return decoded_values(values, rebuild(), skip, name)

    decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return arrow_udf(decode, from_arrow_type(result)), columns


def _encoder(spec: ValueSpec) -> Callable[[Column], Column]:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    rebuild = _rebuilder(spec)

    def encode(rows: pa.Array) -> pa.Array:
        codec = rebuild()
        return pa.array([codec.encode(row) for row in rows.to_pylist()], pa.binary())

    encode.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    return arrow_udf(encode, "binary")


def _rebuilder(spec: ValueSpec) -> Callable[[], RecordCodec]:
    """Returns a function that makes the codec in the executor, because Spark cannot send parsed schemas to
    executors.
    """
    assert spec.schema is not None
    content = Path(spec.schema).read_bytes()
    message = spec.message if spec.format == "protobuf" else None
    made: list[RecordCodec] = []

    def rebuild() -> RecordCodec:
        if not made:
            made.append(record_codec(content, message))
        return made[0]

    return rebuild


def decoded_values(values: pa.Array, codec: RecordCodec, skip_bytes: int, name: str) -> pa.Array:
    """Decodes values to structs of `error` and `record`.

    If a value does not decode, `error` is set and `record` is null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    records, reasons = codec.decode(values, skip_bytes)
    errors = pc.binary_join_element_wise(f"the value is not {name} of the schema (", reasons, ")", "")
    return pa.StructArray.from_arrays([errors, records], names=["error", "record"])
