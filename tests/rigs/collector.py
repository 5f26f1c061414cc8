"""A collector of traces for tests: it receives OTLP over HTTP, and answers queries as Jaeger and Tempo do."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WAIT_SECONDS = 20.0


@dataclass(frozen=True)
class Received:
    """A span that the collector received. Ids are hexadecimal."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    service: str
    is_error: bool


@dataclass
class Collector:
    """The received spans, and the requests as they came."""

    port: int = 0
    spans: list[Received] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    status: int = 200
    """The status of the responses to exports."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def named(self, name: str, trace_id: str | None = None) -> list[Received]:
        return [span for span in self.spans if span.name == name and trace_id in (None, span.trace_id)]

    def wait_for(self, name: str, count: int = 1, trace_id: str | None = None) -> list[Received]:
        """Waits until `count` spans with this name have arrived. With `trace_id`, only spans of this trace count."""
        deadline = time.monotonic() + WAIT_SECONDS
        while len(self.named(name, trace_id)) < count:
            assert time.monotonic() < deadline, f"no span {name}, only {[span.name for span in self.spans]}"
            time.sleep(0.02)
        return self.named(name, trace_id)


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port of this machine."""
    collected = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces" and collected.status == 200:
                collected.headers.append(dict(self.headers))
                request = ExportTraceServiceRequest.FromString(body)
                collected.requests.append(request)
                collected.spans += _spans(request)
            self._answer(
                collected.status if self.path == "/v1/traces" else 404, b"", "application/x-protobuf"
            )

        def do_GET(self) -> None:
            style, _, trace_id = self.path.partition("/api/traces/")
            found = [span for span in collected.spans if span.trace_id == trace_id]
            if not found:
                self._answer(404, json.dumps({"errors": [{"code": 404, "msg": "trace not found"}]}).encode())
                return
            shown = _tempo(collected.requests, trace_id) if style == "/tempo" else _jaeger(found)
            self._answer(200, json.dumps(shown).encode())

        def _answer(self, status: int, body: bytes, content_type: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _spans(request: Any) -> Iterator[Received]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    span.name,
                    span.kind,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _attributes(span.attributes),
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    service,
                    span.status.code == 2,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def _jaeger(spans: list[Received]) -> dict[str, Any]:
    services = sorted({span.service for span in spans})
    return {
        "data": [
            {
                "traceID": spans[0].trace_id,
                "spans": [
                    {
                        "traceID": span.trace_id,
                        "spanID": span.span_id,
                        "operationName": span.name,
                        "references": [
                            {"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": span.parent_id}
                        ]
                        if span.parent_id
                        else [],
                        "startTime": span.start_ns // 1000,
                        "duration": (span.end_ns - span.start_ns) // 1000,
                        "tags": [
                            {
                                "key": name,
                                "type": "int64" if isinstance(value, int) else "string",
                                "value": value,
                            }
                            for name, value in span.attributes.items()
                        ],
                        "processID": f"p{services.index(span.service)}",
                    }
                    for span in spans
                ],
                "processes": {
                    f"p{number}": {"serviceName": service, "tags": []}
                    for number, service in enumerate(services)
                },
            }
        ],
        "total": 0,
        "errors": None,
    }


def _tempo(requests: list[Any], trace_id: str) -> dict[str, Any]:
    """Tempo's JSON: protobuf's mapping, so ids are in base64 and times are strings."""
    batches = []
    for request in requests:
        for batch in MessageToDict(request)["resourceSpans"]:
            for scope in batch["scopeSpans"]:
                scope["spans"] = [span for span in scope["spans"] if span["traceId"] == _base64(trace_id)]
            batches.append(batch)
    return {"batches": batches}


def _base64(trace_id: str) -> str:
    import base64

    return base64.b64encode(bytes.fromhex(trace_id)).decode()
