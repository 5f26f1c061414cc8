"""Protobuf values through the descriptors of their .proto files, with the message as an Arrow type."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from kcli.spark.jobs.arguments import JobError

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.jobs.values import ValueCodec

TIMESTAMP = "google.protobuf.Timestamp"
MICROSECONDS = 1_000_000
"""In a second."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def protobuf_codec(descriptors: bytes, name: str) -> ValueCodec:
    """`descriptors` is what protoc --descriptor_set_out writes. JobError where it is not, or lacks the message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    from kcli.spark.jobs.values import ValueCodec

    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        for file in files.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name)
    except DecodeError:
        raise JobError("the Protobuf schema is no descriptor set (protoc --descriptor_set_out)") from None
    except (KeyError, TypeError) as error:
        raise JobError(f"the Protobuf schema has no message {name} ({error})") from None
    message = message_factory.GetMessageClass(descriptor)

    def decode(value: bytes) -> dict[str, Any]:
        return _fields(message.FromString(value))

    def encode(record: dict[str, Any]) -> bytes:
        made = message()
        _fill(made, record)
        return bytes(made.SerializeToString())

    return ValueCodec(message_type(descriptor, ()), decode, encode)


def message_type(descriptor: Any, path: tuple[str, ...]) -> pa.StructType:
    """The Arrow type of a message; `path` are the messages around it."""
    import pyarrow as pa

    if descriptor.full_name in path:
        raise JobError(f"the message {descriptor.full_name} holds itself, which no column type can")
    inner = (*path, descriptor.full_name)
    return pa.struct([(field.name, _field_type(field, inner)) for field in descriptor.fields])


def _field_type(field: Any, path: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_one_type(entry["key"], path), _one_type(entry["value"], path))
    one = _one_type(field, path)
    return pa.list_(one) if field.is_repeated else one


def _one_type(field: Any, path: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        return message_type(field.message_type, path)
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


def _is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _fields(message: Any) -> dict[str, Any]:
    """The fields of a message; one that has presence and is not set is None."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            of = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _one(of, value[key])) for key in value]
        elif field.is_repeated:
            found[field.name] = [_one(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _one(field, value)
    return found


def _one(field: Any, value: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        return _fields(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value


def _fill(message: Any, record: dict[str, Any]) -> None:
    """Set the fields of a message; ValueError names a column that the message does not have."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in record.items():
        field = fields.get(name)
        if field is None:
            raise ValueError(f"message {message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        if _is_map(field):
            _fill_map(getattr(message, name), field.message_type.fields_by_name["value"], value)
        elif field.is_repeated:
            for each in value:
                if field.cpp_type == field.CPPTYPE_MESSAGE:
                    _fill_message(getattr(message, name).add(), field, each)
                else:
                    getattr(message, name).append(_scalar(field, each))
        elif field.cpp_type == field.CPPTYPE_MESSAGE:
            getattr(message, name).SetInParent()
            _fill_message(getattr(message, name), field, value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(target: Any, field: Any, value: Any) -> None:
    for key, each in dict(value).items():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            _fill_message(target[key], field, each)
        else:
            target[key] = _scalar(field, each)


def _fill_message(message: Any, field: Any, value: Any) -> None:
    if field.message_type.full_name != TIMESTAMP:
        return _fill(message, value)
    since = (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - EPOCH
    message.seconds = since.days * 86_400 + since.seconds
    message.nanos = since.microseconds * 1000
    return None


def _scalar(field: Any, value: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_ENUM:
        if isinstance(value, str) and value in field.enum_type.values_by_name:
            return field.enum_type.values_by_name[value].number
        return int(value)
    return int(value) if field.cpp_type == field.CPPTYPE_UINT64 else value
