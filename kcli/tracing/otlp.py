"""Exports spans with opentelemetry-sdk. No other module imports opentelemetry, because the import takes a quarter of a
second."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from kcli.model.secret_text import without_logins
from kcli.tracing.settings import TraceSettings, names_service
from kcli.tracing.span import Kind, Span
from kcli.tracing.trace_context import TraceContext

ERROR_TYPE = "error.type"

_SCOPE = InstrumentationScope("kcli")
_KINDS = {kind: SpanKind(kind.value) for kind in Kind}


class OtlpExporter:
    """Converts spans to spans of the SDK, and sends them with the SDK's exporter."""

    def __init__(self, settings: TraceSettings) -> None:
        self._failures = _LastLine()
        # The SDK logs each attempt. The caller logs one line for all attempts.
        sdk_log = logging.getLogger("opentelemetry")
        sdk_log.propagate = False
        sdk_log.addHandler(self._failures)
        for name, value in settings.environment:
            os.environ.setdefault(name, value)
        self._resource = _resource(settings)
        self._sdk = OTLPSpanExporter(endpoint=settings.endpoint)

    def export(self, spans: Sequence[Span]) -> str | None:
        self._failures.text = ""
        result = self._sdk.export([self._converted(span) for span in spans])
        if result is SpanExportResult.SUCCESS:
            return None
        return self._failures.text or "the collector did not accept the spans"

    def shutdown(self) -> None:
        self._sdk.shutdown()

    def _converted(self, span: Span) -> ReadableSpan:
        context = _context(span.context)
        parent = None
        if span.parent_id is not None:
            parent = SpanContext(context.trace_id, int(span.parent_id, 16), is_remote=True)
        attributes = dict(span.attributes)
        status = Status()
        if span.error is not None:
            attributes[ERROR_TYPE] = span.error
            status = Status(StatusCode.ERROR)
        return ReadableSpan(
            span.name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            links=[Link(_context(link)) for link in span.links],
            kind=_KINDS[span.kind],
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


def sampler() -> Callable[[TraceContext | None, str, str, Kind], bool]:
    """Returns the sampler that OTEL_TRACES_SAMPLER names, as a function. Its arguments are the parent, the trace id,
    the name and the kind of a span."""
    chosen = TracerProvider(shutdown_on_exit=False).sampler

    def is_sampled(parent: TraceContext | None, trace_id: str, name: str, kind: Kind) -> bool:
        around = Context()
        if parent is not None:
            around = set_span_in_context(NonRecordingSpan(_context(parent)), around)
        result = chosen.should_sample(around, int(trace_id, 16), name, _KINDS[kind])
        return bool(result.decision.is_sampled())

    return is_sampled


def _context(context: TraceContext) -> SpanContext:
    state = TraceState.from_header([context.tracestate]) if context.tracestate else None
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if context.is_sampled else TraceFlags.DEFAULT),
        trace_state=state,
    )


def _resource(settings: TraceSettings) -> Resource:
    described: dict[str, str] = {"host.name": socket.gethostname(), **dict(settings.attributes)}
    if not names_service(os.environ):
        described["service.name"] = settings.service
    return Resource.create(dict(described))


class _LastLine(logging.Handler):
    """Keeps the text of the last warning that the SDK has logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = without_logins(record.getMessage())
