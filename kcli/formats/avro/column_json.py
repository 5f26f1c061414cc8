"""Makes the JSON encoding of Avro from decoded columns, a column at a time.

The texts are those of `json_decoder`. A schema with a type whose stored value the columns do not have (bytes, fixed,
decimal, duration, map) has no such texts, and its values are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.formats.avro.arrow_types import Path, branches_with_values
from kcli.formats.avro.codec import as_bytes_text
from kcli.formats.avro.columns import ColumnDecoder
from kcli.formats.avro.json_text import number, quote
from kcli.formats.avro.language import AvroSchema
from kcli.formats.avro.schema import (
    Array,
    Enum,
    Kind,
    Logical,
    LogicalType,
    Part,
    Primitive,
    Record,
    Union,
    branch_name,
    kind_of,
)

Texts = Callable[[pa.Array], pa.StringArray]
"""Makes the JSON text of each value. The text of a null is undefined."""

_NOT_PLAIN = r"[^ !#-\[\]-~]"
"""Matches a character that a JSON text may have to escape."""

_MILLIS = (Logical.TIMESTAMP_MILLIS, Logical.LOCAL_TIMESTAMP_MILLIS)
_WHOLE = (Kind.INT, Kind.LONG)


def json_texts(part: Part, path: Path = ()) -> Texts | None:
    """Returns the function that makes the texts of a type, or None if the columns do not have all that it needs.

    `path` has the records that contain the type.
    """
    match part:
        case Record():
            return _inner if part in path else _record(part, (*path, part))
        case Union():
            return _union(part, path)
        case Array():
            items = json_texts(part.items, path)
            return None if items is None else _list(items)
        case Enum():
            return _strings
        case Primitive():
            return _primitive(part.kind, part.logical)
        case _:
            return None


def _inner(values: pa.StringArray) -> pa.StringArray:
    """A record inside itself is JSON already, whose supplementary characters a line escapes."""
    return pa.array(
        [None if text is None else as_bytes_text(text) for text in values.to_pylist()], pa.string()
    )


def _primitive(kind: Kind, logical: LogicalType | None) -> Texts | None:
    if kind in _WHOLE:
        return _millis if logical is not None and logical.logical in _MILLIS else _numbers
    if kind is Kind.STRING:
        return _strings if logical is None else None
    return {Kind.NULL: _nulls, Kind.BOOLEAN: _booleans, Kind.FLOAT: _singles, Kind.DOUBLE: _doubles}.get(kind)


def _nulls(values: pa.Array) -> pa.StringArray:
    return pa.array(["null"] * len(values), pa.string())


def _booleans(values: pa.BooleanArray) -> pa.StringArray:
    return pc.if_else(values, "true", "false")


def _numbers(values: pa.Array) -> pa.StringArray:
    """Whole numbers, also those that are dates and times in the columns."""
    stored = pa.int32() if values.type.bit_width == 32 else pa.int64()
    return values.view(stored).cast(pa.string())


def _millis(values: pa.Array) -> pa.StringArray:
    """Timestamps whose column has microseconds."""
    return pc.divide(values.view(pa.int64()), 1000).cast(pa.string())


def _doubles(values: pa.DoubleArray) -> pa.StringArray:
    return pa.array([None if value is None else number(value) for value in values.to_pylist()], pa.string())


def _singles(values: pa.FloatArray) -> pa.StringArray:
    """Java makes a double of a float, and adds 0, which removes the sign of -0."""
    return _doubles(pc.add(values.cast(pa.float64()), 0.0))


def _strings(values: pa.StringArray) -> pa.StringArray:
    quoted = pc.binary_join_element_wise('"', values, '"', "")
    special = pc.fill_null(pc.match_substring_regex(values, _NOT_PLAIN), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = pa.array(
        [as_bytes_text(quote(text)) for text in values.filter(special).to_pylist()], pa.string()
    )
    return pc.replace_with_mask(quoted, special, escaped)


def _record(record: Record, path: Path) -> Texts | None:
    texts = [json_texts(field.type, path) for field in record.fields]
    if any(text is None for text in texts):
        return None
    names = [
        f"{',' if nth else ''}{as_bytes_text(quote(field.name))}:" for nth, field in enumerate(record.fields)
    ]

    def make(values: pa.StructArray) -> pa.StringArray:
        if not texts:
            return pa.array(["{}"] * len(values), pa.string())
        pieces: list[pa.Array | str] = ["{"]
        for name, text, column in zip(names, texts, values.flatten(), strict=True):
            assert text is not None, "checked above"
            pieces += (name, text(column))
        return pc.binary_join_element_wise(*pieces, "}", "")

    return make


def _list(items: Texts) -> Texts:
    def make(values: pa.ListArray) -> pa.StringArray:
        lists = pa.ListArray.from_arrays(values.offsets, items(values.values))
        return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")

    return make


def _union(union: Union, path: Path) -> Texts | None:
    branches = branches_with_values(union)
    texts = [json_texts(branch, path) for branch in branches]
    if any(text is None for text in texts) or any(kind_of(branch) is Kind.NULL for branch in branches):
        return None
    names = [f"{{{as_bytes_text(quote(branch_name(branch)))}:" for branch in branches]

    def make(values: pa.Array) -> pa.StringArray:
        columns = values.flatten() if len(branches) > 1 else [values]
        named = pa.array(["null"] * len(values), pa.string())
        for name, text, column in zip(names, texts, columns, strict=False):
            assert text is not None, "checked above"
            shown = pc.binary_join_element_wise(name, text(column), "}", "")
            named = pc.if_else(column.is_valid(), shown, named)
        return named

    return make


class LineDecoder:
    """Decodes many values of one writer's schema to lines of JSON, if `is_possible`."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema | None = None) -> None:
        self._texts = json_texts((writer if reader is None else reader).root)
        self._columns = None if self._texts is None else ColumnDecoder(writer, reader)

    @property
    def is_possible(self) -> bool:
        return self._columns is not None

    def decode(self, values: Sequence[bytes]) -> list[str | None]:
        """Returns the line of each value, or None for a value that `json_decoder` must decode or refuse."""
        assert self._texts is not None and self._columns is not None, "is_possible comes first"
        ends = np.cumsum([len(value) for value in values], dtype=np.int32)
        offsets = pa.py_buffer(np.concatenate([np.zeros(1, np.int32), ends]))
        joined = pa.py_buffer(b"".join(values))
        decoded = self._columns.decode(
            pa.Array.from_buffers(pa.binary(), len(values), [None, offsets, joined])
        )
        lines = self._texts(decoded.values)
        if decoded.errors.null_count < len(values):
            lines = pc.if_else(decoded.errors.is_valid(), None, lines)
        texts: list[str | None] = lines.to_pylist()
        return texts
