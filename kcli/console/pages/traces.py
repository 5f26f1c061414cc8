"""The trace of a record, from the store that --traces names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from http import HTTPStatus

from kcli.console.calls import Call, bad_request
from kcli.console.failures import ConsoleError
from kcli.console.routes import Read
from kcli.http.trace_store import TraceNotFound, TraceStoreError, stored_trace
from kcli.tracing.journey import steps
from kcli.tracing.tree import Row, rows

NO_STORE, NOT_FOUND, STORE_FAILED = "NO_TRACE_STORE", "TRACE_NOT_FOUND", "TRACE_STORE_FAILED"

SHOWN_MAX = 2000
"""The most spans on a page. A larger trace is cut, and the page shows that it is cut."""

_TRACE_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow:
    """A span in the tree. The times are in microseconds. `after_us` is the time from the start of the trace's first
    span."""

    name: str
    service: str
    depth: int
    after_us: float
    duration_us: float
    is_error: bool
    is_record: bool
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A part of the path of the record, with its duration."""

    name: str
    service: str
    duration_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAnswer:
    trace_id: str
    total_us: float
    spans: list[SpanRow]
    count: int
    """The number of all spans. `spans` has at most the first SHOWN_MAX spans."""
    steps: list[StepRow]
    command: str


async def show_trace(call: Call) -> TraceAnswer:
    """GET /traces/{id}?topic=&partition=&offset=: the spans of a trace as a tree, and the path of this record."""
    trace_id = call.part("id")
    if _TRACE_ID.fullmatch(trace_id) is None:
        raise bad_request("the id of a trace has 32 hexadecimal digits")
    topic, partition, offset = call.query("topic"), call.integer("partition", 0), call.integer("offset", 0)
    store = call.rules.settings.traces
    if store is None:
        raise ConsoleError(
            HTTPStatus.NOT_FOUND,
            NO_STORE,
            "The console knows no store of traces. Start it with --traces URL (http://HOST:16686 for Jaeger).",
        )
    try:
        answer = await call.cached(("trace", trace_id), lambda: stored_trace(store, trace_id))
    except TraceNotFound as error:
        raise ConsoleError(
            HTTPStatus.NOT_FOUND,
            NOT_FOUND,
            f"{error}. Its producer did not sample it, its spans are not exported yet, or the store has deleted them.",
        ) from error
    except TraceStoreError as error:
        raise ConsoleError(HTTPStatus.BAD_GATEWAY, STORE_FAILED, str(error)) from error
    tree = rows(answer.value)
    place = (topic, partition, offset)
    arguments = ("--topic", topic, "--partition", str(partition), "--offset", str(offset), "--traces", "URL")
    return TraceAnswer(
        trace_id=trace_id,
        total_us=max((row.after_ns + row.span.duration_ns) / 1000 for row in tree),
        spans=[_span(row, is_record=row.span.is_about(*place)) for row in tree[:SHOWN_MAX]],
        count=len(tree),
        steps=[
            StepRow(name=step.name, service=step.where, duration_us=step.duration_ns / 1000)
            for step in steps(answer.value, *place)
        ],
        command=call.command("trace", *arguments),
    )


def _span(row: Row, *, is_record: bool) -> SpanRow:
    span = row.span
    return SpanRow(
        name=span.name,
        service=span.service,
        depth=row.depth,
        after_us=row.after_ns / 1000,
        duration_us=span.duration_ns / 1000,
        is_error=span.is_error,
        is_record=is_record,
        attributes=dict(span.attributes),
    )


ROUTES = (Read("/traces/{id}", show_trace, needs_cluster=False),)
