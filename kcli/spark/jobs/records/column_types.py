"""Determines the Arrow types of Avro and Protobuf values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.formats.avro.language import AvroSchema
from kcli.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Kind,
    Logical,
    LogicalType,
    Map,
    Part,
    Primitive,
    Record,
    Union,
    kind_of,
)
from kcli.formats.protobuf.codec import is_map
from kcli.formats.protobuf.well_known import TIMESTAMP
from kcli.spark.jobs.shared.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


def avro_columns(schema: AvroSchema) -> pa.StructType:
    """Returns the Arrow type for an Avro record.

    Raises JobError if the schema is not a record, or has a type without an Arrow type.
    """
    if not isinstance(schema.root, Record):
        raise JobError("the Avro schema must be a record")
    return _avro_type(schema.root, ())


def _avro_type(part: Part, path: tuple[Record, ...]) -> pa.DataType:
    """Returns the Arrow type for an Avro type. `path` contains the records that contain this type."""
    import pyarrow as pa

    match part:
        case Record():
            if part in path:
                raise JobError(f"the Avro type {part.name.full} contains itself, so it has no column type")
            inner = (*path, part)
            return pa.struct([(field.name, _avro_type(field.type, inner)) for field in part.fields])
        case Union():
            kinds = [branch for branch in part.branches if kind_of(branch) is not Kind.NULL]
            if len(kinds) != 1:
                raise JobError("an Avro union of several types has no column type; only null and one type")
            return _avro_type(kinds[0], path)
        case Array():
            return pa.list_(_avro_type(part.items, path))
        case Map():
            return pa.map_(pa.string(), _avro_type(part.values, path))
        case Enum():
            return pa.string()
        case Fixed() | Primitive():
            logical = None if part.logical is None else _logical(part.logical)
            return logical if logical is not None else _stored_type(kind_of(part))


def _stored_type(kind: Kind) -> pa.DataType:
    import pyarrow as pa

    return {
        Kind.NULL: pa.null(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.INT: pa.int32(),
        Kind.LONG: pa.int64(),
        Kind.FLOAT: pa.float32(),
        Kind.DOUBLE: pa.float64(),
        Kind.BYTES: pa.binary(),
        Kind.FIXED: pa.binary(),
        Kind.STRING: pa.string(),
    }[kind]


def _logical(logical: LogicalType) -> pa.DataType | None:
    """Returns the Arrow type for a logical type, or None if its values are stored values.

    Raises JobError for a logical type that has no Arrow type.
    """
    import pyarrow as pa

    match logical.logical:
        case Logical.DATE:
            return pa.date32()
        case Logical.TIMESTAMP_MILLIS | Logical.TIMESTAMP_MICROS:
            return pa.timestamp("us", tz="UTC")
        case Logical.LOCAL_TIMESTAMP_MILLIS | Logical.LOCAL_TIMESTAMP_MICROS:
            return pa.timestamp("us")
        case Logical.DECIMAL:
            return pa.decimal128(logical.precision, logical.scale)
        case Logical.TIMESTAMP_NANOS | Logical.LOCAL_TIMESTAMP_NANOS:
            return None
        case _:
            raise JobError(f"the Avro logical type {logical.logical} has no column type")


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
