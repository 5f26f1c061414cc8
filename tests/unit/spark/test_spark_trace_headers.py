"""Trace headers of a sink's rows, and the options that switch traces on."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.spark.options import are_traced
from kcli.spark.sink.trace_headers import stamped
from kcli.spark.traces import TaskSpan, spark_traces
from kcli.tracing.record_spans import LINKS_MAX
from kcli.tracing.trace_context import TraceContext, new_span_id, new_trace_id

CONTEXT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
ADDED = ("traceparent", CONTEXT.traceparent.encode())
TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

HEADER = st.tuples(
    st.sampled_from(["a", "traceparent", "tracestate", "Traceparent", ""]), st.binary(max_size=3) | st.none()
)


def batch_of(rows: list[list[tuple[str, bytes | None]] | None]) -> pa.RecordBatch:
    listed = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    values = pa.array([b"v"] * len(rows), pa.binary())
    return pa.RecordBatch.from_arrays([values, pa.array(listed, TYPE)], names=["value", "headers"])


def headers_of(batch: pa.RecordBatch) -> list[list[tuple[str, bytes | None]]]:
    return [
        [(header["key"], header["value"]) for header in row] for row in batch.column("headers").to_pylist()
    ]


@given(st.lists(st.none() | st.lists(HEADER, max_size=4), min_size=1, max_size=12), st.integers(0, 3))
def test_only_rows_without_trace_headers_get_one(
    rows: list[list[tuple[str, bytes | None]] | None], skipped: int
) -> None:
    batch = batch_of(rows).slice(min(skipped, len(rows) - 1))
    expected = []
    for row in rows[min(skipped, len(rows) - 1) :]:
        headers = row or []
        has_trace = any(name in ("traceparent", "tracestate") for name, _ in headers)
        expected.append(headers if has_trace else [*headers, ADDED])
    assert headers_of(stamped(batch, CONTEXT)) == expected


def test_rows_without_the_column_get_one() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"1", b"2"])], names=["value"])
    assert headers_of(stamped(batch, CONTEXT)) == [[ADDED], [ADDED]]


def test_the_links_of_a_task_are_limited() -> None:
    contexts = [TraceContext(new_trace_id(), new_span_id()) for _ in range(3 * LINKS_MAX)]
    task = TaskSpan("send", {}, CONTEXT)
    for _ in range(2):
        task.add(batch_of([[("traceparent", context.traceparent.encode())] for context in contexts]))
    assert task.count == 6 * LINKS_MAX
    assert list(task.links.values()) == contexts[:LINKS_MAX]


def test_the_environment_or_the_option_switches_traces_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert not are_traced({})
    assert are_traced({"kcli.Trace": "TRUE"})
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert are_traced({})
    assert not are_traced({"kcli.trace": "false"})
    with pytest.raises(ValueError, match=r"expected true, false or the address of a collector"):
        are_traced({"kcli.trace": "maybe"})
    traces = spark_traces("http://c:4318", {})
    assert traces is not None
    assert traces.settings.endpoint == "http://c:4318/v1/traces"
    with pytest.raises(ValueError, match="kcli exports with http/protobuf"):
        spark_traces("true", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
