"""Makes the spans that the sampler chooses, and passes them to the queue for the export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kcli.tracing.export_queue import Exporter, ExportQueue
from kcli.tracing.settings import TraceSettings
from kcli.tracing.span import Kind, Span
from kcli.tracing.trace_context import TraceContext, new_span_id, new_trace_id

Sampler = Callable[[TraceContext | None, str, str, Kind], bool]
"""A function that decides whether a span is recorded. Its arguments are the parent, the trace id, the name and the kind
of the span."""


class Sink(Protocol):
    """Receives finished spans."""

    def add(self, span: Span) -> None: ...


class BoundedSink(Sink, Protocol):
    """A sink that has room only for a limited number of spans. The caller must call `has_room` before it makes
    spans."""

    def has_room(self, spans: int) -> bool:
        """Returns whether this number of spans can be added. If not, they count as dropped."""
        ...


class Tracer:
    """Begins and ends spans. A span that is not sampled is never exported, but its context goes into the headers of
    records."""

    def __init__(self, sink: Sink, sampler: Sampler) -> None:
        self._sink = sink
        self._sampler = sampler

    def begin(self, name: str, kind: Kind, parent: TraceContext | None = None) -> TraceContext:
        """Returns the context of a new span. The span belongs to the parent's trace. Without a parent, it begins a new
        trace."""
        trace_id = new_trace_id() if parent is None else parent.trace_id
        is_sampled = self._sampler(parent, trace_id, name, kind)
        state = "" if parent is None else parent.tracestate
        return TraceContext(trace_id, new_span_id(), is_sampled, state)

    def end(self, span: Span) -> None:
        """Exports a finished span, if it is sampled."""
        if span.context.is_sampled:
            self._sink.add(span)


def export_queue(settings: TraceSettings) -> ExportQueue:
    """Returns the queue of a new thread that exports to a collector."""

    def make_exporter() -> Exporter:
        from kcli.tracing.otlp import OtlpExporter

        return OtlpExporter(settings)

    return ExportQueue(
        make_exporter,
        queue_max=settings.queue_max,
        batch_max=settings.batch_max,
        delay_ms=settings.delay_ms,
    )
