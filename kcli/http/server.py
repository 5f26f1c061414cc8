"""An HTTP/1.1 server: a table of routes, and limits that protect the process from slow or hostile clients.

aiohttp parses requests, finds the route and writes responses. The caller's `Network` opens the sockets. This module
adds limits that aiohttp does not have. They limit the number of connections, the time to read a response, and the bytes
that a client sends before it gets an answer. There is no limit for each address, because such a limit would also limit
proxies. A handler is a coroutine `(Request) -> Response`, which may raise HttpError.

If the number of connections has reached its limit, a new client takes the place of a client that gives way. A client
gives way while it sends no request, and while it reads its response very slowly. A client that is not logged in also
gives way while it sends a body, and while its login waits. Of these, clients that are not logged in go first, then the
address with the most connections, then the longest wait. So strangers cannot block users. Wrong logins are delayed by
address, and each of them ends its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self, cast

from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError, HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import LineTooLong

# The types and the route functions that handlers and their tables need, because no other package imports aiohttp.
from aiohttp.web import Request as Request
from aiohttp.web import Response as Response
from aiohttp.web import RouteDef as RouteDef
from aiohttp.web import StreamResponse as StreamResponse
from aiohttp.web import get as get
from aiohttp.web import post as post

from kcli.errors import KcliError
from kcli.http.handshakes import Handshakes, Tls, Waiting, peer_address
from kcli.http.logins import REALM, LoginGuard, Logins, TooManyFailures
from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines
from kcli.runtime.network import Network

_log = logging.getLogger("kcli.http.Server")

LINE_MAX_BYTES = 16 * 1024
"""The longest request line: twice the length that browsers send at most. `kcli jmx` puts all object names into one
query."""

HEADER_MAX_BYTES = 8 * 1024
"""The longest header. Tokens and cookies may have several kilobytes, and most other servers stop at 8 KB."""

HEADERS_MAX = 64
"""The most headers of a request. Browsers send about 20, and proxies add some."""

AHEAD_MAX_BYTES = 1024 * 1024
"""The most bytes that a client may send before the server handles its next request.

uvloop reads 256 KB at a time, and reads up to three times before it heeds the pause that a long body causes.
"""

CONNECTIONS_MAX = 32
"""The most connections. They are enough for a few scrapers and some people with browsers. Each connection may need
memory for a response of some megabytes."""

IDLE_MAX_SECONDS = 120.0
"""The longest time from a response to the end of the next request's header.

Prometheus sends a request every 15 to 60 seconds on the same connection.
"""

RESPONSE_MAX_SECONDS = 120.0
"""The longest time until a client has read its whole response."""

KNOWN_CONNECTIONS = 32
"""The additional connections for clients that are logged in. A new connection may also use one of them until its first
request shows whether the client is logged in."""

FIRST_REQUEST_SECONDS = 1.0
"""The time from a connection to its first request, in which it does not give way if another connection is possible."""

SLOW_READ_SECONDS = 5.0
"""The time after which a client that does not read its response gives way to other clients."""

STOP_MAX_SECONDS = 1.0
"""The time for which a stop of the server waits for requests in progress."""

# aiohttp logs each request at INFO. With a scraper, these lines would fill the log, so the level is WARNING.
_access_log = logging.getLogger("kcli.http.access")
_access_log.setLevel(logging.WARNING)


class HttpError(KcliError):
    """An error that a handler raises. The client gets a response with the status of the error, and its message as plain
    text.
    """

    def __init__(self, status: HTTPStatus, message: str, *, close: bool = False) -> None:
        """Makes an error. If `close` is True, the connection is closed after the response, so that the rest of the
        request is not read as another request."""
        super().__init__(message)
        self.status = status
        self.close = close


class StreamEnded(KcliError):
    """Raised in a handler if the client of a streamed response has disconnected, or reads too slowly. The handler ends
    with this error.
    """


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a server for all its requests and responses.

    `check` raises HttpError for a request that the server does not accept. It is called before the handler.
    `headers` are added to each response. `error_response` makes the response to an HttpError.
    """

    check: Callable[[Request], None] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    error_response: Callable[[HttpError], Response] | None = None
    connections_max: int | None = None
    """None means CONNECTIONS_MAX."""
    is_known: Callable[[Request], bool] | None = None
    """Whether the sender of a request is logged in, if the server itself has no `logins`."""


_LOGINS = web.AppKey("logins", object)
_GUARD = web.AppKey("guard", LoginGuard)
_RULES = web.AppKey("rules", Rules)
_LINES = web.AppKey("lines", LimitedLines)


