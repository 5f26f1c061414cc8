"""Adds the trace context of a task to the records that have none, without a Python loop over rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.protocol.batches.record_starts import Ints
from kcli.spark.traces import SparkTraces, begin_task, end_task
from kcli.tracing.trace_context import TRACEPARENT, TRACESTATE, TraceContext

HEADERS = "headers"


def sent(
    batches: Iterator[pa.RecordBatch], traces: SparkTraces, topic: str | None
) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a sink's task with trace headers, and exports a span at the end.

    The span ends when the producer has received the last rows.
    """
    task = begin_task(traces, "send", topic, None)
    error: str | None = None
    try:
        for batch in batches:
            task.add(batch)
            yield stamped(batch, task.context) if batch.num_rows else batch
    except BaseException as failure:
        error = type(failure).__name__
        raise
    finally:
        end_task(traces, task, error)


def stamped(batch: pa.RecordBatch, context: TraceContext) -> pa.RecordBatch:
    """Adds the header traceparent to each row that has no trace header. Returns all rows."""
    rows = batch.num_rows
    entry = pa.StructArray.from_arrays(
        [pa.array([TRACEPARENT], pa.string()), pa.array([context.traceparent.encode()], pa.binary())],
        names=["key", "value"],
    )
    if HEADERS not in batch.schema.names:
        column = _lists(np.arange(rows + 1), entry.take(pa.array(np.zeros(rows, np.int64))))
        return batch.append_column(HEADERS, column)
    at = batch.schema.names.index(HEADERS)
    return batch.set_column(at, HEADERS, _added(batch.column(at), entry))


def _added(headers: pa.ListArray, entry: pa.StructArray) -> pa.ListArray:
    """Returns the header lists. Each list without a trace header gets `entry` at its end. A null list counts as
    empty.
    """
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0)).astype(np.int64)
    flat = headers.flatten()
    keys = flat.field(0)
    is_trace = np.asarray(pc.fill_null(pc.is_in(keys, pa.array([TRACEPARENT, TRACESTATE], keys.type)), False))
    owner = np.repeat(np.arange(len(counts)), counts)
    has_trace = np.bincount(owner[is_trace], minlength=len(counts)) > 0
    new_counts = counts + ~has_trace
    offsets = np.concatenate(([0], np.cumsum(new_counts)))
    picked = np.full(int(offsets[-1]), len(flat), np.int64)  # the index of `entry` in the joined array
    begins = np.repeat(offsets[:-1] - np.concatenate(([0], np.cumsum(counts)))[:-1], counts)
    picked[np.arange(len(flat)) + begins] = np.arange(len(flat))
    values = pa.StructArray.from_arrays(
        [
            pa.concat_arrays([keys.cast(pa.string()), entry.field(0)]),
            pa.concat_arrays([flat.field(1).cast(pa.binary()), entry.field(1)]),
        ],
        names=["key", "value"],
    )
    return _lists(offsets, values.take(pa.array(picked)))


def _lists(offsets: Ints, values: pa.StructArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
