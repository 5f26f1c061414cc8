"""Makes Arrow record batches with the columns of Spark's Kafka source, without a Python loop over values.

The buffer of decoded batches contains the values of a column, from start0 to end0, from start1 to end1, and so on. With
`[start0, end0, start1, end1, …]` as its offsets, the buffer is an Arrow binary array. The even entries of this array
are the values, and the odd entries are the bytes between two values. One call of Arrow selects the even entries and
copies each value once.

Arrays are built from buffers, because `pa.array` and `pa.scalar` import pandas, which takes half a CPU-second in every
worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.columns import Columns, Depth, Spans, decode
from kcli.spark.source.fetcher import Fetched
from kcli.spark.source.offsets import OffsetRange

DEPTHS = {
    "key": Depth.KEY,
    "value": Depth.VALUE,
    "topic": Depth.OFFSET,
    "partition": Depth.OFFSET,
    "offset": Depth.OFFSET,
    "timestamp": Depth.TIMESTAMP,
    "timestampType": Depth.TIMESTAMP,
    "headers": Depth.HEADERS,
}
"""The columns of the source in Spark's order, each with the depth to which batches must be decoded for it."""

MICROSECONDS = 1000
"""The number of microseconds in a millisecond. Spark's timestamps are in microseconds, and Kafka's in milliseconds."""


def record_batches(
    fetched: Iterator[Fetched], offset_range: OffsetRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yields the records of the range `offset_range` with the columns of `schema`. Each column is one of DEPTHS.

    Only these columns are decoded.
    """
    depth = max((DEPTHS[name] for name in schema.names), default=Depth.OFFSET)
    for chunk in fetched:
        chunks = decode(
            chunk.table,
            depth,
            first_offset=chunk.first_offset,
            end_offset=offset_range.end,
            aborted=chunk.aborted,
        )
        for columns in chunks:
            if len(columns):
                yield record_batch(columns, offset_range.part, schema)


def record_batch(columns: Columns, part: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """Makes one Arrow record batch from decoded columns."""
    builders = _builders(columns, part)
    arrays = [builders[field.name](field.type) for field in schema]
    if not arrays:  # count() asks for rows without columns
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(columns), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _builders(columns: Columns, part: TopicPartition) -> dict[str, Callable[[pa.DataType], pa.Array]]:
    return {
        "key": partial(_key, columns),
        "value": partial(_value, columns),
        "topic": lambda _: repeated(part.topic, len(columns)),
        "partition": lambda type_: fixed(np.full(len(columns), part.partition, np.int32), type_),
        "offset": lambda type_: fixed(columns.offsets, type_),
        "timestamp": partial(_timestamp, columns),
        "timestampType": partial(_timestamp_type, columns),
        "headers": partial(_headers, columns),
    }


def _key(columns: Columns, _: pa.DataType) -> pa.Array:
    assert columns.keys is not None
    return binary(columns.buffer, columns.keys)


def _value(columns: Columns, _: pa.DataType) -> pa.Array:
    assert columns.values is not None
    return binary(columns.buffer, columns.values)


def _timestamp(columns: Columns, type_: pa.DataType) -> pa.Array:
    assert columns.timestamps is not None
    return fixed(columns.timestamps * MICROSECONDS, type_)


def _timestamp_type(columns: Columns, type_: pa.DataType) -> pa.Array:
    """Makes the column timestampType: 0 for CreateTime and 1 for LogAppendTime, as in Kafka's TimestampType."""
    assert columns.log_append_time is not None
    return fixed(columns.log_append_time.astype(np.int32), type_)


def _headers(columns: Columns, type_: pa.ListType) -> pa.Array:
    """Makes the column headers. A record without headers has null, as in Spark's own source."""
    assert columns.headers is not None
    offsets = columns.headers.offsets.astype(np.int32)
    keys = text(binary(columns.buffer, columns.headers.keys))
    entries = pa.StructArray.from_arrays(
        [keys, binary(columns.buffer, columns.headers.values)], fields=list(type_.value_type)
    )
    none = pa.Array.from_buffers(pa.bool_(), len(columns), [None, bits(offsets[1:] == offsets[:-1])])
    return pa.ListArray.from_arrays(fixed(offsets, pa.int32()), entries, type=type_, mask=none)


def repeated(text: str, count: int) -> pa.Array:
    """Returns an array that contains the same text `count` times."""
    raw = text.encode()
    edges = np.arange(count + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(edges), pa.py_buffer(raw * count)])


def fixed(values: NDArray[np.integer], type_: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """Makes an array of numbers from the memory of `values` without a copy. `values` must already have the layout of
    `type_`.
    """
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    """Packs booleans into bits in the order that Arrow uses."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def binary(buffer: bytes, spans: Spans) -> pa.Array:
    """Makes a binary array from the parts of `buffer` whose starts and lengths are in `spans`."""
    count = len(spans.starts)
    if not count:
        return pa.array([], pa.binary())
    offset_type, array_type = np.int32, pa.binary()
    if len(buffer) > np.iinfo(np.int32).max:
        offset_type, array_type = np.int64, pa.large_binary()  # type: ignore[assignment]
    edges = np.empty(2 * count, offset_type)
    edges[0::2] = spans.starts
    edges[1::2] = spans.starts + np.maximum(spans.lengths, 0)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(buffer)]
    laid_over = pa.Array.from_buffers(array_type, 2 * count - 1, buffers)
    nulls = spans.lengths < 0
    rows = fixed(np.arange(0, 2 * count, 2), pa.int64(), bits(~nulls) if nulls.any() else None)
    return laid_over.take(rows).cast(pa.binary())


def text(values: pa.Array) -> pa.Array:
    """Decodes binary values as UTF-8. Invalid bytes become replacement characters, as in Java."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())
