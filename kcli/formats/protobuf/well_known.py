"""Converts Protobuf's well-known messages to plain values and back.

A Timestamp is a time in UTC, a Duration a time span, a wrapper its value, and a Struct plain JSON. An Any whose type is
known is the value of its message with the member `@type`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.formats.codec import Value

if TYPE_CHECKING:
    from google.protobuf.message import Message

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
ANY = "google.protobuf.Any"
TYPE_MEMBER = "@type"
WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
JSON_VALUES = {f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue")}


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of one message type. `fill` raises ValueError for a value that does not fit."""

    value: Callable[[Message], Value]
    fill: Callable[[Message, Value], None]


def conversion(full_name: str) -> Conversion | None:
    """Returns the conversion of a well-known message type, or None for any other type."""
    if full_name in WRAPPERS:
        return _WRAPPER
    return _CONVERSIONS.get(full_name)


def _time(message: Message) -> Value:
    try:
        return EPOCH + _span(message)
    except OverflowError:
        raise ValueError(f"the time {message.seconds} s after 1970 has no date") from None


def _span(message: Message) -> datetime.timedelta:
    try:
        return datetime.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        raise ValueError(f"a time span of {message.seconds} s is too long") from None


def _fill_time(message: Message, value: Value) -> None:
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"expected a time, not {value!r}")
    _set_span(message, (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - EPOCH)


def _fill_span(message: Message, value: Value) -> None:
    if not isinstance(value, datetime.timedelta):
        raise ValueError(f"expected a time span, not {value!r}")
    if value >= datetime.timedelta(0):
        _set_span(message, value)
        return
    # Seconds and nanoseconds of a Duration have the same sign.
    _set_span(message, -value)
    message.seconds, message.nanos = -message.seconds, -message.nanos


def _set_span(message: Message, span: datetime.timedelta) -> None:
    message.seconds = span.days * 86_400 + span.seconds
    message.nanos = span.microseconds * 1000


def _wrapped(message: Message) -> Value:
    value: Value = message.value
    return value


def _fill_wrapper(message: Message, value: Value) -> None:
    message.value = value


def _json_value(message: Message) -> Value:
    """Returns the value of a Struct, a ListValue or a Value. Values nest at most as deep as Protobuf parses."""
    match message.DESCRIPTOR.name:
        case "Struct":
            return {name: _json_value(message.fields[name]) for name in sorted(message.fields)}
        case "ListValue":
            return [_json_value(one) for one in message.values]
        case _:
            kind = message.WhichOneof("kind")
            if kind in ("struct_value", "list_value"):
                return _json_value(getattr(message, kind))
            return None if kind in (None, "null_value") else _wrapped_kind(message, kind)


def _wrapped_kind(message: Message, kind: str) -> Value:
    value: Value = getattr(message, kind)
    return value


def _fill_json(message: Message, value: Value) -> None:
    match message.DESCRIPTOR.name, value:
        case "Struct", dict():
            message.SetInParent()
            for name, member in value.items():
                _fill_json(message.fields[name], member)
        case "ListValue", list():
            message.SetInParent()
            for member in value:
                _fill_json(message.values.add(), member)
        case "Value", None:
            message.null_value = 0
        case "Value", bool():
            message.bool_value = value
        case "Value", int() | float():
            message.number_value = value
        case "Value", str():
            message.string_value = value
        case "Value", dict():
            _fill_json(message.struct_value, value)
        case "Value", list():
            _fill_json(message.list_value, value)
        case name, _:
            raise ValueError(f"expected JSON for {name}, not {value!r}")


_WRAPPER = Conversion(_wrapped, _fill_wrapper)
_CONVERSIONS = {
    TIMESTAMP: Conversion(_time, _fill_time),
    DURATION: Conversion(_span, _fill_span),
    **dict.fromkeys(JSON_VALUES, Conversion(_json_value, _fill_json)),
}
