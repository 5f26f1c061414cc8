"""The endpoint: what a broker counts, over HTTP, for Prometheus and for `kcli jmx` and `kcli top`.

    GET /metrics      Prometheus' text format
    GET /jmx          {"beans": [{"name": OBJECT NAME, ATTRIBUTE: VALUE, …}, …]}; ?qry=PATTERN, any number of times
    GET /requests     {"requests": […]}: the slowest requests of the last minutes

It is there when `kcli.metrics.listener` or the environment's JMX_PORT says where. Like Kafka's JMX port it asks nobody
who he is: bind it to an address that only those reach who may know. Nothing can be changed through it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import cast

from kcli.model.object_name import MalformedObjectName, ObjectName
from kcli.runtime.network import Network
from kcli.server.beans.bean import Bean
from kcli.server.beans.broker_beans import BeanSources, broker_beans
from kcli.server.beans.exposition import CONTENT_TYPE, PrometheusText, json_bean

_log = logging.getLogger("kcli.server.MetricsEndpoint")

# Twice what a browser sends; no query of object names comes near.
HEAD_SIZE_MAX_BYTES = 16 * 1024
# A few scrapers and some people looking; each may hold a response of some megabytes.
CONNECTIONS_MAX = 32
# Prometheus asks every 15 to 60 seconds, on the same connection.
IDLE_MAX_SECONDS = 120.0
# So many beans are made in one turn of the event loop, about a millisecond: producers must not wait for a scrape.
BEANS_PER_TURN = 200
_HEAD_END = b"\r\n\r\n"
_JSON = "application/json; charset=utf-8"


class BadRequest(Exception):
    """What the client sent cannot be answered; the connection is closed after the response that says so."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, list[str]]
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class Response:
    status: HTTPStatus
    content_type: str
    body: bytes


