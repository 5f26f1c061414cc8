"""Makes Protobuf's JSON from decoded columns, a column at a time.

The texts are those of `to_json`. A message with a map, a well-known message, or itself inside itself has no such texts,
and its values are decoded one by one. The same applies to fields of proto2 that have a default without being set.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.formats.protobuf.codec import is_map
from kcli.formats.protobuf.column_types import Kind, Path, kind_of
from kcli.formats.protobuf.columns import ColumnDecoder
from kcli.formats.protobuf.json_text import float_text, string_text

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Texts = Callable[[pa.Array], pa.StringArray]
"""Makes the JSON text of each value. The text of a null is null."""

_SPECIAL = "[\\x00-\\x1f\"\\\\<>&='\\x{2028}\\x{2029}]"
"""Matches a character that is escaped, in the syntax of RE2."""

_NUMBER = "^-?[0-9]"
"""Matches the column of an enum that has a number without a name."""

NULL_VALUE = "google.protobuf.NullValue"


def message_texts(descriptor: Descriptor, path: Path = ()) -> Texts | None:
    """Returns the function that makes the texts of a message, or None if the columns do not have all that it needs.

    `path` has the messages that contain the message.
    """
    inner = (*path, descriptor.full_name)
    members: list[tuple[int, str, Texts]] = []
    for place, field in sorted(enumerate(descriptor.fields), key=lambda pair: pair[1].number):
        text = _member(field, inner)
        if text is None:
            return None
        members.append((place, f"{string_text(field.json_name)}:", text))

    def make(values: pa.StructArray) -> pa.StringArray:
        columns = values.flatten()
        pieces = [
            pc.binary_join_element_wise(name, text(columns[place]), "") for place, name, text in members
        ]
        # A null is a field that is not printed. Arrow drops a row without a text, so each row begins with an empty one.
        start = pa.array([""] * len(values), pa.string())
        joined = pc.binary_join_element_wise(start, *pieces, ",", null_handling="skip")
        whole = pc.binary_join_element_wise("{", pc.binary_replace_slice(joined, 0, 1, ""), "}", "")
        return whole if values.null_count == 0 else pc.if_else(values.is_valid(), whole, None)

    return make


def _member(field: FieldDescriptor, path: Path) -> Texts | None:
    is_message = field.message_type is not None
    if is_map(field) or (field.has_presence and not is_message and field.containing_oneof is None):
        return None
    one = _value(field, path)
    return one if one is None or not field.is_repeated else _list(one)


def _value(field: FieldDescriptor, path: Path) -> Texts | None:
    match kind_of(field, path):
        case Kind.RECORD:
            return message_texts(field.message_type, path)
        case Kind.SCALAR:
            return _scalar(field)
        case _:
            return None


def _scalar(field: FieldDescriptor) -> Texts | None:
    match field.cpp_type:
        case field.CPPTYPE_INT32 | field.CPPTYPE_UINT32:
            return lambda values: values.cast(pa.string())
        case field.CPPTYPE_INT64 | field.CPPTYPE_UINT64:
            return lambda values: pc.binary_join_element_wise('"', values.cast(pa.string()), '"', "")
        case field.CPPTYPE_BOOL:
            return lambda values: pc.if_else(values, "true", "false")
        case field.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            return lambda values: _each(values, lambda raw: f'"{base64.b64encode(raw).decode()}"')
        case field.CPPTYPE_STRING:
            return _strings
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return lambda values: _each(values, lambda number: float_text(field, number))
        case field.CPPTYPE_ENUM if field.enum_type.full_name != NULL_VALUE:
            return _enums
        case _:
            return None


def _each(values: pa.Array, text: Callable[..., str]) -> pa.StringArray:
    return pa.array([None if value is None else text(value) for value in values.to_pylist()], pa.string())


def _strings(values: pa.StringArray) -> pa.StringArray:
    quoted = pc.binary_join_element_wise('"', values, '"', "")
    special = pc.fill_null(pc.match_substring_regex(values, _SPECIAL), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = pa.array([string_text(text) for text in values.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(quoted, special, escaped)


def _enums(values: pa.StringArray) -> pa.StringArray:
    quoted = pc.binary_join_element_wise('"', values, '"', "")
    return pc.if_else(pc.match_substring_regex(values, _NUMBER), values, quoted)


def _list(items: Texts) -> Texts:
    def make(values: pa.ListArray) -> pa.StringArray:
        lists = pa.ListArray.from_arrays(values.offsets, items(values.values))
        return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")

    return make


class LineDecoder:
    """Decodes many values of one message class to lines of JSON, if `is_possible`."""

    def __init__(self, message: type[Message]) -> None:
        self._texts = message_texts(message.DESCRIPTOR)
        self._columns = None if self._texts is None else ColumnDecoder(message)

    @property
    def is_possible(self) -> bool:
        return self._columns is not None

    def decode(self, values: Sequence[bytes | None], skip_bytes: int) -> list[str | None]:
        """Returns the line of each value without its first bytes, or None for a value that `to_json` must print or
        refuse."""
        assert self._texts is not None and self._columns is not None, "is_possible comes first"
        offsets = np.zeros(len(values) + 1, np.int32)
        np.cumsum([len(value or b"") for value in values], out=offsets[1:])
        joined = pa.py_buffer(b"".join(value or b"" for value in values))
        array = pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), joined])
        decoded = self._columns.decode(array, skip_bytes)
        is_read = pc.and_(decoded.errors.is_null(), decoded.records.is_valid())
        texts: list[str | None] = pc.if_else(is_read, self._texts(decoded.records), None).to_pylist()
        return [None if value is None else text for value, text in zip(values, texts, strict=True)]
