"""kio's own reader and writer for our messages. Tests compare the compiled codec with this codec."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from kcli.errors import ErrorCode
from kcli.protocol.wire.api import ApiSpec
from rigs import kio_schema as schema

Converter = Callable[[Any], Any]

_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kio_decode(spec: ApiSpec, version: int, kind: str, body: bytes) -> object:
    read, convert = _reader(spec, version, kind)
    entity, _ = read(body, 0)
    return convert(entity)


def kio_encode(message: object, spec: ApiSpec, version: int, kind: str) -> bytes:
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
    """Returns a function from kio's struct of one version to our struct, which has the fields of all versions."""
    ours = schema.our_class(cls, spec, kind)
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
    """Returns a function from our struct to kio's struct of one version."""
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