class LoginNeeded(HttpError):
    """Raised for a request without a valid login, if the server has users."""

    def __init__(self) -> None:
        # The connection is closed, so that a client cannot send many logins together.
        super().__init__(HTTPStatus.UNAUTHORIZED, "this server needs a user name and a password", close=True)


class HttpServer:
    """Serves a table of routes from `start` to `stop`."""

    def __init__(
        self,
        routes: Iterable[RouteDef],
        network: Network,
        *,
        tls: Tls | None = None,
        logins: Logins | None = None,
        rules: Rules | None = None,
    ) -> None:
        """With `tls`, the server uses HTTPS. With `logins`, each request needs the name and password of a user."""
        self._network = network
        self._rules = rules or Rules()
        has_known = logins is not None or self._rules.is_known is not None
        self._additional = KNOWN_CONNECTIONS if has_known else 0
        self._handshakes = None if tls is None else Handshakes(tls)
        app = web.Application(middlewares=[_respond])
        app[_LOGINS] = logins
        app[_GUARD] = LoginGuard()
        app[_RULES] = self._rules
        app[_LINES] = LimitedLines()
        app.add_routes(routes)
        # A handler is cancelled when its client has closed the connection, because only that client needs the response.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=STOP_MAX_SECONDS)
        self._listener: asyncio.AbstractServer | None = None

    async def start(self, host: str | None, port: int) -> int:
        """Listens on a host and a port. None means all interfaces, and port 0 means any free port. Returns the port.

        Raises OSError if the server cannot listen on this port.
        """
        await self._runner.setup()
        self._listener = await self._network.create_server(self._connect, host, port)
        sockets = getattr(self._listener, "sockets", None)
        return int(sockets[0].getsockname()[1]) if sockets else port

    async def stop(self) -> None:
        """Closes idle connections immediately. Closes other connections after their response, but at the latest after
        STOP_MAX_SECONDS."""
        if self._listener is not None:
            self._listener.close()
        if self._handshakes is not None:
            self._handshakes.cancel()
        server = self._runner.server
        if server is None:
            return
        transports = [connection.transport for connection in server.connections]
        await self._runner.cleanup()
        for transport in transports:
            if transport is not None:
                # Python 3.11.2 raises this for a TLS transport that was closed twice. It ends without an abort.
                with contextlib.suppress(AttributeError):
                    transport.abort()

    def _connect(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        most = self._rules.connections_max or CONNECTIONS_MAX
        if server is None:
            return _Refusal(most)
        count, is_additional = self._connection_count(server), False
        if count >= most:
            last = self._first_to_go(server)
            is_additional = (last is None or _is_fresh(last)) and count < most + self._additional
            if not is_additional:
                if last is None:
                    return _Refusal(most)
                last.abort()
        connection = self._connection(server)
        connection.is_additional = is_additional
        return connection if self._handshakes is None else self._handshakes.protocol(connection)

    def _connection_count(self, server: web.Server) -> int:
        return len(server.connections) + (0 if self._handshakes is None else len(self._handshakes))

    def _first_to_go(self, server: web.Server) -> Waiting | None:
        """The connection of the client that gives way first, or None if no client gives way."""
        waiting: list[Waiting] = [] if self._handshakes is None else list(self._handshakes)
        waiting += [
            connection
            for connection in server.connections
            if isinstance(connection, Connection) and connection.gives_way
        ]
        counts = Counter(connection.address for connection in waiting)
        # The address with the most connections comes first, so that a client with many of them displaces itself.
        return min(
            waiting,
            key=lambda connection: (
                connection.is_known,
                -counts[connection.address],
                connection.has_served,
                connection.waits_since,
            ),
            default=None,
        )

    def _connection(self, server: web.Server) -> Connection:
        return Connection(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_MAX_SECONDS,
            max_line_size=LINE_MAX_BYTES,
            max_field_size=HEADER_MAX_BYTES,
            max_headers=HEADERS_MAX,
            logger=_log,
            access_log=_access_log,
        )


def _is_fresh(connection: Waiting) -> bool:
    """Whether the first request of a client may still be on its way."""
    age = asyncio.get_running_loop().time() - connection.waits_since
    return not connection.has_served and age < FIRST_REQUEST_SECONDS


class Connection(web.RequestHandler):
    """A connection of aiohttp with three changes: the limits of what a client sends ahead, the facts that decide which
    client gives way to others, and kcli's response to a malformed request.
    """

    __slots__ = (
        "address",
        "ahead_bytes",
        "has_served",
        "is_additional",
        "is_busy",
        "is_known",
        "is_on_hold",
        "sends_since",
        "waits_since",
    )

    is_additional: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.ahead_bytes = 0
        self.address = peer_address(transport)
        self.has_served = self.is_busy = self.is_known = self.is_on_hold = False
        self.sends_since: float | None = None
        self.waits_since = asyncio.get_running_loop().time()
        # A response counts as sent when the kernel has the whole response. `_send` waits for this, at most
        # RESPONSE_MAX_SECONDS. With the limit 0, asyncio's TLS would wait although nothing is left.
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=1)
        super().connection_made(transport)

    @property
    def gives_way(self) -> bool:
        """Whether the connection may be closed to make room for another one."""
        if not self.is_busy:
            return True
        if self.is_on_hold:
            return not self.is_known
        since = self.sends_since
        return since is not None and asyncio.get_running_loop().time() - since > SLOW_READ_SECONDS

    @contextlib.contextmanager
    def on_hold(self) -> Iterator[None]:
        """Marks a part of a request in which the server only waits: for the client, or because of wrong logins."""
        before, self.is_on_hold = self.is_on_hold, True
        try:
            yield
        finally:
            self.is_on_hold = before

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Marks a part of a request in which the client must read a part of its response."""
        self.sends_since = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.sends_since = None

    def begin_request(self) -> None:
        """Called when a request begins. Until its end, received bytes count towards AHEAD_MAX_BYTES."""
        self.ahead_bytes = 0
        self.is_busy = True

    def end_request(self) -> None:
        self.has_served, self.is_busy = True, False
        self.waits_since = asyncio.get_running_loop().time()

    def abort(self) -> None:
        """Closes the connection immediately."""
        self.is_busy = True  # so `_make_room` does not choose this connection again
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.ahead_bytes += len(data)
        if self.ahead_bytes <= AHEAD_MAX_BYTES:
            super().data_received(data)
        else:
            self.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Responds to a request that cannot be parsed. The connection is closed after the response."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong) or _TOO_MANY in (message or ""):
            error = HttpError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"a request line may have {LINE_MAX_BYTES} bytes, a header {HEADER_MAX_BYTES}, and a request "
                f"{HEADERS_MAX} headers",
                close=True,
            )
        else:
            error = HttpError(HTTPStatus.BAD_REQUEST, "this is not a valid request of HTTP/1.1", close=True)
        return _completed(_error_response(error))


_TOO_MANY = "Too many"
"""A part of the message of aiohttp's error for too many headers. The message is compared, because this error has no
class of its own."""


class _Refusal(asyncio.Protocol):
    """A connection above the limit of connections. The client gets a response with an error, and the connection is
    closed.
    """

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        body = f"{self._connections_max} clients are connected\n"
        status = HTTPStatus.SERVICE_UNAVAILABLE
        cast(asyncio.Transport, transport).write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {TEXT}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        transport.close()


# --- responses

TEXT = "text/plain; charset=utf-8"
JSON = "application/json; charset=utf-8"


def respond(body: bytes, content_type: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Returns a response with this body. `content_type` may have parameters."""
    return Response(status=status, body=body, headers={hdrs.CONTENT_TYPE: content_type})


