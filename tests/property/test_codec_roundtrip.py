"""Any message of any version survives the trip through bytes."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import ErrorCode
from kcli.protocol.wire import codec, schema
from kcli.protocol.wire.api import API, ApiSpec
from rigs.examples import examples

_TEXT = st.text(max_size=6)
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_SCALARS: dict[type, st.SearchStrategy[Any]] = {
    str: _TEXT,
    bytes: st.binary(max_size=8),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    ErrorCode: st.sampled_from(list(ErrorCode)),
    uuid.UUID: st.none() | st.uuids().filter(lambda value: value != uuid.UUID(int=0)),
}


def _value(field: schema.Field, version: int) -> st.SearchStrategy[Any]:
    if field.is_struct:
        item = _struct(field.type, version)
    elif field.type is not int:
        item = _SCALARS[field.type]
    elif field.form == "H":
        item = st.integers(0, 2**16 - 1)
    else:
        bits = _BITS[field.form or ""]
        item = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if field.is_array:
        item = st.lists(item, max_size=2).map(tuple)
    return st.none() | item if field.nullable else item


def _struct(cls: type, version: int) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{field.name: _value(field, version) for field in schema.fields(cls, version)})


@st.composite
def _messages(draw: st.DrawFn) -> tuple[ApiSpec, int, str, Any]:
    spec = draw(st.sampled_from(list(API.values())))
    version = draw(st.sampled_from(spec.versions))
    kind = draw(st.sampled_from(schema.KINDS))
    return spec, version, kind, draw(_struct(schema.message_class(spec, kind), version))


@settings(max_examples=examples(300), deadline=None)
@given(_messages(), st.integers(-(2**31), 2**31 - 1), st.none() | _TEXT)
def test_encoded_messages_are_decoded_unchanged(
    case: tuple[ApiSpec, int, str, Any], correlation_id: int, client_id: str | None
) -> None:
    spec, version, kind, message = case
    if kind == "request":
        frame = codec.encode_request(message, spec.key, version, correlation_id, client_id)
        header = codec.decode_request_header(frame[4:])
        assert (header.correlation_id, header.client_id) == (correlation_id, client_id)
        assert codec.decode_request(spec.key, version, frame[4:], header.body_offset) == message
    else:
        frame = codec.encode_response(message, spec.key, version, correlation_id)
        assert codec.decode_response(spec.key, version, frame[4:]) == (correlation_id, message)
