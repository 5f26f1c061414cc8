"""The candidate "tables": the codec of `kcli.protocol.records.schema`, which interprets a table of fields."""

from __future__ import annotations

import struct
import typing
from functools import cache

from codec_prototype.fields import WireField, wire_fields
from kcli.errors import ErrorCode, ProtocolError
from kcli.protocol.records import schema

_ERRORS = {code.value: code for code in ErrorCode}
_INT16 = struct.Struct(">h")


def decode(cls: type, version: int, frame: bytes, offset: int) -> typing.Any:
    """Decodes a message of class `cls`. Raises ProtocolError if the bytes from `offset` on are not one."""
    reader = schema._Reader(frame, offset)
    try:
        return layout(cls, version, version >= schema.schema_of(cls).flexible_since).read(reader)
    except Exception as error:
        raise ProtocolError(f"{cls.__name__} v{version} is malformed: {error}") from error


def encode(message: typing.Any, version: int) -> bytes:
    out = bytearray()
    cls = type(message)
    layout(cls, version, version >= schema.schema_of(cls).flexible_since).write(out, message)
    return bytes(out)


def prepare(cls: type, version: int) -> None:
    """Builds the tables that the first use would build."""
    layout(cls, version, version >= schema.schema_of(cls).flexible_since)


@cache
def layout(cls: type, version: int, flexible: bool) -> schema._Layout:
    fields = [
        schema._Field(
            name=field.name,
            json_name=field.name,
            type=_type(field, version, flexible),
            default=field.default,
            constructor_default=field.default,
            tag=field.tag,
            ignorable=True,
        )
        for field in wire_fields(cls, version)
    ]
    return schema._Layout(cls, fields, [], flexible)


def _type(field: WireField, version: int, flexible: bool) -> schema._Type:
    item_nullable = field.nullable and not field.is_array
    item: schema._Type
    match field.kind:
        case "string":
            item = schema._String(flexible, item_nullable)
        case "bytes":
            item = schema._Bytes(flexible, item_nullable)
        case "uuid":
            item = schema._Uuid(nullable=True)
        case "error":
            item = _Error()
        case "struct":
            assert field.struct is not None
            item = layout(field.struct, version, flexible)
            if item_nullable:
                item = schema._NullableStruct(item, field.tag is not None)
        case code:
            item = schema._Number(code)
    return schema._Array(item, flexible, field.nullable) if field.is_array else item


class _Error:
    def write(self, out: bytearray, value: ErrorCode) -> None:
        out += _INT16.pack(value)

    def read(self, reader: schema._Reader) -> object:
        return _ERRORS[reader.number(_INT16)]

    def to_json(self, value: ErrorCode) -> schema.Json:
        return int(value)
