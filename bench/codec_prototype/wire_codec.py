"""Replaces `kcli.protocol.wire.codec` without kio: frames around one of the prototype codecs.

`install` makes a process use this module, and makes the record classes the messages of the whole program. With a
prototype codec, `kcli.protocol.wire.codec` would be reduced to the code here.
"""

from __future__ import annotations

import importlib
import sys
import typing
from dataclasses import dataclass
from struct import Struct
from types import ModuleType

import wire_records

from kcli.protocol.wire.api import API, ApiKey, ApiSpec
from kcli.protocol.wire.packing import read_header_tags, read_request_header

Message = typing.Any

_HEADER = Struct(">hhih")
_INT32 = Struct(">i")
_codec: ModuleType


def install(codec: str) -> None:
    """Makes this process use the prototype `codec`. Must be called before any import of a message."""
    global _codec
    _codec = importlib.import_module(f"codec_prototype.{codec}")
    import kcli.protocol.messages

    kcli.protocol.messages.__path__ = wire_records.__path__
    sys.modules["kcli.protocol.wire.codec"] = sys.modules[__name__]


def message_class(key: ApiKey, kind: str) -> type:
    module, name = wire_records.MESSAGES[key.value, kind]
    found: type = getattr(importlib.import_module(f"kcli.protocol.messages.{module}"), name)
    return found


_CLASSES: dict[tuple[ApiKey, str], type] = {}


def _class(key: ApiKey, kind: str) -> type:
    found = _CLASSES.get((key, kind))
    if found is None:
        found = _CLASSES[key, kind] = message_class(key, kind)
    return found


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """A request's header. `body_offset` is where the body starts in the frame (which has no size prefix)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def decode_request_header(frame: bytes) -> RequestHeader:
    api_key, version, correlation_id, client_id, at = read_request_header(frame)
    spec = API.get(ApiKey(api_key)) if api_key in API else None
    if spec is not None and spec.is_flexible(version):
        at = read_header_tags(frame, at)
    return RequestHeader(api_key, version, correlation_id, client_id, at)


def decode_request(key: ApiKey, version: int, frame: bytes, offset: int) -> Message:
    return _codec.decode(_class(key, "request"), version, frame, offset)


def decode_response(key: ApiKey, version: int, frame: bytes) -> tuple[int, Message]:
    (correlation_id,) = _INT32.unpack_from(frame, 0)
    at = read_header_tags(frame, 4) if _response_has_tags(API[key], version) else 4
    return correlation_id, _codec.decode(_class(key, "response"), version, frame, at)


def encode_request(
    message: Message, key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    name = b"" if client_id is None else client_id.encode("utf-8")
    head = _HEADER.pack(key, version, correlation_id, -1 if client_id is None else len(name)) + name
    return _frame(head + b"\0" if API[key].is_flexible(version) else head, _codec.encode(message, version))


def encode_response(message: Message, key: ApiKey, version: int, correlation_id: int) -> bytes:
    head = _INT32.pack(correlation_id)
    head += b"\0" if _response_has_tags(API[key], version) else b""
    return _frame(head, _codec.encode(message, version))


def _frame(head: bytes, body: bytes) -> bytes:
    return _INT32.pack(len(head) + len(body)) + head + body


def _response_has_tags(spec: ApiSpec, version: int) -> bool:
    return spec.is_flexible(version) and spec.key is not ApiKey.API_VERSIONS
