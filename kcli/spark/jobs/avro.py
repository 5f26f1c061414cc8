"""Avro values (binary, without a file's header) through fastavro, with their schema as an Arrow type."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from kcli.spark.jobs.arguments import JobError

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.jobs.values import ValueCodec


def avro_codec(schema: Any) -> ValueCodec:
    """JobError where the schema is not valid, not a record, or has what a table cannot hold."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    from kcli.spark.jobs.values import ValueCodec

    try:
        parsed = fastavro.parse_schema(schema)
    except (SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise JobError(f"the Avro schema is not valid: {type(error).__name__}: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise JobError("the Avro schema must be a record")

    def decode(value: bytes) -> dict[str, Any]:
        stream = io.BytesIO(value)
        record = fastavro.schemaless_reader(stream, parsed, None)
        left = len(value) - stream.tell()
        if left:
            raise ValueError(f"{left} bytes are left over")
        assert isinstance(record, dict)
        return record

    def encode(record: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, record)
        return stream.getvalue()

    return ValueCodec(arrow_type(schema, {}), decode, encode)


def arrow_type(schema: Any, named: dict[str, Any], path: tuple[str, ...] = ()) -> pa.DataType:
    """The Arrow type of an Avro schema; `named` are the types declared before, `path` those under way."""
    import pyarrow as pa

    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise JobError("an Avro union is null and one type here; a union of several has no column type")
        return arrow_type(kinds[0], named, path)
    if isinstance(schema, str):
        if schema in path:
            raise JobError(f"the Avro type {schema} holds itself, which no column type can")
        return arrow_type(named[schema], named, path) if schema in named else _primitive(schema)
    kind = schema["type"]
    logical = _logical(schema)
    if logical is not None:
        return logical
    match kind:
        case "record":
            name = schema["name"]
            named[name] = schema
            if schema.get("namespace"):
                named[f"{schema['namespace']}.{name}"] = schema
            inner = (*path, name, f"{schema.get('namespace', '')}.{name}")
            return pa.struct(
                [(each["name"], arrow_type(each["type"], named, inner)) for each in schema["fields"]]
            )
        case "array":
            return pa.list_(arrow_type(schema["items"], named, path))
        case "map":
            return pa.map_(pa.string(), arrow_type(schema["values"], named, path))
        case "enum":
            named[schema["name"]] = schema
            return pa.string()
        case "fixed":
            named[schema["name"]] = schema
            return pa.binary()
        case _:
            return arrow_type(kind, named, path)


def _primitive(name: str) -> pa.DataType:
    import pyarrow as pa

    types = {
        "null": pa.null(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.binary(),
        "string": pa.string(),
    }
    if name not in types:
        raise JobError(f"the Avro type {name} is not known")
    return types[name]


def _logical(schema: dict[str, Any]) -> pa.DataType | None:
    """What fastavro turns into Python's own types; other logical types are what they are made of."""
    import pyarrow as pa

    match schema.get("logicalType"):
        case "date":
            return pa.date32()
        case "timestamp-millis" | "timestamp-micros":
            return pa.timestamp("us", tz="UTC")
        case "local-timestamp-millis" | "local-timestamp-micros":
            return pa.timestamp("us")
        case "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        case "time-millis" | "time-micros" | "uuid":
            raise JobError(f"the Avro logical type {schema['logicalType']} has no column type here")
        case _:
            return None
