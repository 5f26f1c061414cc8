"""Reads spans from the answers of trace stores. There are two formats: Jaeger's JSON, and the JSON of OTLP (Tempo and
newer Jaeger).

The names of spans and attributes have changed several times in OpenTelemetry's messaging conventions. `StoredSpan`
always has the newest names. A span in the answer of a store may be invalid. It is left out if one of its fields is
missing or has a wrong type.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kcli.model.java_text import natural

Json = object

SPANS_MAX = 20_000
"""The most spans of a trace that are read. A larger trace cannot be shown on a screen."""

_OLD_NAMES = {
    "messaging.destination": "messaging.destination.name",
    "messaging.kafka.partition": "messaging.destination.partition.id",
    "messaging.kafka.destination.partition": "messaging.destination.partition.id",
    "messaging.kafka.message.offset": "messaging.kafka.offset",
    "messaging.kafka.client_id": "messaging.client.id",
    "messaging.client_id": "messaging.client.id",
    "messaging.kafka.consumer.group": "messaging.consumer.group.name",
    "messaging.kafka.consumer_group": "messaging.consumer.group.name",
    "messaging.operation": "messaging.operation.name",
    "messaging.kafka.message_key": "messaging.kafka.message.key",
}
"""The names of attributes in older versions of the conventions, each with its newest name."""

_OPERATIONS = {
    "publish": "send",
    "send": "send",
    "create": "create",
    "receive": "poll",
    "recv": "poll",
    "poll": "poll",
    "deliver": "process",
    "process": "process",
    "settle": "commit",
    "commit": "commit",
}


class NotATrace(ValueError):
    """An error for an answer of a store that has an unknown format."""


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A span from a store. `parent_id` is empty if the span has no parent."""

    name: str
    service: str
    span_id: str
    parent_id: str
    start_ns: int
    duration_ns: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_error: bool = False

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    @property
    def operation(self) -> str:
        """The operation of a messaging client: send, poll, process, create or commit; empty for other spans.

        Older spans are named TOPIC OPERATION, and newer ones OPERATION TOPIC.
        """
        named = self.attributes.get("messaging.operation.name")
        if named in _OPERATIONS:
            return _OPERATIONS[named]
        topic = self.attributes.get("messaging.destination.name")
        if topic is None:
            return ""
        words = self.name.replace(topic, " ").split()
        return next((_OPERATIONS[word] for word in words if word in _OPERATIONS), "")

    def is_about(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the attributes of the span name this record."""
        attributes = self.attributes
        if (
            attributes.get("messaging.message_id", attributes.get("messaging.message.id"))
            == f"{topic}.{partition}.{offset}"
        ):
            return True
        return (
            attributes.get("messaging.destination.name") == topic
            and attributes.get("messaging.destination.partition.id") == str(partition)
            and attributes.get("messaging.kafka.offset") == str(offset)
        )


def read(body: bytes) -> list[StoredSpan]:
    """Returns the spans of a store's answer, in the order of their starts.

    Raises NotATrace if the answer is neither Jaeger's nor OTLP's.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotATrace(f"the answer is not JSON: {error}") from error
    answer = _inner(answer)
    if isinstance(answer, dict) and isinstance(answer.get("data"), list):
        spans = _of_jaeger(answer["data"])
    else:
        batches = _first(answer, "batches", "resourceSpans")
        if not isinstance(batches, list):
            raise NotATrace("the answer has no spans of Jaeger or of Tempo")
        spans = _of_otlp(batches)
    unique = {span.span_id: span for _, span in zip(range(SPANS_MAX), spans, strict=False)}
    return sorted(unique.values(), key=lambda span: span.start_ns)


def _inner(answer: Json) -> Json:
    """Returns the object with the spans: the field `trace` (version 2 of Tempo's API), the field `result` (version 3 of
    Jaeger's API), or the answer itself."""
    for name in ("trace", "result"):
        if isinstance(answer, dict) and isinstance(answer.get(name), dict):
            return answer[name]
    return answer


def _of_jaeger(traces: list[Json]) -> Iterator[StoredSpan]:
    for trace in traces:
        processes = _dict(_get(trace, "processes"))
        for span in _list(_get(trace, "spans")):
            start, duration = _number(_get(span, "startTime")), _number(_get(span, "duration"))
            span_id = _text(_get(span, "spanID"))
            if not span_id or start is None:
                continue
            tags = {_text(_get(tag, "key")): _shown(_get(tag, "value")) for tag in _list(_get(span, "tags"))}
            yield _span(
                _text(_get(span, "operationName")),
                _text(_get(processes.get(_text(_get(span, "processID"))), "serviceName")),
                span_id,
                _jaeger_parent(span),
                start * 1000,
                (duration or 0) * 1000,
                tags,
                is_error=tags.get("error") == "true" or tags.get("otel.status_code") == "ERROR",
            )


def _jaeger_parent(span: Json) -> str:
    for reference in _list(_get(span, "references")):
        same_trace = _get(reference, "traceID") == _get(span, "traceID")
        if _get(reference, "refType") == "CHILD_OF" and same_trace:
            return _text(_get(reference, "spanID"))
    return ""


def _of_otlp(batches: list[Json]) -> Iterator[StoredSpan]:
    for batch in batches:
        service = _otlp_attributes(_get(_get(batch, "resource"), "attributes")).get("service.name", "")
        for scope in _list(_first(batch, "scopeSpans", "instrumentationLibrarySpans")):
            for span in _list(_get(scope, "spans")):
                start, end = _number(_get(span, "startTimeUnixNano")), _number(_get(span, "endTimeUnixNano"))
                span_id = _identity(_get(span, "spanId"))
                if not span_id or start is None:
                    continue
                yield _span(
                    _text(_get(span, "name")),
                    service,
                    span_id,
                    _identity(_get(span, "parentSpanId")),
                    start,
                    max(0, (end or start) - start),
                    _otlp_attributes(_get(span, "attributes")),
                    is_error=_get(_get(span, "status"), "code") in (2, "STATUS_CODE_ERROR"),
                )


def _otlp_attributes(pairs: Json) -> dict[str, str]:
    attributes = {}
    for pair in _list(pairs):
        value = _dict(_get(pair, "value"))
        attributes[_text(_get(pair, "key"))] = _shown(next(iter(value.values()), ""))
    return attributes


def _span(
    name: str,
    service: str,
    span_id: str,
    parent_id: str,
    start_ns: int,
    duration_ns: int,
    attributes: Mapping[str, str],
    *,
    is_error: bool,
) -> StoredSpan:
    renamed = {_OLD_NAMES.get(key, key): value for key, value in attributes.items()}
    return StoredSpan(name, service, span_id, parent_id, start_ns, duration_ns, renamed, is_error)


def _identity(value: Json) -> str:
    """Converts an id in JSON to hexadecimal digits. In OTLP's own JSON, an id already has hexadecimal digits. In
    Protobuf's JSON, it has base64. Returns an empty text for an invalid id."""
    text = _text(value)
    if len(text) in (16, 32) and all(digit in "0123456789abcdef" for digit in text.lower()):
        return text.lower()
    try:
        return base64.b64decode(text, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


def _get(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _first(value: Json, *names: str) -> Json:
    return next((part for name in names if (part := _get(value, name)) is not None), None)


def _list(value: Json) -> Iterable[Json]:
    return value if isinstance(value, list) else ()


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value)


def _number(value: Json) -> int | None:
    """Returns a whole number from JSON, or None if it is invalid. A number with 64 bits may be a text in JSON."""
    if isinstance(value, str):
        return natural(value)
    return (
        int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
    )
