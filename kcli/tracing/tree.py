"""A trace as rows of a tree, with the time of each span since the start of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcli.tracing.stored import StoredSpan

DEPTH_MAX = 50
"""The largest depth at which a span is shown. A span below it is shown at this depth too, because a store may return a
chain of any length."""


@dataclass(frozen=True, slots=True)
class Row:
    """A span at its place in the tree. `after_ns` is the time from the first span of the trace to the start of this
    span."""

    span: StoredSpan
    depth: int
    after_ns: int


def rows(spans: Sequence[StoredSpan]) -> list[Row]:
    """Returns the spans of a trace, each followed by its children in the order of their starts.

    A span whose parent is not in the store is a root. Spans that form a circle come at the end.
    """
    if not spans:
        return []
    first_ns = min(span.start_ns for span in spans)
    known = {span.span_id for span in spans}
    children: dict[str, list[StoredSpan]] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        children.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)
    tree_rows = list(_below(children, first_ns))
    shown = {row.span.span_id for row in tree_rows}
    tree_rows += [Row(span, 0, span.start_ns - first_ns) for span in spans if span.span_id not in shown]
    return tree_rows


def _below(children: dict[str, list[StoredSpan]], first_ns: int) -> Iterator[Row]:
    """Yields the rows of all roots. Each row is followed by the rows of its children.

    There is no recursion, because a chain of spans may be longer than Python's limit of recursion.
    """
    stack = [(span, 0) for span in reversed(children.get("", []))]
    while stack:
        span, depth = stack.pop()
        yield Row(span, min(depth, DEPTH_MAX), span.start_ns - first_ns)
        stack += [(child, depth + 1) for child in reversed(children.get(span.span_id, []))]


def duration(nanoseconds: int) -> str:
    """Returns a duration with three digits and a unit, such as `1.24 ms`."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000)):
        if nanoseconds >= size:
            return f"{_three_digits(nanoseconds / size)} {unit}"
    return f"{_three_digits(nanoseconds / 1000)} µs"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
