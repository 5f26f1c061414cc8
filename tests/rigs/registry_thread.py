"""A broker and registries on it in a thread of the test, for tools that run their own event loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import threading
import urllib.request
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError

from rigs import node
from rigs.loops import PATIENCE_S
from rigs.registry_programs import registry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Started:
    """The address of the broker, and the URLs of the registries."""

    bootstrap: str
    urls: list[str]


@contextlib.contextmanager
def registries(directory: Path, *settings: Mapping[str, str]) -> Iterator[Started]:
    """A broker with registries, one for each mapping of properties. Each has its own topic and its own group."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(work: Coroutine[object, object, T]) -> T:
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
        return future.result(PATIENCE_S)

    stack = contextlib.AsyncExitStack()

    async def start() -> Started:
        broker = await stack.enter_async_context(node.running(directory))
        urls = []
        for number, properties in enumerate(settings):
            own = {"kafkastore.topic": f"_schemas{number}", "schema.registry.group.id": f"registry-{number}"}
            started = await stack.enter_async_context(registry(broker.port(), {**own, **properties}))
            urls.append(started.url)
        return Started(f"127.0.0.1:{broker.port()}", urls)

    try:
        yield wait(start())
    finally:
        wait(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def with_fewer_features(url: str, *missing: str) -> Iterator[str]:
    """The URL of a registry that has only some resources of another one, as Karapace. `missing` has the others, such as
    `PUT /mode`, which stand for all that begin so. A resource that ends with $ stands only for itself."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            target = f"{self.command} {self.path.partition('?')[0]}$"
            if any(target.startswith(resource) for resource in missing):
                self._send(404, json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"}).encode())
                return
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(
                url + self.path, self.rfile.read(length) or None, headers, method=self.command
            )
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    self._send(answer.status, answer.read())
            except HTTPError as error:
                with error:
                    self._send(error.code, error.read())

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
