"""Spans of stores: Jaeger's and Tempo's answers, both generations of names, the tree, and the way of a record."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.tracing.journey import steps
from kcli.tracing.stored import NotATrace, StoredSpan, read
from kcli.tracing.tree import DEPTH_MAX, duration, rows

TRACE = "0af7651916cd43dd8448eb211c80319c"


def jaeger(*spans: dict[str, Any]) -> bytes:
    processes = {"p1": {"serviceName": "shop", "tags": []}}
    return json.dumps({"data": [{"traceID": TRACE, "spans": list(spans), "processes": processes}]}).encode()


def jaeger_span(
    name: str, span_id: str, parent: str = "", start_us: int = 0, us: int = 1, **tags: Any
) -> dict[str, Any]:
    return {
        "traceID": TRACE,
        "spanID": span_id,
        "operationName": name,
        "references": [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": parent}] if parent else [],
        "startTime": start_us,
        "duration": us,
        "tags": [
            {"key": key.replace("__", "."), "type": "string", "value": value} for key, value in tags.items()
        ],
        "processID": "p1",
    }


def span(
    name: str, span_id: str, parent: str = "", start: int = 0, length: int = 1, **attributes: str
) -> StoredSpan:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return StoredSpan(name, "shop", span_id, parent, start, length, named)


NEW = {
    "messaging__operation__name": "process",
    "messaging__destination__name": "orders",
    "messaging__destination__partition__id": "2",
    "messaging__kafka__offset": 7,
}
OLD = {
    "messaging__operation": "process",
    "messaging__destination": "orders",
    "messaging__kafka__partition": 2,
    "messaging__message_id": "orders.2.7",
}


@pytest.mark.parametrize(("name", "tags"), [("process orders", NEW), ("orders process", OLD)])
def test_both_generations_of_names_are_read(name: str, tags: dict[str, Any]) -> None:
    [found] = read(jaeger(jaeger_span(name, "a" * 16, start_us=5, us=2, **tags)))
    assert (found.service, found.start_ns, found.duration_ns) == ("shop", 5000, 2000)
    assert found.operation == "process"
    assert found.is_about("orders", 2, 7)
    assert not found.is_about("orders", 2, 8)


@pytest.mark.parametrize(
    ("name", "attributes", "operation"),
    [
        ("orders send", {"messaging__destination": "orders"}, "send"),
        ("send", {"messaging__operation": "publish"}, "send"),
        ("recv", {"messaging__destination": "x"}, "poll"),
        ("poll orders", {"messaging__destination__name": "orders"}, "poll"),
        ("send process", {"messaging__destination__name": "send"}, "process"),
        ("send letter", {}, ""),
    ],
)
def test_the_operation_of_a_span(name: str, attributes: dict[str, str], operation: str) -> None:
    [found] = read(jaeger(jaeger_span(name, "a" * 16, **attributes)))
    assert found.operation == operation


@pytest.mark.parametrize("wrap", [None, "trace", "result"])
@pytest.mark.parametrize("identity", ["hex", "base64"])
def test_the_answers_of_otlp_are_read(wrap: str | None, identity: str) -> None:
    def shown(digits: str) -> str:
        return digits if identity == "hex" else base64.b64encode(bytes.fromhex(digits)).decode()

    spans = [
        {
            "spanId": shown("b" * 16),
            "parentSpanId": shown("a" * 16),
            "name": "send orders",
            "startTimeUnixNano": "100",
            "endTimeUnixNano": "350",
            "attributes": [{"key": "messaging.kafka.offset", "value": {"intValue": "7"}}],
            "status": {"code": "STATUS_CODE_ERROR"},
        }
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    name = "batches" if wrap is None else "resourceSpans"
    body: dict[str, Any] = {name: [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    [found] = read(json.dumps(body if wrap is None else {wrap: body}).encode())
    expected = {"messaging.kafka.offset": "7"}
    assert found == StoredSpan("send orders", "shop", "b" * 16, "a" * 16, 100, 250, expected, is_error=True)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"data": {}}', b"[" * 100_000, b"\xff"])
def test_another_answer_is_no_trace(body: bytes) -> None:
    with pytest.raises(NotATrace):
        read(body)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spans",
                    "traceID",
                    "spanID",
                    "references",
                    "tags",
                    "startTime",
                    "processes",
                    "scopeSpans",
                    "spanId",
                    "key",
                    "value",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.sampled_from(["data", "batches"]), st.lists(JSON, max_size=3))
def test_any_answer_is_read_without_an_error(name: str, content: list[Any]) -> None:
    assert isinstance(read(json.dumps({name: content}).encode()), list)


def test_a_tree_has_children_after_their_parent_in_the_order_of_time() -> None:
    spans = [
        span("c", "3", "1", 30),
        span("a", "1", "", 10),
        span("b", "2", "1", 20),
        span("lost", "4", "gone", 5),
    ]
    assert [(row.span.name, row.depth, row.after_ns) for row in rows(spans)] == [
        ("lost", 0, 0),
        ("a", 0, 5),
        ("b", 1, 15),
        ("c", 1, 25),
    ]
    assert rows([]) == []


def test_a_circle_and_a_deep_chain_are_shown() -> None:
    circle = [span("a", "1", "2"), span("b", "2", "1")]
    assert {row.span.name for row in rows(circle)} == {"a", "b"}
    chain = [span(str(number), str(number), str(number - 1), number) for number in range(5000)]
    assert [row.depth for row in rows(chain)][-1] == DEPTH_MAX


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0.00 µs"),
        (1_500, "1.50 µs"),
        (12_340_000, "12.3 ms"),
        (123_400_000, "123 ms"),
        (2_000_000_000, "2.00 s"),
    ],
)
def test_a_duration_has_three_digits(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


def test_the_way_of_a_record() -> None:
    record = {
        "messaging__destination__name": "t",
        "messaging__destination__partition__id": "0",
        "messaging__kafka__offset": "5",
    }
    other = {**record, "messaging__kafka__offset": "6"}
    spans = [
        span("send t", "1", "", 0, 100, messaging__operation__name="send", **record),
        span("kafka.Produce", "2", "1", 10, 50),
        span("work", "3", "2", 10, 20),
        span("wait for replicas", "4", "2", 30, 30),
        span("process t", "5", "1", 1000, 7, messaging__operation__name="process", **record),
        span("process t", "6", "1", 2000, 8, messaging__operation__name="process", **other),
    ]
    found = [(step.name, step.where, step.duration_ns) for step in steps(spans, "t", 0, 5)]
    assert found == [
        ("sent", "shop", 100),
        ("in the broker", "shop", 50),
        ("  work", "shop", 20),
        ("  wait for replicas", "shop", 30),
        ("waited for a consumer", "", 900),
        ("processed", "shop", 7),
    ]
    assert steps(spans, "t", 0, 9) == []
