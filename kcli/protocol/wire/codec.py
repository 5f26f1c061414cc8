"""Decodes and encodes the frames of requests and responses.

kio has a class per message and version. The rest of kcli uses the classes of `kcli.protocol.messages`, which have the
fields of all versions. Converters, built once per kio class, copy the values field by field. If a version lacks a
field, the field gets its default when it is read, and is dropped when it is written, as in Kafka's generated classes.

A frame (https://kafka.apache.org/protocol) has an int32 size, a header and a body. Request header v2 is v1 with a tag
section (KIP-482). Its client id is not a compact string. ApiVersions responses always have the v0 header (KIP-511).
"""

from __future__ import annotations

import datetime
import importlib
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from kcli.errors import ErrorCode, ProtocolError
from kcli.protocol.wire import bounds, schema
from kcli.protocol.wire.api import API, ApiKey, ApiSpec
from kcli.protocol.wire.packing import cause_text

Message = Any
"""A message of `kcli.protocol.messages`; the API key and the direction give its class."""

Converter = Callable[[Any], Any]

_HEADER = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

MAX_HEADER_TAGS = 64
"""The most tags in a header. Kafka has none so far (KIP-482). The limit bounds the work on invalid bytes."""


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of a request. `body_offset` is the position of the body in the frame (without size prefix)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def decode_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    """Reads the header of a frame without size prefix. Raises ProtocolError if it is incomplete or malformed.

    An unknown API key or version is not an error here, because the caller handles these.
    """
    if len(frame) < _HEADER.size:
        raise ProtocolError(
            f"{len(frame)} bytes are no request: the smallest request header has {_HEADER.size}"
        )
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(frame, 0)
        offset = _HEADER.size
        client_id = None
        if length >= 0:
            raw = bytes(frame[offset : offset + length])
            if len(raw) != length:
                raise ProtocolError(f"request header ends inside the client id: {length} bytes announced")
            client_id = raw.decode("utf-8")
            offset += length
        spec = API.get(api_key)
        if spec is not None and spec.is_flexible(api_version):
            offset = _skip_tags(frame, offset)
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"Error parsing request header: {cause_text(error)}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, offset)


def decode_request(key: ApiKey, version: int, frame: bytes, offset: int) -> Message:
    """Decodes the request in `frame[offset:]`. Raises ProtocolError if the bytes are not such a request."""
    return _decode(API[key], version, "request", frame, offset)


def decode_response(key: ApiKey, version: int, frame: bytes) -> tuple[int, Message]:
    """Decodes a frame without size prefix to its correlation id and response. Raises ProtocolError for invalid
    bytes."""
    spec = API[key]
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
        offset = _INT32.size
        if _response_has_tags(spec, version):
            offset = _skip_tags(frame, offset)
    except (struct.error, IndexError) as error:
        raise ProtocolError(
            f"{spec.name} v{version} response header is malformed: {cause_text(error)}"
        ) from error
    return correlation_id, _decode(spec, version, "response", frame, offset)