def _error_response(error: HttpError) -> Response:
    response = respond(f"{error}\n".encode(), TEXT, error.status)
    if error.close:
        response.force_close()
    if isinstance(error, LoginNeeded):
        response.headers[hdrs.WWW_AUTHENTICATE] = f'Basic realm="{REALM}", charset="UTF-8"'
    return response


def _completed(response: StreamResponse, rules: Rules | None = None) -> StreamResponse:
    response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers[hdrs.SERVER] = "kcli"
    if rules is not None:
        response.headers.update(rules.headers)
    return response


class Stream:
    """A response that its handler writes in parts, inside `async with`. Each part has a limited time.

    The next part is written when the kernel has accepted the part before it. So a slow client slows only its own
    handler, and no part waits in memory. The methods raise StreamEnded if the client has disconnected.
    """

    def __init__(
        self,
        request: Request,
        content_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        part_max_seconds: float | None = None,
    ) -> None:
        """`part_max_seconds` is the time for each part. None means RESPONSE_MAX_SECONDS."""
        self._request, self._part_max_seconds = request, part_max_seconds
        self.response = StreamResponse(headers={**(headers or {}), hdrs.CONTENT_TYPE: content_type})

    async def __aenter__(self) -> Self:
        _completed(self.response, self._request.app[_RULES])
        await self._in_time(self.response.prepare(self._request))
        return self

    async def write(self, part: bytes) -> None:
        """Writes a part of the body."""
        await self._in_time(self.response.write(part))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self._in_time(self.response.write_eof())
        elif self._request.transport is not None:
            # Without the end of the body, the client notices that the response is not whole.
            self._request.transport.abort()

    async def _in_time(self, step: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._part_max_seconds or RESPONSE_MAX_SECONDS):
                with connection_of(self._request).sending():
                    await step
        except (TimeoutError, ConnectionError) as error:
            raise StreamEnded("the client has gone, or reads too slowly") from error


