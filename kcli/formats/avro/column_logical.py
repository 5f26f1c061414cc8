"""Makes Arrow columns of the stored values of logical types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kcli.formats.avro.column_cursor import Cursor
from kcli.formats.avro.schema import Logical, LogicalType
from kcli.model.java_text import LONG_MAX
from kcli.protocol.batches.record_starts import Bools, Ints

Numbers = NDArray[np.generic]

_MILLIS_MAX = LONG_MAX // 1000
DECIMAL_BYTES = 16
_SIGN = np.uint64(1 << 63)


def _date(values: Numbers, _cursor: Cursor) -> pa.Array:
    return pa.array(values).cast(pa.date32())


def _millis(kind: pa.DataType) -> Callable[[Numbers, Cursor], pa.Array]:
    def column(values: Numbers, cursor: Cursor) -> pa.Array:
        numbers = values.astype(np.int64)
        wrong = (numbers > _MILLIS_MAX) | (numbers < -_MILLIS_MAX)
        cursor.fail(wrong, "a timestamp is too large")
        return pa.array(np.where(wrong, 0, numbers) * 1000).cast(kind)

    return column


def _units(kind: pa.DataType) -> Callable[[Numbers, Cursor], pa.Array]:
    return lambda values, _cursor: pa.array(values).cast(kind)


NUMBER_COLUMNS: Mapping[Logical, Callable[[Numbers, Cursor], pa.Array]] = {
    Logical.DATE: _date,
    Logical.TIMESTAMP_MILLIS: _millis(pa.timestamp("us", tz="UTC")),
    Logical.TIMESTAMP_MICROS: _units(pa.timestamp("us", tz="UTC")),
    Logical.LOCAL_TIMESTAMP_MILLIS: _millis(pa.timestamp("us")),
    Logical.LOCAL_TIMESTAMP_MICROS: _units(pa.timestamp("us")),
}
"""The functions that make columns of whole numbers. Each other column of numbers has the stored numbers."""


def duration_column(begins: Ints, cursor: Cursor) -> pa.Array:
    """A column of three numbers of 32 bits, whose bytes are at `begins`."""
    table = cursor.batch.data.take(begins[:, None] + np.arange(12), mode="clip").view("<u4").astype(np.int64)
    names = ("months", "days", "milliseconds")
    return pa.StructArray.from_arrays([pa.array(table[:, nth].copy()) for nth in range(3)], names)


def decimal_column(begins: Ints, stops: Ints, logical: LogicalType, cursor: Cursor) -> pa.Array:
    """A column of decimals with up to 38 digits, whose bytes are between `begins` and `stops`."""
    data, sizes = cursor.batch.data, stops - begins
    negative = (data.take(begins, mode="clip") > 0x7F) & (sizes > 0)
    places = stops[:, None] - np.arange(1, DECIMAL_BYTES + 1)  # from the lowest byte to the highest
    fill = np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
    little = np.where(places >= begins[:, None], data.take(places, mode="clip"), fill)
    words = np.ascontiguousarray(little).view("<u8")
    wrong = _is_too_large(words, 10**logical.precision) | _has_more_bytes(begins, sizes, cursor)
    if wrong.any():
        cursor.fail(wrong, f"a number does not fit decimal({logical.precision}, {logical.scale})")
        words[wrong] = 0
    kind = pa.decimal128(logical.precision, logical.scale)
    return pa.Array.from_buffers(kind, len(begins), [None, pa.py_buffer(words)])


def _is_too_large(words: NDArray[np.uint64], bound: int) -> Bools:
    """Whether numbers of 128 bits are at least `bound`, or at most -`bound`."""
    low, high = (
        words[:, 0],
        words[:, 1] ^ _SIGN,
    )  # so that unsigned words have the order of the signed numbers
    return _at_least(low, high, bound) | ~_at_least(low, high, -bound + 1)


def _at_least(low: NDArray[np.uint64], high: NDArray[np.uint64], bound: int) -> Bools:
    bound_low = np.uint64(bound & 0xFFFF_FFFF_FFFF_FFFF)
    bound_high = np.uint64((bound >> 64) + (1 << 63))
    at_least: Bools = (high > bound_high) | ((high == bound_high) & (low >= bound_low))
    return at_least


def _has_more_bytes(begins: Ints, sizes: Ints, cursor: Cursor) -> Bools:
    """Whether numbers have more than 128 bits. Bytes that only repeat the sign do not count."""
    wrong = sizes > DECIMAL_BYTES
    for nth in np.flatnonzero(wrong).tolist():
        raw = cursor.batch.raw[begins[nth] : begins[nth] + sizes[nth]]
        number = int.from_bytes(raw, signed=True)
        wrong[nth] = (number if number >= 0 else ~number).bit_length() > 127
    return wrong
