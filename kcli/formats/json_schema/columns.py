"""Decodes many JSON values at once to columns of Arrow.

pyarrow's parser reads blocks of values in C++. It is stricter than Jackson, and it stops at the first value that it
cannot read. So a block with an error is cut in halves, and single values are read by the exact and slow codec. Each
value gets a number as its first member before it is parsed, which proves that the parser has seen the values one by
one. Without that, a broken value could take a part of its neighbour.

pyarrow's parser ends the process for a text such as `null`. So it only gets texts that begin with a brace.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING

from kcli.formats.json_schema.arrow_types import arrow_type, fitted, is_implied, nodes_of
from kcli.formats.json_schema.codec import decoded
from kcli.formats.json_schema.language import JsonSchema
from kcli.formats.json_schema.nodes import ObjectRules
from kcli.formats.json_schema.validation import value_validator

if TYPE_CHECKING:
    import pyarrow as pa

SINGLE_MAX = 8
"""A block of at most this many values with an error is decoded value by value."""
BLOCK_VALUES = 2_048
"""The most values of a block, which costs one call of the parser, and again if a value in it is broken."""


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


_DecodeBlock = Callable[[Sequence[bytes], int, int, "list[pa.StructArray]", list[RowError]], None]
"""Decodes the values from a start to an end, and adds their rows and errors to the lists."""


@dataclass(frozen=True, slots=True)
class _Check:
    """How values are validated. The types of the columns imply the schema if `is_implied`, except for nulls.

    If `is_closed`, an object in the schema permits no other members.
    """

    check: Callable[[object, int], None]
    is_implied: bool
    is_closed: bool


@dataclass(frozen=True, slots=True)
class _Numbering:
    """The name of the member with the number of a row, which no producer can guess, and the begins of the rows."""

    name: str = field(default_factory=lambda: f"row {secrets.token_hex(8)}")
    begins: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = self.name.encode()
        self.begins.extend(b'{"%b":%d,' % (name, row) for row in range(BLOCK_VALUES))


@dataclass(frozen=True, slots=True)
class ColumnDecoder:
    """Decodes the values of a schema. Members that the schema does not name are left out."""

    type: pa.StructType
    _check: _Check | None = None
    _numbering: _Numbering = field(default_factory=_Numbering)

    def decode(self, values: Sequence[bytes | None]) -> DecodedRows:
        """Decodes values. A value that does not fit the types is an error of its row, and does not hinder others."""
        return self._decoded(values, self._decode_block)

    def decode_singly(self, values: Sequence[bytes | None]) -> DecodedRows:
        """Decodes values one by one, with the exact reader. It is slow, and the result is that of `decode`."""
        return self._decoded(values, self._decode_each)

    def _decoded(self, values: Sequence[bytes | None], decode_block: _DecodeBlock) -> DecodedRows:
        import pyarrow as pa

        rows = [row for row, value in enumerate(values) if value is not None]
        texts = [value for value in values if value is not None]
        parts: list[pa.StructArray] = []
        errors: list[RowError] = []
        for start in range(0, len(texts), BLOCK_VALUES):
            decode_block(texts, start, min(start + BLOCK_VALUES, len(texts)), parts, errors)
        array = pa.concat_arrays(parts) if parts else pa.array([], self.type)
        if len(texts) == len(values):
            return DecodedRows(array, tuple(errors))
        # The parser has no text for a null, so the rows of the other values are moved to their places.
        places = dict(zip(rows, range(len(rows)), strict=True))
        moved = array.take(pa.array([places.get(row) for row in range(len(values))], pa.int64()))
        return DecodedRows(moved, tuple(RowError(rows[error.row], error.reason) for error in errors))

    def _decode_block(
        self,
        values: Sequence[bytes],
        start: int,
        end: int,
        parts: list[pa.StructArray],
        errors: list[RowError],
    ) -> None:
        """Adds the rows of a block. The recursion is as deep as the logarithm of its length."""
        checks_each = self._check is not None and not self._check.is_implied
        array = None if checks_each else self._parsed(values[start:end])
        if array is not None:
            parts.append(array)
        elif checks_each or end - start <= SINGLE_MAX:
            self._decode_each(values, start, end, parts, errors)
        else:
            middle = (start + end) // 2
            self._decode_block(values, start, middle, parts, errors)
            self._decode_block(values, middle, end, parts, errors)

    def _parsed(self, values: Sequence[bytes]) -> pa.StructArray | None:
        """Returns the rows of values that pyarrow's parser reads, or None if it cannot read all of them exactly."""
        import pyarrow as pa
        import pyarrow.json

        text = self._numbered(values)
        if text is None:
            return None
        numbered = pa.schema([pa.field(self._numbering.name, pa.int64()), *self.type])
        others = "error" if self._check is not None and self._check.is_closed else "ignore"
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(text),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=numbered, newlines_in_values=False, unexpected_field_behavior=others
                ),
            ).combine_chunks()
        except pa.ArrowException:
            return None
        if table.schema.names != numbered.names or not _counts_rows(table.column(0), len(values)):
            return None
        columns = [column.combine_chunks() for column in table.columns[1:]]
        if not all(map(_is_finite, columns)):
            return None
        if self._check is not None and any(map(_has_nulls, columns)):
            # Only the exact reader knows if a member is missing or null.
            return None
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _numbered(self, values: Sequence[bytes]) -> bytes | None:
        """Returns the values as lines with their numbers, or None for values that are not objects on one line."""
        if not all(map(bytes.startswith, values, repeat(_BEGINS))):
            return None
        lines = [begin + value[1:] for begin, value in zip(self._numbering.begins, values, strict=False)]
        text = b"\n".join(lines)
        if text.count(b"\n") != len(values) - 1 or b"\r" in text or _has_constants(text):
            return None
        try:
            text.decode()
        except UnicodeDecodeError:
            return None
        return text

    def _row(self, value: bytes) -> object:
        """Decodes a value with the exact reader. Raises ValueError."""
        tree = decoded(value)
        if self._check is not None:
            self._check.check(tree, len(value))
        return fitted(tree, self.type, "#")

    def _decode_each(
        self,
        values: Sequence[bytes],
        start: int,
        end: int,
        parts: list[pa.StructArray],
        errors: list[RowError],
    ) -> None:
        """Adds the rows of a block with the exact reader."""
        import pyarrow as pa

        rows: list[object] = []
        for row in range(start, end):
            try:
                rows.append(self._row(values[row]))
            except ValueError as error:
                rows.append(None)
                errors.append(RowError(row, str(error)))
        parts.append(pa.array(rows, self.type))


