"""Traces of Spark's tasks: one span for each task of a source or sink (docs/adr/0022).

The environment of the driver or the option kcli.trace decides whether tasks export traces. The driver passes its
settings to the executors as options. A Python worker exports from its own thread. Spark may end a worker at any time,
so a task waits for the export of its span. It does not wait if the collector did not answer an earlier export.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from kcli.model.java_text import trim
from kcli.spark.micro_batch import BATCH_ID, QUERY_ID
from kcli.tracing.export_queue import ExportQueue
from kcli.tracing.record_spans import (
    BATCH_COUNT,
    DESTINATION,
    LINKS_MAX,
    OPERATION,
    OPERATION_TYPE,
    PARTITION,
    SYSTEM,
    Attributes,
)
from kcli.tracing.settings import TraceSettings, TracingError, asked, settings_of
from kcli.tracing.span import Kind, Span
from kcli.tracing.trace_context import TraceContext, new_span_id, new_trace_id, of_headers
from kcli.tracing.tracer import Sampler, Tracer, export_queue

if TYPE_CHECKING:
    import pyarrow as pa

SERVICE = "kcli-spark"

SCANNED_MAX_ROWS = 1000
"""The most rows of a task whose headers are searched for trace contexts, which become links. Python takes some
microseconds for each row."""

FLUSH_MAX_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SparkTraces:
    """The trace settings that the driver passes to the executors. `trace_id` is the trace of a batch job."""

    settings: TraceSettings
    trace_id: str


def spark_traces(option: str | None, environ: Mapping[str, str] = os.environ) -> SparkTraces | None:
    """Returns the settings of traces, or None if traces are off. `option` is true, false or the address of a collector.
    If it is None, only the environment decides.

    Raises ValueError if traces cannot be exported.
    """
    text = None if option is None else trim(option)
    is_address = text is not None and text.lower().startswith(("http://", "https://"))
    if text is not None and not is_address and text.lower() not in ("true", "false"):
        # The value may be an address with a password, so it is not shown.
        raise ValueError(
            "kcli.trace is invalid: expected true, false or the address of a collector, http://HOST:PORT"
        )
    try:
        if (text is not None and text.lower() == "false") or (text is None and not asked(environ)):
            return None
        return SparkTraces(
            settings_of(environ, SERVICE, endpoint=text if is_address else None), new_trace_id()
        )
    except TracingError as error:
        raise ValueError(str(error)) from error


@dataclass(slots=True)
class TaskSpan:
    """The span of one task."""

    name: str
    attributes: Attributes
    context: TraceContext
    started_ns: int = field(default_factory=time.time_ns)
    count: int = 0
    links: dict[str, TraceContext] = field(default_factory=dict)
    scanned: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts the rows of a batch. If they have headers, stores the trace contexts of the first rows as links."""
        self.count += batch.num_rows
        if "headers" not in batch.schema.names or not self.context.is_sampled:
            return
        left = min(SCANNED_MAX_ROWS - self.scanned, batch.num_rows)
        if left <= 0 or len(self.links) >= LINKS_MAX:
            return
        self.scanned += left
        for headers in batch.column("headers").slice(0, left).to_pylist():
            context = of_headers((header["key"], header["value"]) for header in headers or ())
            if context is not None and len(self.links) < LINKS_MAX:
                self.links[context.span_id] = context


@dataclass(frozen=True, slots=True)
class _Worker:
    """The parts that export the spans of one Python worker."""

    queue: ExportQueue
    tracer: Tracer
    sampler: Sampler


def begin_task(traces: SparkTraces, operation: str, topic: str | None, partition: int | None) -> TaskSpan:
    """Begins the span of the present task. `operation` is poll or send."""
    worker = _worker(traces.settings, os.getpid())
    name = operation if topic is None else f"{operation} {topic}"
    kind = "receive" if operation == "poll" else "send"
    attributes: Attributes = {SYSTEM: "kafka", OPERATION: operation, OPERATION_TYPE: kind}
    if topic is not None:
        attributes[DESTINATION] = topic
    if partition is not None:
        attributes[PARTITION] = str(partition)
    trace_id = _trace_id(traces, attributes)
    is_sampled = worker.sampler(None, trace_id, name, Kind.CLIENT)
    return TaskSpan(name, attributes, TraceContext(trace_id, new_span_id(), is_sampled))


def end_task(traces: SparkTraces, task: TaskSpan, error: str | None = None) -> None:
    """Ends and exports the span of a task. Waits up to FLUSH_MAX_SECONDS for the collector."""
    worker = _worker(traces.settings, os.getpid())
    is_send = task.attributes[OPERATION] == "send"
    worker.tracer.end(
        Span(
            task.name,
            Kind.PRODUCER if is_send else Kind.CLIENT,
            task.context,
            task.started_ns,
            time.time_ns(),
            None,
            {**task.attributes, BATCH_COUNT: task.count},
            tuple(task.links.values()),
            error,
        )
    )
    worker.queue.flush(FLUSH_MAX_SECONDS)


def polled(
    batches: Iterator[pa.RecordBatch], traces: SparkTraces, topic: str, partition: int
) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a source's task, and exports a span at the end."""
    task = begin_task(traces, "poll", topic, partition)
    error: str | None = None
    try:
        for batch in batches:
            task.add(batch)
            yield batch
    except Exception as failure:
        error = type(failure).__name__
        raise
    finally:
        end_task(traces, task, error)


def _trace_id(traces: SparkTraces, attributes: Attributes) -> str:
    """Returns the trace id of the task's micro-batch, or of its batch job. Adds the ids of query, micro-batch and task
    attempt to the attributes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    batch = None if context is None else context.getLocalProperty(BATCH_ID)
    if context is not None:
        attributes["spark.task.attempt"] = context.taskAttemptId()
    if query is None or batch is None:
        return traces.trace_id
    attributes["spark.query.id"], attributes["spark.batch.id"] = query, batch
    return hashlib.sha256(f"{query} {batch}".encode()).hexdigest()[: len(traces.trace_id)]


@cache
def _worker(settings: TraceSettings, process_id: int) -> _Worker:
    """The exporter of this process. Each process id has its own exporter, because a thread does not survive a fork."""
    for name, value in settings.environment:
        os.environ.setdefault(name, value)  # before the sampler reads it
    from kcli.tracing.otlp import sampler

    queue, chosen = export_queue(settings), sampler()
    return _Worker(queue, Tracer(queue, chosen), chosen)
