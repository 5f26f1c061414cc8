"""Reads and writes Protobuf values, according to the descriptors of their .proto files.

A message is a dict of its fields. A field that is not set has the value None, if Protobuf distinguishes unset fields of
this type. A map is a list of pairs, an enum is a name, and well-known messages are plain values (well_known.py).
"""

from __future__ import annotations

import decimal
import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError, Value, ValueCodec
from kcli.formats.protobuf.well_known import ANY, TYPE_MEMBER, conversion

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message


def message_class(descriptors: bytes, name: str) -> type[Message]:
    """Returns the class of the message with the full name `name`.

    `descriptors` is a file that `protoc --descriptor_set_out --include_imports` has written.

    Raises FormatError if `descriptors` is not such a file, or has no such message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool
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
    return class_of(descriptor)


def class_of(descriptor: Descriptor) -> type[Message]:
    """Returns the class of a message. Raises FormatError for messages that refer to each other in too long chains."""
    from google.protobuf import message_factory

    reachable = {descriptor.full_name: descriptor}
    waiting = [descriptor]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in reachable:
                reachable[inner.full_name] = inner
                waiting.append(inner)
    try:
        # The library makes the classes of the fields by recursion. Backwards, most of them exist already.
        for one in reversed(reachable.values()):
            message_factory.GetMessageClass(one)
        message: type[Message] = message_factory.GetMessageClass(descriptor)
    except RecursionError:
        raise FormatError(f"the message {descriptor.full_name} refers to too many others") from None
    return message


def protobuf_codec(message: type[Message]) -> ValueCodec:
    """Returns the codec of a message class."""

    def decode(value: bytes) -> Value:
        return message_value(message.FromString(value))

    def encode(value: Value) -> bytes:
        made = message()
        fill_message(made, value)
        return bytes(made.SerializeToString())

    return ValueCodec(decode, encode)


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map, which Protobuf stores as repeated entries of key and value."""
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def message_value(message: Message) -> Value:
    """Returns the value of a message. Raises ValueError for a time that is out of range."""
    full_name = message.DESCRIPTOR.full_name
    if (known := conversion(full_name)) is not None:
        return known.value(message)
    return _any(message) if full_name == ANY else _fields(message)


def _any(message: Message) -> Value:
    """Returns the value of the message in an Any, or the fields of the Any if the schema does not have its type."""
    from google.protobuf.message import DecodeError

    try:
        inner = _any_class(message, message.type_url).FromString(message.value)
    except (KeyError, DecodeError):
        return _fields(message)
    value = message_value(inner)
    if not isinstance(value, dict) or conversion(inner.DESCRIPTOR.full_name) is not None:
        value = {"value": value}
    return {TYPE_MEMBER: message.type_url, **value}


def _any_class(message: Message, type_url: str) -> type[Message]:
    from google.protobuf import message_factory

    pool = message.DESCRIPTOR.file.pool
    inner: type[Message] = message_factory.GetMessageClass(
        pool.FindMessageTypeByName(type_url.rpartition("/")[2])
    )
    return inner


def _fields(message: Message) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if is_map(field):
            of = field.message_type.fields_by_name["value"]
            values[field.name] = [(key, _one(of, value[key])) for key in sorted(value)]
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
        constant = field.enum_type.values_by_number.get(value)
        return constant.name if constant is not None else str(value)
    return message_value(value)


def fill_message(message: Message, value: Value) -> None:
    """Sets a message to a value. Raises ValueError for a value that does not fit."""
    full_name = message.DESCRIPTOR.full_name
    if (known := conversion(full_name)) is not None:
        known.fill(message, value)
    elif full_name == ANY and isinstance(value, dict) and isinstance(value.get(TYPE_MEMBER), str):
        _fill_any(message, value)
    else:
        _fill(message, value)


def _fill_any(message: Message, value: dict[str, Value]) -> None:
    type_url = str(value[TYPE_MEMBER])
    members = {name: member for name, member in value.items() if name != TYPE_MEMBER}
    try:
        inner = _any_class(message, type_url)()
    except KeyError:
        raise ValueError(f"the schema has no message {type_url}") from None
    is_plain = conversion(inner.DESCRIPTOR.full_name) is not None
    fill_message(inner, members.get("value") if is_plain else members)
    message.type_url = type_url
    message.value = inner.SerializeToString()


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
    try:
        fill_message(message, value)
    except ValueError as error:
        known = conversion(message.DESCRIPTOR.full_name) is not None
        raise ValueError(f"field {field.full_name}: {error}") if known else error from None


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
