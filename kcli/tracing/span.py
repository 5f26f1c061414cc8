"""A finished span as a value, which any thread may export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kcli.tracing.trace_context import TraceContext

AttributeValue = str | int | float | bool


class Kind(IntEnum):
    """The kind of a span, with the numbers of opentelemetry-api."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2
    PRODUCER = 3
    CONSUMER = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A span with its times in nanoseconds since the epoch. `error` is the name of its error, or None."""

    name: str
    kind: Kind
    context: TraceContext
    start_ns: int
    end_ns: int
    parent_id: str | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    links: tuple[TraceContext, ...] = ()
    error: str | None = None