def encode_request(
    message: Message, key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Encodes a whole request frame, size prefix included."""
    spec = API[key]
    name = b"" if client_id is None else client_id.encode("utf-8")
    head = _HEADER.pack(key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if spec.is_flexible(version):
        head += b"\0"
    return _frame(head, _encode(message, spec, version, "request"))


def encode_response(message: Message, key: ApiKey, version: int, correlation_id: int) -> bytes:
    """Encodes a whole response frame, size prefix included."""
    spec = API[key]
    head = _INT32.pack(correlation_id)
    if _response_has_tags(spec, version):
        head += b"\0"
    return _frame(head, _encode(message, spec, version, "response"))


def message_class(key: ApiKey, kind: str) -> type:
    """The class in `kcli.protocol.messages` for a request or response."""
    spec = API[key]
    return _our_module_class(spec, schema.payload_class(spec, spec.max_version, kind).__name__)


def _frame(head: bytes, body: bytes) -> bytes:
    return _INT32.pack(len(head) + len(body)) + head + body


def _response_has_tags(spec: ApiSpec, version: int) -> bool:
    return spec.is_flexible(version) and spec.key is not ApiKey.API_VERSIONS


def _skip_tags(frame: bytes | bytearray | memoryview, offset: int) -> int:
    count, offset = _unsigned_varint(frame, offset)
    if count > MAX_HEADER_TAGS:
        raise ProtocolError(f"header announces {count} tags; at most {MAX_HEADER_TAGS} are accepted")
    for _ in range(count):
        _, offset = _unsigned_varint(frame, offset)
        size, offset = _unsigned_varint(frame, offset)
        offset += size
        if offset > len(frame):
            raise ProtocolError("header ends inside a tag")
    return offset


def _unsigned_varint(frame: bytes | bytearray | memoryview, offset: int) -> tuple[int, int]:
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise ProtocolError("varint is longer than 5 bytes")


def _decode(spec: ApiSpec, version: int, kind: str, frame: bytes, offset: int) -> Message:
    read, convert = _reader(spec, version, kind)
    try:
        bounds.check(schema.payload_class(spec, version, kind), frame, offset)
        entity, _ = read(frame, offset)
        return convert(entity)
    except Exception as error:  # for invalid bytes kio raises errors of its own, ValueError and OverflowError
        raise ProtocolError(f"{spec.name} v{version} {kind} is malformed: {cause_text(error)}") from error


def _encode(message: Message, spec: ApiSpec, version: int, kind: str) -> bytes:
    write, convert = _writer(spec, version, kind)
    buffer = io.BytesIO()
    write(buffer, convert(message))
    return buffer.getvalue()


@cache
def _reader(
    spec: ApiSpec, version: int, kind: str
) -> tuple[Callable[[bytes, int], tuple[object, int]], Converter]:
    cls = schema.payload_class(spec, version, kind)
    return entity_reader(cls), _raising(cls, spec, kind)


@cache
def _writer(spec: ApiSpec, version: int, kind: str) -> tuple[Callable[[io.BytesIO, object], None], Converter]:
    cls = schema.payload_class(spec, version, kind)
    return entity_writer(cls), _lowering(cls)


@cache
def _raising(cls: type, spec: ApiSpec, kind: str) -> Converter:
    """The converter from kio's struct of one version to our struct, which has the fields of all versions."""
    ours = _our_class(cls, spec, kind)
    plan = [
        (field.our_name, field.kio_name, _raising_field(field, spec, kind)) for field in schema.fields(cls)
    ]

    def convert(entity: object) -> object:
        return ours(
            **{
                name: getattr(entity, source) if each is None else each(getattr(entity, source))
                for name, source, each in plan
            }
        )

    return convert


def _raising_field(field: schema.Field, spec: ApiSpec, kind: str) -> Converter | None:
    each = _raising(field.struct, spec, kind) if field.struct else _RAISE.get(field.kafka_type or "")
    return _over_array(each) if field.is_array else _over_null(each, field)


@cache
def _lowering(cls: type) -> Converter:
    """The converter from our struct, which has the fields of all versions, to kio's struct of one version."""
    plan = [(field.kio_name, field.our_name, _lowering_field(field)) for field in schema.fields(cls)]

    def convert(message: object) -> object:
        return cls(
            **{
                name: getattr(message, source) if each is None else each(getattr(message, source))
                for name, source, each in plan
            }
        )

    return convert


def _lowering_field(field: schema.Field) -> Converter | None:
    each = _lowering(field.struct) if field.struct else _LOWER.get(field.kafka_type or "")
    return _over_array(each) if field.is_array else _over_null(each, field)


def _over_array(each: Converter | None) -> Converter | None:
    if each is None:
        return None

    def convert(items: tuple[object, ...] | None) -> tuple[object, ...] | None:
        return None if items is None else tuple([each(item) for item in items])

    return convert


def _over_null(each: Converter | None, field: schema.Field) -> Converter | None:
    if each is None or not field.nullable:
        return each
    return lambda value: None if value is None else each(value)


def _our_class(cls: type, spec: ApiSpec, kind: str) -> type:
    return _our_module_class(spec, cls.__name__, kind.capitalize())


def _our_module_class(spec: ApiSpec, name: str, side: str = "") -> type:
    module = importlib.import_module(f"kcli.protocol.messages.{spec.module}")
    # If request and response have a struct of the same name with different fields, the generator prefixes the names.
    found: type = getattr(module, f"{side}{name}", None) or getattr(module, name)
    return found


_OUR_ERRORS: dict[int, ErrorCode] = {code.value: code for code in ErrorCode}
_KIO_ERRORS: dict[int, KioErrorCode] = {int(code): code for code in KioErrorCode}

_RAISE: dict[str, Converter] = {
    "error_code": lambda value: _OUR_ERRORS[int(value)],
    "timedelta_i32": lambda value: value // _MILLISECOND,
    "timedelta_i64": lambda value: value // _MILLISECOND,
    "datetime_i64": lambda value: -1 if value is None else (value - _EPOCH) // _MILLISECOND,
}
_LOWER: dict[str, Converter] = {
    "error_code": lambda value: _KIO_ERRORS[int(value)],
    "timedelta_i32": lambda value: datetime.timedelta(milliseconds=value),
    "timedelta_i64": lambda value: datetime.timedelta(milliseconds=value),
    "datetime_i64": lambda value: None if value < 0 else _EPOCH + datetime.timedelta(milliseconds=value),
}
