"""Decodes the values of many records to Arrow columns at once.

A value that does not fit the schema becomes null, with a text that says why. It does not affect other values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kcli.formats.avro.arrow_types import arrow_type
from kcli.formats.avro.column_cursor import TOO_SHORT, Batch, Cursor
from kcli.formats.avro.column_decoding import ColumnDecoders, Decode
from kcli.formats.avro.empty_items import empty_parts
from kcli.formats.avro.language import AvroSchema
from kcli.formats.codec import FormatError

BATCH_MAX_BYTES = 1 << 30
"""The most bytes that are decoded at once, because the offsets of Arrow's columns have 32 bits."""


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """The decoded values, and the error of each value that does not fit the schema."""

    values: pa.Array
    """Null for null, and for a value with an error."""

    errors: pa.StringArray


class ColumnDecoder:
    """Decodes values of one writer's schema to columns of the reader's schema. `type` is the type of the values."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema | None = None) -> None:
        """Raises FormatError for a schema that has too many columns."""
        target = writer.root if reader is None else reader.root
        arrow_type(writer.root)  # checks the number of columns, also of those that are skipped
        self.type = arrow_type(target)
        empty = empty_parts(writer.root) | empty_parts(target)
        try:
            self._decode: Decode = ColumnDecoders(empty).root(writer.root, target)
        except RecursionError:
            raise FormatError("the Avro schema is nested too deeply") from None

    def decode(self, values: pa.BinaryArray, skip_bytes: int = 0) -> DecodedColumn:
        """Decodes the values of a column, without the first `skip_bytes` of each value."""
        if values.nbytes > BATCH_MAX_BYTES and len(values) > 1:
            half = len(values) // 2
            parts = [self.decode(part, skip_bytes) for part in (values[:half], values[half:])]
            return DecodedColumn(
                pa.concat_arrays([part.values for part in parts]),
                pa.concat_arrays([part.errors for part in parts]),
            )
        values = values.cast(pa.binary())
        _, offsets, buffer = values.buffers()
        places = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1].astype(np.int64)
        batch = Batch(buffer if buffer is not None else pa.py_buffer(b""), len(values))
        rows = np.flatnonzero(~values.is_null().to_numpy(zero_copy_only=False))
        begins, ends = places[:-1][rows] + skip_bytes, places[1:][rows]
        cursor = Cursor(batch, begins, ends, rows)
        cursor.fail(begins > ends, TOO_SHORT)
        with np.errstate(invalid="ignore"):  # numpy warns if it converts a NaN that is not the usual one
            decoded = self._decode(cursor)
        cursor.finish()
        return DecodedColumn(self._valid(decoded, batch, rows, len(values)), batch.faults())

    def _valid(self, decoded: pa.Array, batch: Batch, rows: np.ndarray, count: int) -> pa.Array:
        """The decoded values of all rows, without those that have a fault."""
        if len(rows) == count and not batch.has_faults:
            return decoded
        places = np.zeros(count, np.int64)
        places[rows] = np.arange(len(rows))
        is_null = batch.faulty.copy()
        is_null |= ~np.isin(np.arange(count), rows)
        return decoded.take(pa.array(places, mask=is_null))
