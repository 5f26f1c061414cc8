"""Decodes the elements of arrays and maps of many values to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kcli.formats.avro.column_cursor import Cursor
from kcli.formats.avro.column_values import value_before
from kcli.formats.avro.empty_items import EMPTY_ITEMS_MAX
from kcli.formats.avro.numbers import InvalidAvro, read_long
from kcli.formats.avro.stored_values import Read
from kcli.protocol.batches.record_starts import Ints

FEW_ROWS = 64
"""If fewer rows have more elements, a plain loop over the elements is faster than numpy (measured)."""

BLOCK_TOO_LONG = "a block of elements is too long"


@dataclass(frozen=True, slots=True)
class Elements:
    """Decodes the blocks of arrays or maps. An element has one column in an array, and two in a map."""

    decode_next: Callable[[Cursor], list[pa.Array]]
    """Decodes the next element of each row."""

    reads: Sequence[Read]
    """The functions for one element, one for each column."""

    types: Sequence[pa.DataType]
    is_empty: bool
    """Whether an element may have no bytes."""

    def decode(self, cursor: Cursor) -> tuple[list[pa.Array], Ints]:
        """Returns the columns of all elements, row after row, and the number of elements of each row."""
        return _Decoding(self, cursor).run()


@dataclass(slots=True)
class _Decoding:
    elements: Elements
    cursor: Cursor
    _pieces: list[list[pa.Array]] = field(default_factory=list)
    _owners: list[Ints] = field(default_factory=list)
    """The row of each element in `_pieces`."""

    def run(self) -> tuple[list[pa.Array], Ints]:
        count = len(self.cursor)
        rows, left = np.arange(count), np.zeros(0, np.int64)
        while len(rows) >= FEW_ROWS:
            left = self._block(rows)
            rows = rows[left > 0]
            left = left[left > 0]
            unread = rows
            while len(unread) >= FEW_ROWS:
                self._step(unread)
                left -= 1
                unread, left = unread[left > 0], left[left > 0]
            if len(unread):
                self._finish(unread, left)
                rows = np.setdiff1d(rows, unread, assume_unique=True)
        if len(rows):
            self._finish(rows, np.zeros(len(rows), np.int64))
        return self._joined(count)

    def _block(self, rows: Ints) -> Ints:
        """Reads the number of elements in the next block of each row."""
        part = self.cursor.part(rows)
        counts = part.longs()
        negative = np.flatnonzero(counts < 0)
        if len(negative):  # the size of the block in bytes follows, with which a reader could skip the block
            sized = part.part(negative)
            sized.longs()
            part.join(negative, sized)
            counts = np.abs(counts)
        most = EMPTY_ITEMS_MAX if self.elements.is_empty else part.ends - part.at
        wrong = (counts > most) | (counts < 0)  # the lowest long has no absolute value
        part.fail(wrong, BLOCK_TOO_LONG)
        self.cursor.join(rows, part)
        return np.where(wrong, 0, counts)

    def _step(self, rows: Ints) -> None:
        part = self.cursor.part(rows)
        self._pieces.append(self.elements.decode_next(part))
        self._owners.append(rows)
        self.cursor.join(rows, part)

    def _finish(self, rows: Ints, left: Ints) -> None:
        """Reads all blocks of some rows element by element. `left` is the rest of the present block of each row."""
        cursor, raw = self.cursor, self.cursor.batch.raw
        columns: list[list[object]] = [[] for _ in self.elements.types]
        counts = np.zeros(len(rows), np.int64)
        for nth, (row, count) in enumerate(zip(rows.tolist(), left.tolist(), strict=True)):
            before, end = len(columns[0]), int(cursor.ends[row])
            try:
                cursor.at[row] = self._rest(raw, int(cursor.at[row]), end, count, columns)
            except InvalidAvro as error:
                cursor.batch.fail(cursor.rows[row : row + 1], str(error))
                cursor.at[row] = end
                for column in columns:
                    del column[before:]
            counts[nth] = len(columns[0]) - before
        self._pieces.append(
            [pa.array(column, kind) for column, kind in zip(columns, self.elements.types, strict=True)]
        )
        self._owners.append(np.repeat(rows, counts))

    def _rest(self, raw: bytes, at: int, end: int, count: int, columns: list[list[object]]) -> int:
        while True:
            for _ in range(count):
                for column, read in zip(columns, self.elements.reads, strict=True):
                    value, at = value_before(read, raw, at, end)
                    column.append(value)
            count, at = value_before(read_long, raw, at, end)  # type: ignore[assignment]
            if count < 0:
                count = -count
                _, at = value_before(read_long, raw, at, end)
            if not count:
                return at
            if count > (EMPTY_ITEMS_MAX if self.elements.is_empty else end - at):
                raise InvalidAvro(BLOCK_TOO_LONG)

    def _joined(self, count: int) -> tuple[list[pa.Array], Ints]:
        if not self._pieces:
            return [pa.nulls(0, kind) for kind in self.elements.types], np.zeros(count, np.int64)
        owners = np.concatenate(self._owners)
        columns = [pa.concat_arrays(column) for column in zip(*self._pieces, strict=True)]
        if len(self._pieces) > 1:
            order = pa.array(np.argsort(owners, kind="stable"))
            columns = [column.take(order) for column in columns]
        return columns, np.bincount(owners, minlength=count)


def list_offsets(counts: Ints) -> pa.Array:
    """The offsets of lists with numbers of elements."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.array(offsets)