# --- requests


def connection_of(request: Request) -> Connection:
    """The connection of a request."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    return connection


@web.middleware
async def _respond(
    request: Request, handler: Callable[[Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    connection = connection_of(request)
    connection.begin_request()
    try:
        return await _answered(request, handler)
    finally:
        connection.end_request()


async def _answered(
    request: Request, handler: Callable[[Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Sends the response of a handler, or the response to its error."""
    rules = request.app[_RULES]
    failed = rules.error_response or _error_response
    try:
        _check(request)
        connection = connection_of(request)
        await _check_login(request)
        if rules.check is not None:
            rules.check(request)
        if rules.is_known is not None:
            connection.is_known = rules.is_known(request)
        if connection.is_additional and not connection.is_known:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE, "all connections are busy: try again later", close=True
            )
        response = await handler(request)
    except HttpError as error:
        response = failed(error)
    except web.HTTPMethodNotAllowed as error:
        response = _method_not_allowed(error)
    except web.HTTPException as error:
        response = failed(HttpError(HTTPStatus(error.status), error.reason))
    except StreamEnded:
        response = Response()
    except Exception:
        log_defect(request)
        response = failed(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "see the server's log"))
    if not response.prepared:
        await _send(request, _completed(response, rules))
    return response


def _check(request: Request) -> None:
    """Raises HttpError for a request that aiohttp accepts but this server refuses."""
    if request.version not in (HttpVersion10, HttpVersion11):
        major, minor = request.version
        raise HttpError(
            HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
            f"HTTP/{major}.{minor} is not supported: HTTP/1.1 is",
            close=True,
        )
    if request.version == HttpVersion11 and hdrs.HOST not in request.headers:
        raise HttpError(HTTPStatus.BAD_REQUEST, "HTTP/1.1 needs a Host header", close=True)
    if request.body_exists and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"a {request.method} has no body here", close=True)


async def _check_login(request: Request) -> None:
    """Raises HttpError if the server has users, and the request has no valid login."""
    logins = request.app[_LOGINS]
    if not isinstance(logins, Logins):
        return
    connection, guard = connection_of(request), request.app[_GUARD]
    login = request.headers.get(hdrs.AUTHORIZATION)
    connection.is_known = False
    if login is None and not logins.are_needed(request.method, request.path):
        return
    if login is None:
        raise LoginNeeded
    if not guard.is_known(connection.address, login):
        try:
            with connection.on_hold():
                await guard.wait(connection.address)
        except TooManyFailures as error:
            raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, str(error), close=True) from None
    if not logins.accepts(login):
        guard.failed(connection.address)
        raise LoginNeeded
    guard.succeeded(connection.address, login)
    connection.is_known = True


def log_defect(request: Request, error: Exception | None = None) -> None:
    """Logs an unexpected error in a handler. The lines are limited, because a client may repeat its request."""
    ending = request.app[_LINES].ending(asyncio.get_running_loop().time())
    if ending is not None:
        path = log_text.name(request.path)
        _log.error("%s %s failed%s", request.method, path, ending, exc_info=error or True)


def _method_not_allowed(error: web.HTTPMethodNotAllowed) -> Response:
    allowed = sorted(error.allowed_methods)
    response = _error_response(
        HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{error.method} is not allowed: {' and '.join(allowed)} are",
            close=True,
        )
    )
    response.headers[hdrs.ALLOW] = ", ".join(allowed)
    return response


async def _send(request: Request, response: StreamResponse) -> None:
    """Writes the whole response, or aborts the connection of a client that does not read it."""
    transport = request.transport
    try:
        with connection_of(request).sending():
            async with asyncio.timeout(RESPONSE_MAX_SECONDS):
                await response.prepare(request)
                await response.write_eof()
    except (TimeoutError, ConnectionError):
        if transport is not None:
            transport.abort()
