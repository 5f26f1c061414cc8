"""An HTTP server that answers as a test says, and remembers the requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class SentRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    missing_bytes: int = 0
    """How many bytes fewer than promised the body has before the connection ends."""


@dataclass(slots=True)
class HttpTarget:
    """`answer` makes the reply to a request. It may change while the server runs."""

    answer: Callable[[SentRequest], Reply]
    requests: list[SentRequest] = field(default_factory=list)
    connections: int = 0
    url: str = ""


@contextmanager
def http_target(answer: Callable[[SentRequest], Reply] = lambda request: Reply()) -> Iterator[HttpTarget]:
    target = HttpTarget(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            target.connections += 1

        def handle_any(self) -> None:
            length = self.headers.get("Content-Length")
            body = self.rfile.read(int(length)) if length else b""
            request = SentRequest(self.command, self.path, dict(self.headers), body)
            target.requests.append(request)
            reply = target.answer(request)
            size = len(reply.body) + reply.missing_bytes
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(size)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection |= bool(reply.missing_bytes)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            """Nothing: the requests are remembered."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    target.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield target
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
