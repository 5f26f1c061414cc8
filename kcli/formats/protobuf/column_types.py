"""The Arrow types of messages, and rows of these types.

A field is a column. A well-known message is a time, a time span, its value or JSON text. A message inside itself and a
message that is nested very deep are JSON text, because a column has a fixed depth.
"""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Any

from kcli.formats.codec import FormatError, Value
from kcli.formats.protobuf.codec import is_map, message_value
from kcli.formats.protobuf.json_text import from_json, to_json
from kcli.formats.protobuf.well_known import ANY, DURATION, JSON_VALUES, TIMESTAMP, WRAPPERS, conversion

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Path = tuple[str, ...]
"""The full names of the messages that contain a field, the outermost first."""


MAX_COLUMNS = 10_000
"""The number of columns of a message. A schema whose messages contain others twice may have 2 to the 30th."""


MAX_COLUMN_DEPTH = 32
"""Messages that are nested deeper are JSON text."""


class Kind(enum.Enum):
    """How the value of a field becomes a value of a column."""

    SCALAR = enum.auto()
    TIME = enum.auto()
    SPAN = enum.auto()
    WRAPPER = enum.auto()
    JSON = enum.auto()
    RECORD = enum.auto()


def kind_of(field: FieldDescriptor, path: Path) -> Kind:
    """Returns the kind of one value of a field."""
    if field.message_type is None:
        return Kind.SCALAR
    name = field.message_type.full_name
    if name in (TIMESTAMP, DURATION):
        return Kind.TIME if name == TIMESTAMP else Kind.SPAN
    if name in WRAPPERS:
        return Kind.WRAPPER
    is_json = name in JSON_VALUES or name == ANY or name in path or len(path) > MAX_COLUMN_DEPTH
    return Kind.JSON if is_json else Kind.RECORD


def column_types(descriptor: Descriptor) -> pa.StructType:
    """Returns the Arrow type of a message. Raises FormatError for more than MAX_COLUMNS columns."""
    if _column_count(descriptor, (), {}) > MAX_COLUMNS:
        raise FormatError(f"the message {descriptor.full_name} has more than {MAX_COLUMNS} columns")
    return _record_type(descriptor, ())


def _column_count(descriptor: Descriptor, path: Path, counts: dict[str, int]) -> int:
    """Returns the number of columns of a message with those inside them. `counts` has the numbers that are known."""
    name = descriptor.full_name
    if name not in counts:
        count = len(descriptor.fields)
        for field in descriptor.fields:
            if kind_of(field, (*path, name)) is Kind.RECORD:
                count += _column_count(field.message_type, (*path, name), counts)
        counts[name] = min(count, MAX_COLUMNS + 1)
    return counts[name]


def _record_type(descriptor: Descriptor, path: Path) -> pa.StructType:
    import pyarrow as pa

    inner = (*path, descriptor.full_name)
    return pa.struct([(field.name, _field_type(field, inner)) for field in descriptor.fields])


def _field_type(field: FieldDescriptor, path: Path) -> pa.DataType:
    import pyarrow as pa

    if is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(value_type(entry["key"], path), value_type(entry["value"], path))
    one = value_type(field, path)
    return pa.list_(one) if field.is_repeated else one


def value_type(field: FieldDescriptor, path: Path) -> pa.DataType:
    """Returns the Arrow type of one value of a field."""
    import pyarrow as pa

    match kind_of(field, path):
        case Kind.TIME:
            return pa.timestamp("us", tz="UTC")
        case Kind.SPAN:
            return pa.duration("us")
        case Kind.WRAPPER:
            return value_type(field.message_type.fields_by_name["value"], path)
        case Kind.JSON:
            return pa.string()
        case Kind.RECORD:
            return _record_type(field.message_type, path)
        case Kind.SCALAR:
            return _scalar_type(field)


def _scalar_type(field: FieldDescriptor) -> pa.DataType:
    import pyarrow as pa

    return {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }[field.cpp_type]


def row_of(message: Message, path: Path = ()) -> dict[str, Value]:
    """Returns the row of a message. Raises ValueError for a value without one, such as a time that is out of range."""
    inner = (*path, message.DESCRIPTOR.full_name)
    row: dict[str, Value] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if is_map(field):
            of = field.message_type.fields_by_name["value"]
            row[field.name] = [(key, _row_value(of, value[key], inner)) for key in sorted(value)]
        elif field.is_repeated:
            row[field.name] = [_row_value(field, one, inner) for one in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _row_value(field, value, inner)
    return row


def _row_value(field: FieldDescriptor, value: Any, path: Path) -> Value:
    match kind_of(field, path):
        case Kind.RECORD:
            return row_of(value, path)
        case Kind.JSON:
            return json_of(value)
        case Kind.SCALAR if field.enum_type is not None:
            constant = field.enum_type.values_by_number.get(value)
            return constant.name if constant is not None else str(value)
        case Kind.SCALAR:
            plain: Value = value
            return plain
        case _:
            return message_value(value)


def json_of(message: Message) -> str:
    """Returns the JSON text of a message. An Any of an unknown type shows its own fields."""
    try:
        return to_json(message)
    except ValueError:
        if message.DESCRIPTOR.full_name != ANY:
            raise
        return json.dumps({"typeUrl": message.type_url, "value": message.value.hex()}, separators=(",", ":"))


def value_of_row(row: Value, descriptor: Descriptor, path: Path = ()) -> Value:
    """Returns the value that a codec encodes, from a row of the column types. Raises ValueError for invalid JSON."""
    if not isinstance(row, dict):
        return row
    inner = (*path, descriptor.full_name)
    return {
        name: _field_value(descriptor.fields_by_name[name], value, inner)
        if name in descriptor.fields_by_name
        else value
        for name, value in row.items()
    }


def _field_value(field: FieldDescriptor, value: Value, path: Path) -> Value:
    if is_map(field) and isinstance(value, list | dict):
        of = field.message_type.fields_by_name["value"]
        pairs = value.items() if isinstance(value, dict) else value
        return [
            (pair[0], _one_value(of, pair[1], path)) if isinstance(pair, tuple) else pair for pair in pairs
        ]
    if field.is_repeated and isinstance(value, list):
        return [_one_value(field, one, path) for one in value]
    return _one_value(field, value, path)


def _one_value(field: FieldDescriptor, value: Value, path: Path) -> Value:
    match kind_of(field, path), value:
        case Kind.RECORD, dict():
            return value_of_row(value, field.message_type, path)
        case Kind.JSON, str():
            from google.protobuf import message_factory

            message = from_json(value, message_factory.GetMessageClass(field.message_type))
            known = conversion(message.DESCRIPTOR.full_name)
            return known.value(message) if known is not None else message_value(message)
        case _:
            return value