class MetricsEndpoint:
    """Started before the broker's listeners, so that a start can be watched, and stopped after them."""

    def __init__(self, sources: BeanSources, network: Network, host: str, port: int) -> None:
        self.port = port
        self._sources = sources
        self._network = network
        self._host = host or None  # None: every interface
        self._server: asyncio.AbstractServer | None = None
        self._connections: dict[HttpConnection, None] = {}
        # One scrape at a time: they take turns with the clients' requests, and not with each other.
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Raises OSError when the port cannot be had."""
        self._server = await self._network.create_server(
            lambda: HttpConnection(self.answer, self._connections), self._host, self.port
        )
        bound = getattr(self._server, "sockets", None)
        if bound:
            self.port = bound[0].getsockname()[1]
        _log.info("Metrics are served on http://%s:%d/metrics", self._host or "0.0.0.0", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()

    async def answer(self, request: Request) -> Response:
        """Raises BadRequest."""
        match request.path:
            case "/metrics":
                return await self._metrics()
            case "/jmx":
                return await self._jmx(request.query.get("qry", []))
            case "/requests":
                slowest = [asdict(each) for each in self._sources.ports.metrics.requests.slowest]
                return _json_response(json.dumps({"requests": slowest}))
            case "/":
                return Response(HTTPStatus.OK, "text/plain; charset=utf-8", b"/metrics\n/jmx\n/requests\n")
            case _:
                return _text(HTTPStatus.NOT_FOUND, f"there is no {request.path}: /metrics, /jmx or /requests")

    async def _metrics(self) -> Response:
        text = PrometheusText()
        async for beans in self._turns():
            for bean in beans:
                text.add(bean)
        return Response(HTTPStatus.OK, CONTENT_TYPE, "".join(text.blocks()).encode())

    async def _jmx(self, queries: list[str]) -> Response:
        try:
            patterns = [ObjectName.parse(query) for query in queries]
        except MalformedObjectName as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"qry is not an object name: {error}") from None
        found: list[str] = []
        async for beans in self._turns():
            found += [
                json_bean(bean)
                for bean in beans
                if not patterns or any(each.matches(bean.domain, bean.properties) for each in patterns)
            ]
        return _json_response('{"beans":[\n' + ",\n".join(found) + "\n]}\n")

    async def _turns(self) -> AsyncIterator[list[Bean]]:
        """All beans, some in each turn of the event loop."""
        async with self._reading:
            self._sources.ports.metrics.refresh(self._sources.sockets.listeners)
            beans = broker_beans(self._sources)
            while part := _some(beans):
                yield part
                await asyncio.sleep(0)


def _some(beans: Iterator[Bean]) -> list[Bean]:
    return [bean for bean, _ in zip(beans, range(BEANS_PER_TURN), strict=False)]


def _json_response(text: str) -> Response:
    return Response(HTTPStatus.OK, _JSON, text.encode())


def _text(status: HTTPStatus, reason: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", f"{reason}\n".encode())


class HttpConnection(asyncio.Protocol):
    """One client: a GET, its answer, the next GET. While one is answered nothing more is read."""

    def __init__(
        self,
        answer: Callable[[Request], Awaitable[Response]],
        connections: dict[HttpConnection, None],
    ) -> None:
        self._answer = answer
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._head = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._connections) >= CONNECTIONS_MAX:
            self._refuse(
                BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, f"{CONNECTIONS_MAX} clients are connected")
            )
            return
        self._connections[self] = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._head += data
        self._watch()
        self._next()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _watch(self) -> None:
        """Whoever neither asks nor takes his answer for so long has his connection closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_MAX_SECONDS, self.abort)

    def _next(self) -> None:
        """Takes up the next request, once the one before is answered and the head of this one is here."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._task is not None:
            return
        head, end, rest = bytes(self._head).partition(_HEAD_END)
        try:
            if len(head) > HEAD_SIZE_MAX_BYTES:
                raise BadRequest(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"the head of a request may have {HEAD_SIZE_MAX_BYTES} bytes",
                )
            if not end:
                return
            request = parse_head(head)
        except BadRequest as error:
            self._refuse(error)
            return
        self._head = bytearray(rest)
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._respond(request), name="metrics")

    async def _respond(self, request: Request) -> None:
        try:
            response = await self._answer(request)
        except BadRequest as error:
            response = _text(error.status, str(error))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            response = _text(HTTPStatus.INTERNAL_SERVER_ERROR, "see the server's log")
        transport, self._task = self._transport, None
        if transport is None or transport.is_closing():
            return
        self._watch()
        transport.write(_encoded(response, request.method == "HEAD", request.keep_alive))
        if request.keep_alive:
            transport.resume_reading()
            self._next()
        else:
            transport.close()

    def _refuse(self, error: BadRequest) -> None:
        assert self._transport is not None
        self._transport.write(_encoded(_text(error.status, str(error)), False, False))
        self._transport.close()


def parse_head(head: bytes) -> Request:
    """Request line and headers of HTTP/1.0 or 1.1 (RFC 9112). Raises BadRequest."""
    from urllib.parse import parse_qs, unquote, urlsplit

    line, *rest = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "this port speaks HTTP: GET /metrics HTTP/1.1")
    method, target, version = words
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"{version} is not spoken: HTTP/1.1 is")
    headers: dict[str, str] = {}
    for each in rest:
        name, colon, value = each.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header must be name: value")
        headers[name.lower()] = value.strip()
    if version == "HTTP/1.1" and "host" not in headers:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "HTTP/1.1 wants a Host header")
    if method not in ("GET", "HEAD"):
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not allowed: GET and HEAD are")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"a {method} has no body here")
    try:
        url = urlsplit(target)
    except ValueError:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"{target} is not a path") from None
    connection = headers.get("connection", "").lower()
    keep_alive = connection == "keep-alive" if version == "HTTP/1.0" else connection != "close"
    return Request(method, unquote(url.path), parse_qs(url.query), keep_alive)


def _encoded(response: Response, head_only: bool, keep_alive: bool) -> bytes:
    status = response.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    head = "\r\n".join(lines).encode("latin-1") + _HEAD_END
    return head if head_only else head + response.body
