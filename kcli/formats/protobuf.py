"""Reads and writes Protobuf values, according to the descriptors of their .proto files.

A message is a dict of its fields. A field that is not set has the value None, if Protobuf distinguishes unset fields of
this type. A map is a list of pairs, an enum is a name, and a Timestamp is a time in UTC.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError, Value, ValueCodec

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

TIMESTAMP = "google.protobuf.Timestamp"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def message_class(descriptors: bytes, name: str) -> type[Message]:
    """Returns the class of the message with the full name `name`.

    `descriptors` is a file that `protoc --descriptor_set_out --include_imports` has written.

    Raises FormatError if `descriptors` is not such a file, or has no such message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        for file in files.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name)
    except DecodeError:
        raise FormatError(
            "the Protobuf schema is not a descriptor set (protoc --descriptor_set_out)"
        ) from None
    except (KeyError, TypeError) as error:
        raise FormatError(f"the Protobuf schema has no message {name} ({error})") from None
    message_type: type[Message] = message_factory.GetMessageClass(descriptor)
    return message_type


def protobuf_codec(message: type[Message]) -> ValueCodec:
    """Returns the codec of a message class."""

    def decode(value: bytes) -> Value:
        return _fields(message.FromString(value))

    def encode(value: Value) -> bytes:
        made = message()
        _fill(made, value)
        return bytes(made.SerializeToString())

    return ValueCodec(decode, encode)


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map, which Protobuf stores as repeated entries of key and value."""
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _fields(message: Message) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if is_map(field):
            of = field.message_type.fields_by_name["value"]
            values[field.name] = [(key, _one(of, value[key])) for key in value]
        elif field.is_repeated:
            values[field.name] = [_one(field, item) for item in value]
        elif field.has_presence and not message.HasField(field.name):
            values[field.name] = None
        else:
            values[field.name] = _one(field, value)
    return values


def _one(field: FieldDescriptor, value: Message | int | float | str | bytes) -> Value:
    if isinstance(value, (int, float, str, bytes)):
        if field.cpp_type != field.CPPTYPE_ENUM:
            return value
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if field.message_type.full_name == TIMESTAMP:
        return EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return _fields(value)


def _fill(message: Message, record: Value) -> None:
    """Sets the fields of a message. Raises ValueError for an unknown field."""
    if not isinstance(record, dict):
        raise ValueError(f"message {message.DESCRIPTOR.full_name}: expected fields by name")
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in record.items():
        field = fields.get(name)
        if field is None:
            raise ValueError(f"message {message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        if is_map(field):
            _fill_map(getattr(message, name), field.message_type.fields_by_name["value"], value)
        elif field.is_repeated:
            for item in _list(field, value):
                if field.cpp_type == field.CPPTYPE_MESSAGE:
                    _fill_message(getattr(message, name).add(), field, item)
                else:
                    getattr(message, name).append(_scalar(field, item))
        elif field.cpp_type == field.CPPTYPE_MESSAGE:
            getattr(message, name).SetInParent()
            _fill_message(getattr(message, name), field, value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(target: MutableMapping[Value, Message], field: FieldDescriptor, value: Value) -> None:
    entries = value.items() if isinstance(value, dict) else map(_pair, _list(field, value))
    for key, item in entries:
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            _fill_message(target[key], field, item)
        else:
            target[key] = _scalar(field, item)


def _fill_message(message: Message, field: FieldDescriptor, value: Value) -> None:
    if field.message_type.full_name != TIMESTAMP:
        _fill(message, value)
        return
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"field {field.full_name}: expected a time, not {value!r}")
    since = (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - EPOCH
    message.seconds = since.days * 86_400 + since.seconds
    message.nanos = since.microseconds * 1000


def _scalar(field: FieldDescriptor, value: Value) -> Value:
    if field.cpp_type == field.CPPTYPE_ENUM:
        if isinstance(value, str) and value in field.enum_type.values_by_name:
            number: int = field.enum_type.values_by_name[value].number
            return number
        return _whole(field, value)
    return _whole(field, value) if field.cpp_type == field.CPPTYPE_UINT64 else value


# A whole number of 64 bits, which JSON may have as a text.
_WHOLE = re.compile(r"-?[0-9]{1,20}")


def _whole(field: FieldDescriptor, value: Value) -> int:
    wrong = ValueError(f"field {field.full_name}: expected a whole number, not {value!r}")
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = decimal.Decimal(value)
    if not isinstance(value, (int, float, decimal.Decimal)) or value != value or value % 1 != 0:
        raise wrong
    return int(value)


def _list(field: FieldDescriptor, value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise ValueError(f"field {field.full_name}: expected a list, not {value!r}")
    return value


def _pair(entry: Value) -> tuple[Value, Value]:
    if not isinstance(entry, tuple):
        raise ValueError(f"expected a pair of key and value, not {entry!r}")
    return entry