def column_decoder(schema: JsonSchema, *, validates: bool = False) -> ColumnDecoder | None:
    """Returns the decoder of an object whose properties have simple types, or None for any other schema.

    If `validates` is True, a value that the schema does not permit is an error of its row. Raises FormatError if the
    values of the schema cannot be validated.
    """
    found = None if schema.node is None else arrow_type(schema.node)
    if schema.node is None or found is None:
        return None
    if not validates:
        return ColumnDecoder(found)
    nodes = nodes_of(schema.node)
    check = _Check(
        value_validator(schema.documents).check,
        is_implied=all(map(is_implied, nodes)),
        is_closed=any(
            isinstance(node.rules, ObjectRules) and not node.rules.content.is_permitted for node in nodes
        ),
    )
    return ColumnDecoder(found, check)


# The brace and the begin of a name. An object without members has no place for a number.
_BEGINS = (b'{"', b"{ ")


# The constants that pyarrow's parser reads like numbers. They are not JSON.
_CONSTANT = re.compile(rb"[:,\[]\s*-?(?:NaN|Inf(?:inity)?)\s*[,\]}]")


def _has_constants(text: bytes) -> bool:
    """Whether a text may have such a constant. The text of a string may look like one, which only costs time."""
    return (b"NaN" in text or b"Inf" in text) and _CONSTANT.search(text) is not None


def _counts_rows(column: pa.ChunkedArray, count: int) -> bool:
    """Whether the column has the numbers of the rows, each once and in order."""
    import pyarrow as pa

    return len(column) == count and column.combine_chunks().equals(pa.array(range(count), pa.int64()))


def _is_finite(column: pa.Array) -> bool:
    """Whether all floating-point numbers of a column are finite. pyarrow's parser reads 1e400 as infinity."""
    import pyarrow as pa
    import pyarrow.compute

    if pa.types.is_struct(column.type) or pa.types.is_list(column.type):
        return all(
            map(_is_finite, column.flatten() if pa.types.is_struct(column.type) else [column.flatten()])
        )
    if not pa.types.is_floating(column.type):
        return True
    return pyarrow.compute.all(pyarrow.compute.is_finite(column)).as_py() is not False


def _has_nulls(column: pa.Array) -> bool:
    """Whether a column has a null, also inside of its structures and lists."""
    import pyarrow as pa

    if column.null_count:
        return True
    if pa.types.is_struct(column.type):
        return any(map(_has_nulls, column.flatten()))
    return pa.types.is_list(column.type) and _has_nulls(column.flatten())
