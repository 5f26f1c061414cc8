"""Decodes many JSON values at once to columns of Arrow.

pyarrow's parser reads blocks of values in C++. It is stricter than Jackson, and it stops at the first value that it
cannot read. So a block with an error is cut in halves, and single values are read by the exact and slow codec. Each
value gets a number as its first member before it is parsed, which proves that the parser has seen the values one by
one. Without that, a broken value could take a part of its neighbour.

pyarrow's parser ends the process for a text such as `null`. So it only gets texts that begin with a brace.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from kcli.formats.codec import Value
from kcli.formats.json_schema.codec import decoded
from kcli.formats.json_schema.language import JsonSchema
from kcli.formats.json_schema.nodes import (
    ArrayRules,
    Combined,
    Criterion,
    Node,
    NumberRules,
    ObjectRules,
    Plain,
    StringRules,
)
from kcli.formats.json_schema.text import Json
from kcli.model.java_numbers import decimal_to_double
from kcli.model.java_text import LONG_MAX, LONG_MIN

if TYPE_CHECKING:
    import pyarrow as pa

SINGLE_MAX = 8
"""A block of at most this many values with an error is decoded value by value."""
BLOCK_VALUES = 2_048
"""The most values of a block, which costs one call of the parser, and again if a value in it is broken."""
SHOWN_MAX = 50
"""The most characters of a value in an error."""
DEPTH_MAX = 30
"""The most structures within each other in a column."""


@dataclass(frozen=True, slots=True)
class RowError:
    """A value that could not be decoded. `row` is its index."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """An array of structures, with a null for each value that is null or could not be decoded."""

    array: pa.StructArray
    errors: tuple[RowError, ...]


@dataclass(frozen=True, slots=True)
class ColumnDecoder:
    """Decodes the values of a schema. Members that the schema does not name are left out."""

    type: pa.StructType
    _number_name: str = field(default_factory=lambda: f"row {secrets.token_hex(16)}")

    def decode(self, values: Sequence[bytes | None]) -> DecodedRows:
        """Decodes values. A value that does not fit the types is an error of its row, and does not hinder others."""
        import pyarrow as pa

        parts: list[pa.StructArray] = []
        errors: list[RowError] = []
        for start in range(0, len(values), BLOCK_VALUES):
            self._decode_block(values, start, min(start + BLOCK_VALUES, len(values)), parts, errors)
        array = pa.concat_arrays(parts) if parts else pa.array([], self.type)
        return DecodedRows(array, tuple(errors))

    def decode_singly(self, values: Sequence[bytes | None]) -> DecodedRows:
        """Decodes values one by one, with the exact reader. It is slow, and the result is that of `decode`."""
        errors: list[RowError] = []
        array = self._decoded_singly(values, 0, len(values), errors)
        return DecodedRows(array, tuple(errors))

    def _decode_block(
        self,
        values: Sequence[bytes | None],
        start: int,
        end: int,
        parts: list[pa.StructArray],
        errors: list[RowError],
    ) -> None:
        """Adds the rows of a block. The recursion is as deep as the logarithm of its length."""
        array = self._parsed(values[start:end])
        if array is not None:
            parts.append(array)
        elif end - start <= SINGLE_MAX:
            parts.append(self._decoded_singly(values, start, end, errors))
        else:
            middle = (start + end) // 2
            self._decode_block(values, start, middle, parts, errors)
            self._decode_block(values, middle, end, parts, errors)

    def _parsed(self, values: Sequence[bytes | None]) -> pa.StructArray | None:
        """Returns the rows of values that pyarrow's parser reads, or None if it cannot read all of them exactly."""
        import pyarrow as pa
        import pyarrow.json

        text = self._numbered(values)
        if text is None:
            return None
        numbered = pa.schema([pa.field(self._number_name, pa.int64()), *self.type])
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(text),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=numbered, newlines_in_values=False, unexpected_field_behavior="ignore"
                ),
            ).combine_chunks()
        except pa.ArrowException:
            return None
        if table.schema.names != numbered.names or not _counts_rows(table.column(0), len(values)):
            return None
        columns = [column.combine_chunks() for column in table.columns[1:]]
        if not all(map(_is_finite, columns)):
            return None
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _numbered(self, values: Sequence[bytes | None]) -> bytes | None:
        """Returns the values as lines with their numbers, or None for values that are not objects on one line."""
        name = self._number_name.encode()
        lines = []
        for number, value in enumerate(values):
            if value is None or value[:1] != b"{" or value[1:2] not in _FIRST:
                return None
            lines.append(b'{"%b":%d,%b' % (name, number, value[1:]))
        text = b"\n".join(lines)
        if not lines or text.count(b"\n") != len(lines) - 1 or b"\r" in text:
            return None
        try:
            text.decode()
        except UnicodeDecodeError:
            return None
        return text

    def _decoded_singly(
        self, values: Sequence[bytes | None], start: int, end: int, errors: list[RowError]
    ) -> pa.StructArray:
        import pyarrow as pa

        rows: list[object] = []
        for row in range(start, end):
            value = values[row]
            try:
                rows.append(None if value is None else _fitted(decoded(value), self.type, "#"))
            except ValueError as error:
                rows.append(None)
                errors.append(RowError(row, str(error)))
        return pa.array(rows, self.type)


