"""The queue of spans: it never waits, it is bounded, and it reports a failing collector once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from kcli.tracing.export_queue import ExportQueue
from kcli.tracing.span import Kind, Span
from kcli.tracing.trace_context import TraceContext, new_span_id, new_trace_id
from kcli.tracing.tracer import Tracer

WAIT_SECONDS = 20


def span(name: str = "s") -> Span:
    return Span(name, Kind.CLIENT, TraceContext(new_trace_id(), new_span_id()), 1, 2)


class ScriptedExporter:
    """Keeps the spans. Each export takes the next failure of the script. `gate` delays the exports."""

    def __init__(self, *failures: str | None) -> None:
        self.failures = list(failures)
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.was_shut_down = False

    def export(self, spans: Sequence[Span]) -> str | None:
        self.entered.set()
        self.gate.wait(WAIT_SECONDS)
        self.batches.append([each.name for each in spans])
        return self.failures.pop(0) if self.failures else None

    def shutdown(self) -> None:
        self.was_shut_down = True
        self.gate.set()


def queue_of(exporter: ScriptedExporter, *, queue_max: int = 100, batch_max: int = 10) -> ExportQueue:
    return ExportQueue(lambda: exporter, queue_max=queue_max, batch_max=batch_max, delay_ms=1)


def test_all_spans_are_exported_in_order_and_in_batches() -> None:
    exporter = ScriptedExporter()
    exporter.gate.clear()
    queue = queue_of(exporter)
    for number in range(25):
        queue.add(span(str(number)))
    exporter.gate.set()
    queue.close()
    assert [name for batch in exporter.batches for name in batch] == [str(number) for number in range(25)]
    assert max(map(len, exporter.batches)) <= 10
    assert (queue.exported, queue.dropped) == (25, 0)


def test_a_full_queue_drops_and_counts() -> None:
    exporter = ScriptedExporter()
    exporter.gate.clear()
    queue = queue_of(exporter, queue_max=5, batch_max=5)
    queue.add(span())
    assert exporter.entered.wait(WAIT_SECONDS)
    for _ in range(20):
        queue.add(span())
    exporter.gate.set()
    queue.close()
    assert (queue.exported, queue.dropped) == (6, 15)


def test_spans_without_room_count_as_dropped_before_they_are_made() -> None:
    exporter = ScriptedExporter()
    exporter.gate.clear()
    queue = queue_of(exporter, queue_max=5, batch_max=1)
    queue.add(span())
    assert exporter.entered.wait(WAIT_SECONDS)
    for _ in range(3):
        queue.add(span())
    assert queue.has_room(2)
    assert not queue.has_room(3)
    exporter.gate.set()
    queue.close()
    assert (queue.exported, queue.dropped) == (4, 3)


def test_a_failing_collector_is_logged_once_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    exporter = ScriptedExporter("refused", "refused", None, "refused again", "refused again")
    with caplog.at_level(logging.WARNING, "kcli.tracing"):
        queue = queue_of(exporter, batch_max=1)
        for _ in range(5):
            queue.add(span())
        queue.close()
    reasons = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert reasons == ["refused", "refused again"]
    assert (queue.exported, queue.dropped) == (1, 4)


def test_an_exporter_that_cannot_be_made_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> ScriptedExporter:
        raise ImportError("no module")

    with caplog.at_level(logging.WARNING, "kcli.tracing"):
        queue = ExportQueue(fail, queue_max=5, batch_max=5, delay_ms=1)
        queue.add(span())
        queue.close()
    assert "ImportError: no module" in caplog.text
    assert queue.dropped == 1


def test_the_end_does_not_wait_for_a_collector_that_does_not_answer() -> None:
    exporter = ScriptedExporter()
    exporter.gate.clear()
    queue = queue_of(exporter, batch_max=1)
    queue.add(span())
    queue.add(span())
    assert exporter.entered.wait(WAIT_SECONDS)
    queue.close(max_seconds=0.01)
    assert exporter.was_shut_down


def test_only_sampled_spans_are_exported_and_the_parent_is_asked() -> None:
    found: list[Span] = []

    class Sink:
        def add(self, span: Span) -> None:
            found.append(span)

    tracer = Tracer(Sink(), lambda parent, trace_id, name, kind: parent is not None and parent.is_sampled)
    for is_sampled in (True, False):
        parent = TraceContext(new_trace_id(), new_span_id(), is_sampled, "k=v")
        context = tracer.begin("s", Kind.CLIENT, parent)
        assert (context.trace_id, context.tracestate) == (parent.trace_id, "k=v")
        tracer.end(Span("s", Kind.CLIENT, context, 1, 2))
    root = tracer.begin("s", Kind.CLIENT)
    tracer.end(Span("s", Kind.CLIENT, root, 1, 2))
    assert [each.context.is_sampled for each in found] == [True]
