"""A small schema registry in memory: the endpoints that serializers and the client call, without any checks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kcli.formats.schemas import SchemaType, language_of

Json = Any


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


@dataclass
class Call:
    """A request, as a test looks at it."""

    method: str
    target: str
    headers: dict[str, str]
    body: Json


@dataclass
class MemoryRegistry:
    """The state. A test may look at `calls`, set `failures` (answers of the next requests), `associations`, and
    `check` (the answer of compatibility checks)."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    failures: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    associations: dict[str, list[str]] = field(default_factory=dict)
    subjects: dict[str, list[dict[str, Json]]] = field(default_factory=dict)
    deleted: set[tuple[str, int]] = field(default_factory=set)
    check: dict[str, Json] = field(
        default_factory=lambda: {"is_compatible": False, "messages": ["it never is"]}
    )
    configs: dict[str, Json] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)

    @property
    def targets(self) -> list[str]:
        return [f"{call.method} {call.target}" for call in self.calls]

    def put(
        self, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Json]] | None = None
    ) -> int:
        """Registers a schema, and returns its id."""
        body = {"schema": schema, "schemaType": kind, "references": references or []}
        return int(self.register(subject, body)["id"])

    def register(self, subject: str, body: dict[str, Json]) -> dict[str, Json]:
        body = self._canonical(body)
        if (found := self._find(subject, body)) is not None:
            return found
        schema = {name: body.get(name) for name in ("schema", "references", "metadata", "ruleSet")}
        schema["schemaType"] = body.get("schemaType", "AVRO")
        others = [other for versions in self.subjects.values() for other in versions]
        same = next((other for other in others if _same(other, schema)), None)
        digest = hashlib.md5(json.dumps(schema, sort_keys=True).encode()).hexdigest()
        schema["id"] = same["id"] if same else max((other["id"] for other in others), default=0) + 1
        schema["guid"] = str(uuid.UUID(digest))
        versions = self.subjects.setdefault(subject, [])
        schema |= {"subject": subject, "version": len(versions) + 1}
        versions.append({name: value for name, value in schema.items() if value})
        return versions[-1]

    def _find(self, subject: str, body: dict[str, Json]) -> dict[str, Json] | None:
        return next((held for held in self._live(subject) if _same(held, body)), None)

    def _live(self, subject: str, *, deleted: bool = False) -> list[dict[str, Json]]:
        versions = self.subjects.get(subject, [])
        return [held for held in versions if deleted or (subject, held["version"]) not in self.deleted]

    def answer(self, method: str, path: list[str], query: dict[str, list[str]], body: Json) -> Json:
        match method, path:
            case "GET", ["schemas", "types"]:
                return ["JSON", "PROTOBUF", "AVRO"]
            case "GET", ["schemas"]:
                whole = [held for subject in sorted(self.subjects) for held in self._live(subject)]
                offset, limit = int(query["offset"][0]), int(query["limit"][0])
                return whole[offset : offset + limit]
            case "GET", ["schemas", "ids", number]:
                return self._formatted(self._by("id", int(number)), query)
            case "GET", ["schemas", "ids", number, "versions"]:
                held = self._holders(int(number))
                return [{"subject": one["subject"], "version": one["version"]} for one in held]
            case "GET", ["schemas", "guids", guid]:
                return self._formatted(self._by("guid", guid), query)
            case "GET", ["schemas", "guids", guid, "ids"]:
                return [{"context": ".", "id": self._by("guid", guid)["id"]}]
            case "GET", ["contexts"]:
                return ["."]
            case "GET", ["subjects"]:
                return sorted(subject for subject in self.subjects if self._live(subject))
            case "GET", ["associations", "resources", _, topic]:
                if topic not in self.associations:
                    raise Refused(404, "HTTP 404 Not Found")
                return [{"subject": subject} for subject in self.associations[topic]]
            case "POST", ["compatibility", "subjects", _, "versions", *_]:
                return self.check
            case _, ["config" | "mode" as kind, *subject]:
                return self._setting(method, kind, "".join(subject), body)
            case _, ["subjects", subject, *rest]:
                return self._of_subject(method, subject, rest, query, body)
        raise Refused(404, "HTTP 404 Not Found")

    def _of_subject(
        self, method: str, subject: str, rest: list[str], query: dict[str, list[str]], body: Json
    ) -> Json:
        match method, rest:
            case "POST", ["versions"]:
                return self.register(subject, body)
            case "POST", []:
                found = self._find(subject, self._canonical(body))
                if found is None:
                    raise Refused(40403, "Schema not found")
                return found
            case "GET", ["versions"]:
                return [held["version"] for held in self._known(subject)]
            case "GET", ["versions", version]:
                held = self._version(subject, version, deleted=query.get("deleted") == ["true"])
                return self._formatted(held, query)
            case "GET", ["versions", version, "referencedby"]:
                wanted = (subject, self._version(subject, version)["version"])
                return sorted(
                    held["id"]
                    for versions in self.subjects.values()
                    for held in versions
                    if wanted in [(ref["subject"], ref["version"]) for ref in held.get("references", [])]
                )
            case "GET", ["metadata"]:
                wanted_properties = dict(zip(query["key"], query["value"], strict=True)).items()
                for held in reversed(self._known(subject)):
                    if wanted_properties <= ((held.get("metadata") or {}).get("properties") or {}).items():
                        return held
                raise Refused(40402, "Version latest not found.")
            case "DELETE", []:
                versions = [held["version"] for held in self._known(subject)]
                self.deleted |= {(subject, version) for version in versions}
                return versions
            case "DELETE", ["versions", version]:
                number = self._version(subject, version)["version"]
                self.deleted.add((subject, number))
                return number
        raise Refused(405, "HTTP 405 Method Not Allowed")

    def _setting(self, method: str, kind: str, subject: str, body: Json) -> Json:
        store: dict[str, Json] = self.configs if kind == "config" else self.modes
        if method == "PUT":
            store[subject] = body
            return body
        held = store.get(subject)
        if method == "DELETE":
            store.pop(subject, None)
        if kind == "mode":
            return held or {"mode": "READWRITE"}
        return {"compatibilityLevel": (held or {}).get("compatibility", "BACKWARD")}

    def _by(self, name: str, value: Json) -> Json:
        for versions in self.subjects.values():
            for held in versions:
                if held[name] == value:
                    return held
        raise Refused(40403, f"Schema {value} not found")

    def _canonical(self, body: dict[str, Json]) -> dict[str, Json]:
        """The body with the text of a Protobuf schema, because Confluent's client sends its descriptor in base64."""
        if body.get("schemaType") != "PROTOBUF":
            return body
        resolved: dict[str, str] = {}
        self._resolve(body, resolved)
        parsed = language_of(SchemaType.PROTOBUF).parse(body["schema"], resolved, is_new=False)
        return {**body, "schema": parsed.canonical}

    def _formatted(self, held: dict[str, Json], query: dict[str, list[str]]) -> dict[str, Json]:
        """The schema in the format of the query. Only Protobuf has another: the descriptor in base64."""
        if query.get("format") != ["serialized"] or held["schemaType"] != "PROTOBUF":
            return held
        resolved: dict[str, str] = {}
        self._resolve(held, resolved)
        parsed = language_of(SchemaType.PROTOBUF).parse(held["schema"], resolved, is_new=False)
        return {**held, "schema": parsed.in_format("serialized")}

    def _resolve(self, held: dict[str, Json], resolved: dict[str, str]) -> None:
        for reference in held.get("references") or []:
            used = self._version(reference["subject"], str(reference["version"]), deleted=True)
            self._resolve(used, resolved)
            resolved[reference["name"]] = used["schema"]

    def _holders(self, number: int) -> list[dict[str, Json]]:
        return [held for versions in self.subjects.values() for held in versions if held["id"] == number]

    def _known(self, subject: str) -> list[dict[str, Json]]:
        held = self._live(subject)
        if not held:
            raise Refused(40401, f"Subject '{subject}' not found.")
        return held

    def _version(self, subject: str, version: str, *, deleted: bool = False) -> dict[str, Json]:
        held = self._live(subject, deleted=deleted)
        if not held:
            raise Refused(40401, f"Subject '{subject}' not found.")
        if version in ("latest", "-1"):
            return held[-1]
        for one in held:
            if str(one["version"]) == version:
                return one
        raise Refused(40402, f"Version {version} not found.")


def _same(held: dict[str, Json], body: dict[str, Json]) -> bool:
    return all(
        (held.get(name) or usual) == (body.get(name) or usual)
        for name, usual in (("schema", ""), ("schemaType", "AVRO"), ("references", []))
    )


class _Handler(BaseHTTPRequestHandler):
    registry: MemoryRegistry

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(content) if (content := self.rfile.read(length))[:1] == b"{" else None
        self.registry.calls.append(Call(self.command, self.path, dict(self.headers), body))
        if self.registry.failures:
            status, headers, content = self.registry.failures.pop(0)
            self._send(status, content, headers)
            return
        path = [unquote(part) for part in parts.path.split("/") if part]
        try:
            answer = self.registry.answer(self.command, path, parse_qs(parts.query), body)
            self._send(200, json.dumps(answer).encode())
        except Refused as error:
            document = {"error_code": error.code, "message": str(error)}
            self._send(error.status, json.dumps(document).encode())

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


@contextlib.contextmanager
def memory_registry() -> Iterator[MemoryRegistry]:
    """Runs a registry in a thread of this process."""
    registry = MemoryRegistry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
