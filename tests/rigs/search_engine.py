"""A small search engine that reads the _bulk API strictly: lines, actions, versions and types of fields."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_KEYS = {
    "index": {"_index", "_id", "version", "version_type"},
    "delete": {"_index", "_id", "version", "version_type"},
    "update": {"_index", "_id", "retry_on_conflict"},
}


class SearchEngine:
    """Indices with documents. `refusals` are the statuses of the next requests or items that are refused."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, Any] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.refused_requests: list[int] = []
        self.refused_items: list[int] = []
        self.bulk_answer: Any = None

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        self.requests.append(f"{method} {target}")
        if self.refused_requests:
            return self.refused_requests.pop(0), {"error": "refused"}
        path = urlsplit(target).path.strip("/").split("/")
        match method, path:
            case "POST", ["_bulk"]:
                answer = {"took": 1, "errors": True, "items": list(self._bulk(body))}
                return 200, answer if self.bulk_answer is None else self.bulk_answer
            case "GET", [index]:
                known = index in self.mappings
                return 200, {index: {"mappings": self.mappings[index]}} if known else {}
            case "PUT", [index]:
                if index in self.mappings:
                    return 400, {"error": {"type": "resource_already_exists_exception"}}
                self.mappings[index] = json.loads(body).get("mappings", {})
                self.documents[index] = {}
                return 200, {"acknowledged": True}
            case "PUT", [index, "_mapping"]:
                self.mappings[index] = json.loads(body)
                return 200, {"acknowledged": True}
            case _:
                return 405, {"error": "unknown"}

    def _bulk(self, body: bytes) -> Iterator[Any]:
        assert body.endswith(b"\n"), "_bulk needs a line feed at its end"
        lines = iter(body[:-1].split(b"\n"))
        for line in lines:
            ((action, target),) = json.loads(line).items()
            assert target.keys() <= _KEYS[action], target
            source = None if action == "delete" else json.loads(next(lines))
            yield {
                action: {
                    "_index": target["_index"],
                    "_id": target["_id"],
                    **self._apply(action, target, source),
                }
            }

    def _apply(self, action: str, target: Any, source: Any) -> dict[str, Any]:
        if self.refused_items and (status := self.refused_items.pop(0)) != 200:
            return {"status": status, "error": {"type": "es_rejected_execution_exception", "reason": "full"}}
        index, id = target["_index"], target["_id"]
        documents = self.documents[index]
        if "version" in target:
            assert target["version_type"] == "external"
            if target["version"] <= self.versions.get((index, id), -1):
                return {
                    "status": 409,
                    "error": {"type": "version_conflict_engine_exception", "reason": "old"},
                }
            self.versions[index, id] = target["version"]
        if action == "delete":
            return {"status": 200 if documents.pop(id, None) is not None else 404}
        if action == "update":
            assert source["doc_as_upsert"] is True
            source = documents.get(id, {}) | source["doc"]
        types = self.mappings[index].get("properties", {})
        for name, value in source.items():
            if types.get(name, {}).get("type") in ("integer", "long") and not isinstance(value, int | None):
                reason = f"failed to parse field [{name}]"
                return {"status": 400, "error": {"type": "document_parsing_exception", "reason": reason}}
        documents[id] = source
        return {"status": 201}


@contextlib.contextmanager
def running(engine: SearchEngine) -> Iterator[str]:
    """Serves an engine. Yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            engine.headers.append(dict(self.headers))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = engine.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = _serve

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
