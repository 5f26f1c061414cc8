"""Determines the Arrow types of Avro and Protobuf values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.formats.avro import AvroDeclaration, AvroSchema
from kcli.formats.protobuf import TIMESTAMP, is_map
from kcli.spark.jobs.shared.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


def avro_columns(schema: AvroSchema) -> pa.StructType:
    """Returns the Arrow type for an Avro record.

    Raises JobError if the schema is not a record, or has a type without an Arrow type.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise JobError("the Avro schema must be a record")
    return _avro_type(schema, {})


def _avro_type(schema: AvroSchema, named: dict[str, AvroSchema], path: tuple[str, ...] = ()) -> pa.DataType:
    """Returns the Arrow type for an Avro schema. `named` contains the named types that are declared so far. `path`
    contains the names of the records that contain this type.
    """
    import pyarrow as pa

    if isinstance(schema, list):
        kinds = [branch for branch in schema if branch != "null"]
        if len(kinds) != 1:
            raise JobError("an Avro union of several types has no column type; only null and one type")
        return _avro_type(kinds[0], named, path)
    if isinstance(schema, str):
        if schema in path:
            raise JobError(f"the Avro type {schema} contains itself, so it has no column type")
        return _avro_type(named[schema], named, path) if schema in named else _primitive(schema)
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
                [(field["name"], _avro_type(field["type"], named, inner)) for field in schema["fields"]]
            )
        case "array":
            return pa.list_(_avro_type(schema["items"], named, path))
        case "map":
            return pa.map_(pa.string(), _avro_type(schema["values"], named, path))
        case "enum":
            named[schema["name"]] = schema
            return pa.string()
        case "fixed":
            named[schema["name"]] = schema
            return pa.binary()
        case _:
            return _avro_type(kind, named, path)


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
        raise JobError(f"the Avro type {name} is unknown")
    return types[name]


def _logical(schema: AvroDeclaration) -> pa.DataType | None:
    """Returns the Arrow type for a logical type that fastavro converts. Raises JobError for a logical type that has
    none.

    Returns None for other logical types, because they are handled like their base types.
    """
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
            raise JobError(f"the Avro logical type {schema['logicalType']} has no column type")
        case _:
            return None


def protobuf_columns(descriptor: Descriptor, path: tuple[str, ...] = ()) -> pa.StructType:
    """Returns the Arrow type for a Protobuf message. `path` contains the messages that contain this one."""
    import pyarrow as pa

    if descriptor.full_name in path:
        raise JobError(f"the message {descriptor.full_name} contains itself, so it has no column type")
    inner = (*path, descriptor.full_name)
    return pa.struct([(field.name, _field_type(field, inner)) for field in descriptor.fields])


def _field_type(field: FieldDescriptor, path: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_one_type(entry["key"], path), _one_type(entry["value"], path))
    one = _one_type(field, path)
    return pa.list_(one) if field.is_repeated else one


def _one_type(field: FieldDescriptor, path: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        return protobuf_columns(field.message_type, path)
    return {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }[field.cpp_type]
