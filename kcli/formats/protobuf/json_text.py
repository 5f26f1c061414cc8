"""Protobuf's JSON: messages as Java's JsonFormat prints them for console tools, and the way back.

Each field without presence is printed, also if it has its default. The text has no spaces. Fields are in the order of
their numbers, and characters of HTML are escaped, as Gson does. The keys of maps are sorted, because the Protobuf
library gives them no order.
"""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any

from kcli.formats.protobuf.codec import is_map
from kcli.formats.protobuf.well_known import ANY, TYPE_MEMBER
from kcli.model.java_floats import java_double, java_float

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

MAX_DEPTH = 100
"""The deepest nesting of messages, as in Java's parser."""

GOOGLE = "google.protobuf."
"""The package of messages that have a JSON form of their own."""

_HTML = str.maketrans({one: f"\\u{ord(one):04x}" for one in "<>&='\u2028\u2029"})
_DELEGATED = frozenset(
    f"google.protobuf.{name}"
    for name in ("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue")
)


def to_json(message: Message, *, keeps_names: bool = False) -> str:
    """Returns the JSON text of a message. `keeps_names` prints the names of the .proto file instead of lowerCamelCase.

    Raises ValueError for a value that has no JSON, such as a time that is out of range.
    """
    from google.protobuf import json_format

    try:
        return _message(message, keeps_names)
    except (json_format.Error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def from_json(text: str, message: type[Message]) -> Message:
    """Returns the message of a JSON text. Raises ValueError for a text that does not fit the message."""
    from google.protobuf import json_format

    is_known = message.DESCRIPTOR.full_name.startswith(GOOGLE)
    if not is_known and text.lstrip(" \t\r\n")[:1] != "{":
        raise ValueError("expected a JSON object")
    try:
        pool = message.DESCRIPTOR.file.pool
        return json_format.Parse(text, message(), descriptor_pool=pool, max_recursion_depth=MAX_DEPTH)
    except (json_format.Error, RecursionError) as error:
        raise ValueError(str(error)) from None


def _message(message: Message, keeps_names: bool) -> str:
    full_name = message.DESCRIPTOR.full_name
    if full_name in _DELEGATED:
        return _delegated(message)
    if full_name.startswith(GOOGLE) and full_name.endswith("Value"):
        return _single(message.DESCRIPTOR.fields_by_name["value"], message.value, keeps_names)
    members = _any(message, keeps_names) if full_name == ANY else _members(message, keeps_names)
    return f"{{{','.join(members)}}}"


def _delegated(message: Message) -> str:
    from google.protobuf import json_format

    value = json.loads(json_format.MessageToJson(message))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).translate(_HTML)


def _any(message: Message, keeps_names: bool) -> list[str]:
    from google.protobuf import message_factory

    if not message.type_url:
        return []
    pool = message.DESCRIPTOR.file.pool
    try:
        descriptor = pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
    except KeyError:
        raise ValueError(f"the schema has no message {message.type_url}") from None
    inner = message_factory.GetMessageClass(descriptor).FromString(message.value)
    type_member = f'"{TYPE_MEMBER}":{string_text(message.type_url)}'
    text = _message(inner, keeps_names)
    if descriptor.full_name.startswith(GOOGLE) and (
        descriptor.full_name in _DELEGATED or descriptor.full_name.endswith(("Value", ".Any"))
    ):
        return [type_member, f'"value":{text}']
    return [type_member, *([text[1:-1]] if text != "{}" else [])]


def _members(message: Message, keeps_names: bool) -> list[str]:
    fields = sorted(message.DESCRIPTOR.fields, key=lambda field: field.number)
    return [
        f"{string_text(field.name if keeps_names else field.json_name)}:{_field(field, message, keeps_names)}"
        for field in fields
        if _is_printed(field, message)
    ]


def _is_printed(field: FieldDescriptor, message: Message) -> bool:
    """Whether a field is printed: if it is set, or if it has a default and is in no oneof."""
    if not field.has_presence:
        return True
    is_message = field.cpp_type == field.CPPTYPE_MESSAGE
    return message.HasField(field.name) or not (is_message or field.containing_oneof is not None)


def _field(field: FieldDescriptor, message: Message, keeps_names: bool) -> str:
    value = getattr(message, field.name)
    if is_map(field):
        key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        entries = [
            f"{_quoted(_single(key_field, key, keeps_names))}:{_single(value_field, value[key], keeps_names)}"
            for key in sorted(value)
        ]
        return f"{{{','.join(entries)}}}"
    if field.is_repeated:
        return f"[{','.join(_single(field, one, keeps_names) for one in value)}]"
    return _single(field, value, keeps_names)


def _single(field: FieldDescriptor, value: Any, keeps_names: bool) -> str:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return _message(value, keeps_names)
    if field.cpp_type == field.CPPTYPE_ENUM:
        if field.enum_type.full_name == "google.protobuf.NullValue":
            return "null"
        constant = field.enum_type.values_by_number.get(value)
        return f'"{constant.name}"' if constant is not None else str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, float):
        return float_text(field, value)
    is_long = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
    return f'"{value}"' if is_long else str(value)


def float_text(field: FieldDescriptor, value: float) -> str:
    """Returns the JSON of a float or a double, with the digits that Java prints."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return (java_float if field.cpp_type == field.CPPTYPE_FLOAT else java_double)(value)


def string_text(text: str) -> str:
    """Returns the JSON of a string."""
    return json.dumps(text, ensure_ascii=False).translate(_HTML)


def _quoted(text: str) -> str:
    return text if text.startswith('"') else f'"{text}"'
