"""The trace context of a record: the headers `traceparent` and `tracestate` (W3C Trace Context, level 1).

A producer may write any bytes into these headers. As the specification demands, an invalid header is ignored.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

SAMPLED = 1
"""The bit in the flags of `traceparent` that is set if the sender records its span."""

TRACESTATE_MAX_BYTES = 512
"""The longest `tracestate` that is passed on. The specification demands this for at least 512 characters."""

_TRACEPARENT_MAX_BYTES = 256
"""The longest `traceparent` that is read. Later versions of the specification may add fields, so values longer than
today's are accepted."""

Header = tuple[str, bytes | None]

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_STATE = re.compile(rb"[\x20-\x7e]*")
_NO_VERSION, _VERSION_0 = b"ff", b"00"
_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The ids of a span and its trace. `trace_id` has 32 hexadecimal digits, and `span_id` has 16."""

    trace_id: str
    span_id: str
    is_sampled: bool = True
    tracestate: str = ""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{SAMPLED if self.is_sampled else 0:02x}"


def parse(traceparent: bytes | None, tracestate: bytes | None = None) -> TraceContext | None:
    """Returns the context of two header values, or None if `traceparent` is missing or invalid."""
    if traceparent is None or len(traceparent) > _TRACEPARENT_MAX_BYTES:
        return None
    match = _PARENT.fullmatch(traceparent.strip(b" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == _NO_VERSION or (version == _VERSION_0 and more is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    is_sampled = bool(int(flags, 16) & SAMPLED)
    return TraceContext(trace_id.decode(), span_id.decode(), is_sampled, _state(tracestate))


def of_headers(headers: Iterable[Header] | None) -> TraceContext | None:
    """Returns the context in the headers of a record, or None.

    If a name occurs twice, the last value counts, as in Java's `Headers.lastHeader`.
    """
    if not headers:
        return None
    texts = {name: value for name, value in headers if name in (TRACEPARENT, TRACESTATE)}
    return parse(texts.get(TRACEPARENT), texts.get(TRACESTATE))


def has_context(headers: Iterable[Header] | None) -> bool:
    """Whether the sender of a record has set a trace header. Such headers are never changed, even if invalid."""
    return any(name in (TRACEPARENT, TRACESTATE) for name, _ in headers or ())


def with_context(headers: Sequence[Header] | None, context: TraceContext) -> list[Header]:
    """Returns `headers` with the headers of the context added."""
    more: list[Header] = [(TRACEPARENT, context.traceparent.encode())]
    if context.tracestate:
        more.append((TRACESTATE, context.tracestate.encode()))
    return [*(headers or ()), *more]


def new_trace_id() -> str:
    return secrets.token_hex(_TRACE_ID_BYTES)


def new_span_id() -> str:
    return secrets.token_hex(_SPAN_ID_BYTES)


def _state(value: bytes | None) -> str:
    if value is None or len(value) > TRACESTATE_MAX_BYTES or _STATE.fullmatch(value) is None:
        return ""
    return value.decode("ascii")
