"""A scripted REST API of Kafka Connect, for tests of its clients."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, object]
"""A status, and the JSON of a body or None."""

HEALTHY: Answer = (200, {"status": "healthy", "message": "Worker has completed startup."})
ROOT: Answer = (200, {"version": "4.1.0", "commit": "13f70256db3c994c", "kafka_cluster_id": "c"})
WORKER = "127.0.0.1:8083"


@dataclass(slots=True)
class ConnectApi:
    """`answers` has the answer to each "METHOD path". A path without an answer gets 404."""

    answers: dict[str, Answer] = field(
        default_factory=lambda: {
            "GET /health": HEALTHY,
            "GET /": ROOT,
            "GET /connectors": (200, {}),
            "GET /connector-plugins": (200, []),
        }
    )
    login: str | None = None
    requests: list[tuple[str, object]] = field(default_factory=list)
    """The requests that change something, with their JSON."""
    url: str = ""
    worker: str = WORKER
    """The worker in the states that `has` adds."""

    def has(
        self,
        name: str,
        *states: str,
        connector: str = "RUNNING",
        trace: str = "",
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a connector with the states of its tasks. Failed parts have the trace."""
        status = {
            "name": name,
            "connector": self._part(connector, trace),
            "tasks": [{"id": number, **self._part(state, trace)} for number, state in enumerate(states)],
            "type": "sink",
        }
        info = {"name": name, "config": {"name": name, **(config or {})}, "tasks": [], "type": "sink"}
        listed = self.answers["GET /connectors"][1]
        assert isinstance(listed, dict)
        listed[name] = {"status": status, "info": info}
        self.answers[f"GET /connectors/{name}/status"] = (200, status)
        self.answers[f"GET /connectors/{name}"] = (200, info)

    def _part(self, state: str, trace: str) -> dict[str, str]:
        part = {"state": state, "worker_id": self.worker, "version": "1"}
        return part | ({"trace": trace} if state == "FAILED" else {})

    def plugins(self, names: Sequence[str]) -> None:
        listed = [{"class": name, "type": "sink", "version": "1"} for name in names]
        self.answers["GET /connector-plugins"] = (200, listed)


def validation(*keys: Mapping[str, object]) -> Mapping[str, object]:
    """The answer to a validation."""
    return {"name": "plugin", "error_count": 0, "groups": [], "configs": list(keys)}


def config_key(
    name: str, kind: str = "STRING", *, errors: Sequence[str] = (), visible: bool = True
) -> Mapping[str, object]:
    """A key in the answer to a validation."""
    definition = {
        "name": name,
        "type": kind,
        "required": True,
        "default_value": None,
        "importance": "HIGH",
        "documentation": f"About {name}.",
        "group": None,
        "display_name": None,
    }
    value = {"name": name, "value": "x", "recommended_values": ["r"], "errors": errors, "visible": visible}
    return {"definition": definition, "value": value}


@contextmanager
def connect_api(*, tls: ssl.SSLContext | None = None) -> Iterator[ConnectApi]:
    """Serves a scripted API on 127.0.0.1."""
    api = ConnectApi()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            status, body = api.answers.get(
                f"{self.command} {path}", (404, {"error_code": 404, "message": "HTTP 404"})
            )
            if api.login is not None and self.headers.get("Authorization") != _basic(api.login):
                status, body = 401, None
            elif self.command != "GET":
                api.requests.append((f"{self.command} {self.path}", json.loads(content) if content else None))
            sent = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Writes nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    api.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"
