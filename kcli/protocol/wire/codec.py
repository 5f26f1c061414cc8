"""Decodes and encodes the frames of requests and responses.

The messages are the classes of `kcli.protocol.messages`, which have the fields of all versions. `schema` reads from
their annotations the fields of one version, and `compiled` makes the functions that read and write this version. If a
version lacks a field, a reader gives the field its default, and a writer leaves the field out. Kafka's generated
classes do the same.

A frame (https://kafka.apache.org/protocol) has a size (int32), a header and a body. Request header v2 has the fields of
v1 and a block of tagged fields (KIP-482). The client id in header v2 is not a compact string. ApiVersions responses
always have the v0 header (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cache
from typing import Any

from kcli.errors import ProtocolError
from kcli.model.buffers import Buffer
from kcli.model.java_utf8 import decode_utf8
from kcli.model.pace import Pace, at_once, no_pause
from kcli.protocol.wire import compiled, schema
from kcli.protocol.wire.api import API, ApiKey, ApiSpec
from kcli.protocol.wire.packing import cause_text
from kcli.protocol.wire.shared_array import Output
from kcli.protocol.wire_struct import compile_structs

Message = Any
"""A message of `kcli.protocol.messages`. The API key, and whether it is a request or a response, decide its class."""

_HEADER = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
_RESPONSE_HEAD = struct.Struct(">ii")

MAX_HEADER_TAGS = 64
"""The most tagged fields in a header. Kafka's headers have no tagged fields so far (KIP-482). The limit bounds the work
on invalid bytes."""


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of a request. `body_offset` is the position of the body in the frame (without size prefix)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def decode_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    """Reads the header of a frame without size prefix. Raises ProtocolError if the header is incomplete or malformed.

    An unknown API key or version is not an error here, because the caller handles both.
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
            client_id = decode_utf8(raw)
            offset += length
        spec = API.get(api_key)
        if spec is not None and spec.is_flexible(api_version):
            offset = _skip_tags(frame, offset)
    except IndexError as error:
        raise ProtocolError(f"Error parsing request header: {cause_text(error)}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, offset)


def decode_request(key: ApiKey, version: int, frame: bytes, offset: int) -> Message:
    """Decodes the request in `frame[offset:]`. Raises ProtocolError if the bytes are not such a request."""
    return at_once(decoded_request(key, version, frame, offset, no_pause))


def decoded_request(
    key: ApiKey, version: int, frame: bytes, offset: int, pace: Pace
) -> Coroutine[Any, Any, Message]:
    """Does the same as `decode_request`, and pauses a large message."""
    return _decoded(API[key], version, "request", frame, offset, pace)


def decode_response(key: ApiKey, version: int, frame: bytes) -> tuple[int, Message]:
    """Decodes a frame without size prefix to its correlation id and response. Raises ProtocolError for invalid
    bytes."""
    return at_once(decoded_response(key, version, frame, no_pause))


async def decoded_response(key: ApiKey, version: int, frame: bytes, pace: Pace) -> tuple[int, Message]:
    """Does the same as `decode_response`, and pauses a large message."""
    correlation_id, offset = _response_header(API[key], version, frame)
    return correlation_id, await _decoded(API[key], version, "response", frame, offset, pace)


def encode_request(
    message: Message, key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Encodes a whole request frame, size prefix included."""
    spec = API[key]
    name = b"" if client_id is None else client_id.encode("utf-8")
    out = bytearray(_INT32.size)
    out += _HEADER.pack(key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if spec.is_flexible(version):
        out += b"\0"
    at_once(compiled.write(schema.message_class(spec, "request"), spec, version, message, out, no_pause))
    return bytes(_sized(out))


def encode_response(message: Message, key: ApiKey, version: int, correlation_id: int) -> bytes:
    """Encodes a whole response frame, size prefix included."""
    frame = at_once(encoded_response(message, key, version, correlation_id, no_pause))
    return b"".join(frame) if isinstance(frame, list) else bytes(frame)


async def encoded_response(
    message: Message, key: ApiKey, version: int, correlation_id: int, pace: Pace
) -> Buffer | list[Buffer]:
    """Does the same as `encode_response` for a message that may be large, and pauses it.

    The bytes of a large shared array are a buffer of the result. All responses with this array contain the same
    buffer.
    """
    spec = API[key]
    out = Output(_response_head(spec, version, correlation_id))
    await compiled.write(schema.message_class(spec, "response"), spec, version, message, out, pace)
    return out.frame()


def has_arrays(key: ApiKey, version: int, kind: str) -> bool:
    """Whether a message has arrays, so that its size has no fixed limit."""
    return compiled.has_arrays(schema.message_class(API[key], kind), version)


@cache
def prepare(key: ApiKey, version: int) -> None:
    """Compiles the functions and classes for a large request of this version and its response. Call this function
    before the request is decoded. The compiled objects stay in memory. If they lay between the objects of the request,
    Python could not give the memory of the request back."""
    spec = API[key]
    compiled.reader(schema.message_class(spec, "request"), spec, version)
    compiled.writer(schema.message_class(spec, "response"), spec, version)
    compile_structs(schema.messages(spec))


def message_class(key: ApiKey, kind: str) -> type:
    """The class in `kcli.protocol.messages` for a request or response."""
    return schema.message_class(API[key], kind)


def _response_head(spec: ApiSpec, version: int, correlation_id: int) -> bytes:
    """The beginning of a frame: four empty bytes for the size, and the header."""
    head = _RESPONSE_HEAD.pack(0, correlation_id)
    return head + b"\0" if _response_has_tags(spec, version) else head


def _sized(frame: bytearray) -> bytearray:
    """The frame with its size in its first four bytes."""
    _INT32.pack_into(frame, 0, len(frame) - _INT32.size)
    return frame


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


async def _decoded(spec: ApiSpec, version: int, kind: str, frame: bytes, offset: int, pace: Pace) -> Message:
    try:
        message, end = await compiled.read(
            schema.message_class(spec, kind), spec, version, frame, offset, pace
        )
    except Exception as error:  # malformed bytes can raise any kind of error
        raise _malformed(spec, version, kind, error) from error
    if end > len(frame):
        raise _malformed(spec, version, kind, f"it ends {end - len(frame)} bytes after its frame")
    return message


def _response_header(spec: ApiSpec, version: int, frame: bytes) -> tuple[int, int]:
    """The correlation id of a response, and the position after its header."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
        offset = _INT32.size
        if _response_has_tags(spec, version):
            offset = _skip_tags(frame, offset)
    except (struct.error, IndexError) as error:
        raise ProtocolError(
            f"{spec.name} v{version} response header is malformed: {cause_text(error)}"
        ) from error
    return correlation_id, offset


def _malformed(spec: ApiSpec, version: int, kind: str, cause: Exception | str) -> ProtocolError:
    why = cause if isinstance(cause, str) else cause_text(cause)
    return ProtocolError(f"{spec.name} v{version} {kind} is malformed: {why}")


def encode_body(message: Message, spec: ApiSpec, version: int, kind: str) -> bytes:
    """A message without size prefix and header."""
    out = bytearray()
    at_once(compiled.write(schema.message_class(spec, kind), spec, version, message, out, no_pause))
    return bytes(out)