def column_decoder(schema: JsonSchema) -> ColumnDecoder | None:
    """Returns the decoder of an object whose properties have simple types, or None for any other schema."""
    import pyarrow as pa

    found = None if schema.node is None else _arrow_type(schema.node, DEPTH_MAX)
    return ColumnDecoder(found) if found is not None and pa.types.is_struct(found) else None


# The first byte after the brace: the begin of a name. An object without members gets no number this way.
_FIRST = frozenset({b'"', b" "})


def _arrow_type(node: Node, depth: int) -> pa.DataType | None:
    """Returns the type of a schema, or None if its values have no type or several types."""
    import pyarrow as pa

    node = node.referred
    if depth == 0 or not isinstance(node.source, dict):
        return None
    match node.rules:
        case Combined():
            return _combined_type(node.rules, depth)
        case _ if "type" not in node.source:
            return None
        case StringRules():
            return pa.string()
        case NumberRules(is_integer=is_integer):
            return pa.int64() if is_integer else pa.float64()
        case Plain.BOOLEAN:
            return pa.bool_()
        case ArrayRules(every_item=item, items=()) if item is not None:
            item_type = _arrow_type(item, depth - 1)
            return None if item_type is None else pa.list_(item_type)
        case ObjectRules(properties=properties) if properties:
            return _struct_type(node.source, properties, depth)
        case _:
            return None


def _struct_type(
    source: Mapping[str, Json], properties: Mapping[str, Node], depth: int
) -> pa.DataType | None:
    """Returns the type of an object, whose fields are in the order of the schema's text."""
    import pyarrow as pa

    order = source["properties"]
    assert isinstance(order, dict), "the builder has checked it"
    fields = {name: _arrow_type(properties[name], depth - 1) for name in order}
    return None if None in fields.values() else pa.struct(list(fields.items()))


def _combined_type(rules: Combined, depth: int) -> pa.DataType | None:
    """Returns the type of `T or null`, or of a type with other keywords such as `enum`."""
    if rules.is_split:
        typed = [
            member for member in rules.members if isinstance(member.source, dict) and "type" in member.source
        ]
    elif rules.criterion is Criterion.ALL and len(rules.members) > 1:
        return None
    else:
        typed = [member for member in rules.members if member.referred.rules is not Plain.NULL]
    return _arrow_type(typed[0], depth - 1) if len(typed) == 1 else None


def _counts_rows(column: pa.ChunkedArray, count: int) -> bool:
    """Whether the column has the numbers of the rows, each once and in order."""
    import pyarrow as pa

    return len(column) == count and column.combine_chunks().equals(pa.array(range(count), pa.int64()))


def _is_finite(column: pa.Array) -> bool:
    """Whether all floating-point numbers of a column are finite. pyarrow's parser also reads NaN, which is not JSON."""
    import pyarrow as pa
    import pyarrow.compute

    if pa.types.is_struct(column.type) or pa.types.is_list(column.type):
        return all(
            map(_is_finite, column.flatten() if pa.types.is_struct(column.type) else [column.flatten()])
        )
    if not pa.types.is_floating(column.type):
        return True
    return pyarrow.compute.all(pyarrow.compute.is_finite(column)).as_py() is not False


def _fitted(value: Value, expected: pa.DataType, path: str) -> object:
    """Returns a value for an array of a type. Raises ValueError, with the place, if the value has another type."""
    import pyarrow as pa

    if value is None:
        return None
    match value:
        case dict() if pa.types.is_struct(expected):
            return {
                item.name: _fitted(value.get(item.name), item.type, f"{path}/{item.name}")
                for item in expected
            }
        case list() if pa.types.is_list(expected):
            return [_fitted(item, expected.value_type, f"{path}/{at}") for at, item in enumerate(value)]
        case bool() if pa.types.is_boolean(expected):
            return value
        case str() if pa.types.is_string(expected):
            return value
        case bool():
            pass
        case int() | Decimal() if pa.types.is_integer(expected) and _is_long(value):
            return round(value)
        case int() | Decimal() if pa.types.is_floating(expected) and math.isfinite(decimal_to_double(value)):
            return decimal_to_double(value)
    raise ValueError(f"{path}: expected {expected}, found {_shown(value)}")


def _is_long(value: int | Decimal) -> bool:
    return LONG_MIN <= value <= LONG_MAX and (isinstance(value, int) or value == value.to_integral_value())


def _shown(value: Value) -> str:
    """Returns the value, or its type if the value may be long."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return repr(value) if isinstance(value, bool) else str(value)[:SHOWN_MAX]
