"""Computes from a trace how long one record spent in each step: producer, broker, wait, consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcli.tracing.stored import StoredSpan

_BROKER = "kafka.Produce"


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way of a record. `where` is the service that did the work. `where` is empty if the record waited
    between two services."""

    name: str
    where: str
    duration_ns: int


def steps(spans: Sequence[StoredSpan], topic: str, partition: int, offset: int) -> list[Step]:
    """Returns the steps of a record in order. A step is left out if the trace does not contain the span of this
    step."""
    mine = [span for span in spans if span.is_about(topic, partition, offset)]
    send = next((span for span in mine if span.operation in ("send", "create")), None)
    steps_taken = []
    if send is not None:
        steps_taken.append(Step("sent", send.service, send.duration_ns))
        steps_taken += _in_broker(spans, send)
    for span in sorted(mine, key=lambda span: span.start_ns):
        if span.operation == "process":
            if send is not None:
                steps_taken.append(Step("waited for a consumer", "", max(0, span.start_ns - send.end_ns)))
            steps_taken.append(Step("processed", span.service, span.duration_ns))
    return steps_taken


def _in_broker(spans: Sequence[StoredSpan], send: StoredSpan) -> list[Step]:
    """Returns the step in the broker and its stages, from the span of the Produce request and the spans of the
    request's stages. The spans are found by their ids, not by their times, because the clocks of two machines
    differ."""
    request = next((span for span in spans if span.name == _BROKER and span.parent_id == send.span_id), None)
    if request is None:
        return []
    stages = [span for span in spans if span.parent_id == request.span_id]
    return [
        Step("in the broker", request.service, request.duration_ns),
        *(Step(f"  {stage.name}", stage.service, stage.duration_ns) for stage in stages),
    ]
