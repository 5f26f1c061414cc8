"""Any message of any version survives the trip through bytes."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import ErrorCode
from kcli.protocol.wire import codec, schema
from kcli.protocol.wire.api import API, ApiSpec
from kcli.testing.rigs.examples import examples

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXT = st.text(max_size=6)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXT,
    "bytes": st.binary(max_size=8),
    "records": st.binary(max_size=8),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "error_code": st.sampled_from(list(ErrorCode)),
    "uuid": st.none() | st.uuids().filter(lambda value: value != uuid.UUID(int=0)),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1),
    "timedelta_i64": st.integers(-(2**50), 2**50),
    "datetime_i64": st.integers(-1, 2**43),
    "uint16": st.integers(0, 2**16 - 1),
}


def _value(field: schema.Field, spec: ApiSpec, kind: str) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        item = _struct(field.struct, spec, kind)
    elif field.kafka_type in _INTEGERS:
        bits = _INTEGERS[field.kafka_type]
        item = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    else:
        item = _SCALARS[field.kafka_type or ""]
    if field.is_array:
        item = st.lists(item, max_size=2).map(tuple)
    return st.none() | item if field.nullable else item


def _struct(cls: type, spec: ApiSpec, kind: str) -> st.SearchStrategy[Any]:
    ours = schema.our_class(cls, spec, kind)
    return st.builds(ours, **{field.our_name: _value(field, spec, kind) for field in schema.fields(cls)})


@st.composite
def _messages(draw: st.DrawFn) -> tuple[ApiSpec, int, str, Any]:
    spec = draw(st.sampled_from(list(API.values())))
    version = draw(st.sampled_from(schema.versions(spec)))
    kind = draw(st.sampled_from(schema.KINDS))
    return spec, version, kind, draw(_struct(schema.payload_class(spec, version, kind), spec, kind))


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
