"""Determines the Arrow types of Protobuf values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.formats.protobuf.codec import is_map
from kcli.formats.protobuf.well_known import TIMESTAMP
from kcli.spark.jobs.shared.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


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
