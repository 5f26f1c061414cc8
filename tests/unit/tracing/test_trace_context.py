"""Trace contexts in record headers, valid and hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.tracing.other_contexts import trace_id_of
from kcli.tracing.trace_context import TraceContext, has_context, of_headers, parse, with_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_traceparent_is_read_and_written() -> None:
    context = parse(VALID, b"a=1,b=2")
    assert context == TraceContext(TRACE, SPAN, True, "a=1,b=2")
    assert context.traceparent.encode() == VALID
    assert parse(f"00-{TRACE}-{SPAN}-00".encode()) == TraceContext(TRACE, SPAN, False)
    assert parse(f"00-{TRACE}-{SPAN}-03".encode()) == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"00",
        VALID[:-1],
        VALID + b"0",
        VALID + b"-more",  # version 00 has no more fields
        VALID.upper(),
        b"ff" + VALID[2:],
        VALID.replace(TRACE.encode(), b"0" * 32),
        VALID.replace(SPAN.encode(), b"0" * 16),
        VALID.replace(b"-", b"_"),
        VALID.replace(b"0a", b"g0"),
        VALID + b"\n",
        "００".encode() + VALID[2:],  # digits of another script
        b"01-" + VALID[3:] + b"-" + b"x" * 300,
    ],
)
def test_an_invalid_traceparent_is_ignored(value: bytes | None) -> None:
    assert parse(value) is None


def test_a_later_version_may_have_more_fields() -> None:
    assert parse(b"01" + VALID[2:] + b"-more") == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize("state", [b"x" * 513, b"\xff", b"a=1\nb=2", "a=ä".encode()])
def test_an_invalid_tracestate_is_left_out(state: bytes) -> None:
    assert parse(VALID, state) == TraceContext(TRACE, SPAN, True, "")


@given(st.binary(max_size=80) | st.none(), st.binary(max_size=80) | st.none())
def test_any_bytes_are_read_without_an_error(parent: bytes | None, state: bytes | None) -> None:
    context = of_headers([("traceparent", parent), ("tracestate", state)])
    assert context is None or parse(context.traceparent.encode()) is not None


def test_the_last_header_of_a_name_counts() -> None:
    assert of_headers([("traceparent", b"invalid"), ("x", b""), ("traceparent", VALID)]) is not None
    assert of_headers([("traceparent", VALID), ("traceparent", b"invalid")]) is None
    assert of_headers([("Traceparent", VALID)]) is None
    assert of_headers(None) is None


def test_headers_of_the_sender_are_recognised_even_if_they_are_invalid() -> None:
    assert has_context([("traceparent", b"invalid")])
    assert has_context([("tracestate", None)])
    assert not has_context([("trace", VALID)])
    assert not has_context(None)


def test_a_context_is_added_after_the_other_headers() -> None:
    headers = with_context([("a", None)], TraceContext(TRACE, SPAN, True, "k=v"))
    assert headers == [("a", None), ("traceparent", VALID), ("tracestate", b"k=v")]
    assert of_headers(headers) == TraceContext(TRACE, SPAN, True, "k=v")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("traceparent", VALID), ("b3", b"1-2-1")], ("traceparent", TRACE)),
        ([("b3", f"{TRACE}-{SPAN}-1".encode())], ("b3", TRACE)),
        ([("b3", f"{SPAN}-{SPAN}-1".encode())], ("b3", SPAN.rjust(32, "0"))),
        ([("X-B3-TraceId", TRACE.encode())], ("X-B3-TraceId", TRACE)),
        ([("uber-trace-id", f"{TRACE}:{SPAN}:0:1".encode())], ("uber-trace-id", TRACE)),
        ([("uber-trace-id", b"7f%3A1%3A0%3A1")], ("uber-trace-id", "7f".rjust(32, "0"))),
        ([("b3", b"0"), ("b3", b"../../secret"), ("x-b3-traceid", b"\xff"), ("x-b3-traceid", None)], None),
        ([], None),
    ],
)
def test_the_trace_id_of_other_systems_is_found(
    headers: list[tuple[str, bytes | None]], expected: tuple[str, str] | None
) -> None:
    assert trace_id_of(headers) == expected
