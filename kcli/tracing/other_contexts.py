"""Finds trace ids in headers that do not follow the W3C standard: the headers of Zipkin (B3) and of old Jaeger
clients."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.model.java_text import trim
from kcli.tracing.trace_context import TRACEPARENT, Header, of_headers

_SINGLE = {"b3": "-", "uber-trace-id": ":"}
_B3_ID = "x-b3-traceid"
_DIGITS = frozenset("0123456789abcdef")
_SHORT, _LONG = 16, 32


def trace_id_of(headers: Iterable[Header]) -> tuple[str, str] | None:
    """Returns the name of the header with a trace id, and the trace id with 32 digits. None if no header has one."""
    listed = list(headers)
    context = of_headers(listed)
    if context is not None:
        return TRACEPARENT, context.trace_id
    for name, value in reversed(listed):
        text = (value or b"")[:256].decode("ascii", "replace")
        lower = name.lower()
        if lower in _SINGLE:
            text = text.replace("%3A", ":").replace("%3a", ":").partition(_SINGLE[lower])[0]
        elif lower != _B3_ID:
            continue
        digits = trim(text).lower()
        if 0 < len(digits) <= _LONG and set(digits) <= _DIGITS and digits.strip("0"):
            return name, digits.rjust(_LONG, "0")
    return None
