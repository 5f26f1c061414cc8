"""Serves the routes of a REST API over the HTTP server.

The order of checks is that of JAX-RS: path (400, 404), method (405), Content-Type (415), Accept (406), handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

from aiohttp import web

from kcli.http.bodies import read_body
from kcli.http.rest.json_bodies import json_bytes
from kcli.http.rest.paths import AmbiguousPath, path_segments
from kcli.http.rest.routing import Call, Match, Reply, Route, Router
from kcli.http.server import HttpError, Request, Response, RouteDef, connection_of, log_defect
from kcli.model.java_text import parse_double, trim

JSON = "application/json"

LONG_BODY_BYTES = 1024 * 1024
"""The size above which a body is long. Hundreds of bodies of this size fit into memory."""

LONG_BODIES_MAX = 4
"""The most requests with a long body that are served at a time, because each needs several times its size in memory."""


class Application:
    """Answers every path. `on_error` turns an exception of a handler into a reply, or returns None for a defect.

    `check` is called after a route is found, and may return a reply, for example to a request without a login.
    `media_types` are the types that the API produces and consumes, the preferred one first. `consumes` are further
    types that it consumes, of which `""` means a request without Content-Type. `has_free_names` permits every character
    in the names of a path.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        body_max_bytes: int,
        on_error: Callable[[Exception], Reply | None],
        media_types: Sequence[str] = (JSON,),
        consumes: Sequence[str] = (),
        has_free_names: bool = False,
        check: Callable[[Call], Awaitable[Reply | None]] | None = None,
        headers: Callable[[Call], Mapping[str, str]] | None = None,
    ) -> None:
        self._router = Router(routes)
        self._body_max_bytes = body_max_bytes
        self._on_error = on_error
        self._media_types = media_types
        self._consumed = (*media_types, *consumes)
        self._has_free_names = has_free_names
        self._check = check
        self._headers = headers
        self._long_bodies = asyncio.Semaphore(LONG_BODIES_MAX)

    def routes(self) -> Sequence[RouteDef]:
        """The routes for `HttpServer`."""
        return [web.route("*", "/{path:(?s:.*)}", self._handle)]

    def serve(self, routes: Sequence[Route]) -> None:
        """Takes other routes, for example those that need a part that starts later."""
        self._router = Router(routes)

    async def _handle(self, request: Request) -> Response:
        raw_path, _, _ = request.raw_path.partition("?")
        try:
            segments = path_segments(raw_path, is_lenient=self._has_free_names)
        except AmbiguousPath as error:
            return _refusal(request, str(error))
        call = Call({}, {}, {}, request.headers, b"", request.method, raw_path)
        match = self._router.match(segments)
        if match is None:
            return self._response(request, call, _error(HTTPStatus.NOT_FOUND), content_type=None)
        if match.has_invalid_parameter:
            return self._response(
                request, call, _error(HTTPStatus.NOT_FOUND), content_type=self._media_types[0]
            )
        queries = {name: request.query.getall(name) for name in request.query}
        first = {name: values[0] for name, values in queries.items()}
        call = Call(match.parameters, first, queries, request.headers, b"", request.method, raw_path)
        try:
            return await self._answer(request, call, match)
        except (HttpError, asyncio.CancelledError):
            raise
        except Exception as error:
            reply = self._on_error(error)
            if reply is None:
                log_defect(request, error)
                reply = error_reply(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or type(error).__name__)
            return self._response(request, call, reply, content_type=self._accepted(request))

    async def _answer(self, request: Request, call: Call, match: Match) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        route = match.routes.get(method)
        if route is None and method == "OPTIONS":
            return self._options(request, call, match)
        if route is None:
            return self._response(request, call, _error(HTTPStatus.METHOD_NOT_ALLOWED), content_type=None)
        if request.can_read_body and method in ("POST", "PUT", "PATCH") and not self._consumes(request):
            # Jersey names the type of its error only if the request names none.
            shown = None if request.headers.get("Content-Type") else self._media_types[0]
            return self._response(
                request, call, _error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE), content_type=shown
            )
        content_type = self._accepted(request)
        if content_type is None:
            return self._response(request, call, _error(HTTPStatus.NOT_ACCEPTABLE), content_type=None)
        # The body comes after the login, so that a stranger cannot fill the memory.
        reply = None if self._check is None else await self._check(call)
        if reply is None:
            async with self._place_for_body(request):
                if request.can_read_body:
                    body = await read_body(request, body_max_bytes=self._body_max_bytes)
                    call = dataclasses.replace(call, body=body)
                reply = await route.handler(call)
        return self._response(request, call, reply, content_type=content_type)

    @contextlib.asynccontextmanager
    async def _place_for_body(self, request: Request) -> AsyncIterator[None]:
        """Waits until a long body may be in memory. A chunked body may be long, too."""
        length = request.content_length
        if not request.can_read_body or (length is not None and length <= LONG_BODY_BYTES):
            yield
            return
        with connection_of(request).on_hold():
            await self._long_bodies.acquire()
        try:
            yield
        finally:
            self._long_bodies.release()

    def _consumes(self, request: Request) -> bool:
        header = request.headers.get("Content-Type", "")
        return trim(header.partition(";")[0]).lower() in self._consumed

    def _accepted(self, request: Request) -> str | None:
        return accepted(request.headers.get("Accept"), self._media_types)

    def _options(self, request: Request, call: Call, match: Match) -> Response:
        """Jersey answers with the methods as text, if the client accepts text."""
        allow = {"Allow": ",".join(match.allowed)}
        if accepted(request.headers.get("Accept"), ("text/plain",)) is not None:
            response = self._response(request, call, Reply(headers=allow), content_type="text/plain")
            response.body = ", ".join(match.allowed).encode()
            return response
        return self._response(request, call, Reply(headers=allow), content_type=self._media_types[0])

    def _response(self, request: Request, call: Call, reply: Reply, *, content_type: str | None) -> Response:
        headers = dict(reply.headers)
        if self._headers is not None:
            headers |= self._headers(call)
        body: bytes | None = None
        if isinstance(reply.body, bytes):
            body = reply.body
        elif reply.body is not None:
            body = json_bytes(reply.body)
        if content_type is not None and (body is not None or "Allow" in headers):
            headers.setdefault("Content-Type", content_type)
        return _Plain(status=reply.status, body=body, headers=headers)


class _Plain(web.Response):
    """A response that has no Content-Type if the API gives none, as Jersey's answers before a route is chosen."""

    async def _prepare_headers(self) -> None:
        has_type = "Content-Type" in self._headers
        await super()._prepare_headers()
        if not has_type:
            self._headers.popall("Content-Type", None)


def error_reply(status: HTTPStatus, message: str) -> Reply:
    """An error in the form that Connect and the schema registry use."""
    return Reply({"error_code": status.value, "message": message}, status)


def _error(status: HTTPStatus) -> Reply:
    return error_reply(status, f"HTTP {status.value} {status.phrase}")


def _refusal(request: Request, reason: str) -> Response:
    """A page as Jetty's. A request that changes something gets no body."""
    body = None
    if request.method in ("GET", "HEAD"):
        body = f"<html>\n<head><title>Error 400 {reason}</title></head>\n<body>{reason}</body>\n</html>\n"
    return Response(
        status=HTTPStatus.BAD_REQUEST,
        body=None if body is None else body.encode("iso-8859-1"),
        headers={"Cache-Control": "must-revalidate,no-cache,no-store"}
        | ({} if body is None else {"Content-Type": "text/html;charset=iso-8859-1"}),
    )


def accepted(header: str | None, media_types: Sequence[str]) -> str | None:
    """The media type of the response, from an Accept header (RFC 9110, 12.5.1). None if none is acceptable.

    A charset of the client is repeated, as Jersey does.
    """
    if not trim(header or ""):
        return media_types[0]
    best: tuple[float, str] | None = None
    for item in (header or "").split(","):
        kind, *parameters = (trim(part) for part in item.split(";"))
        quality, charset = 1.0, ""
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if trim(name).lower() == "q":
                quality = _quality(value)
            elif trim(name).lower() == "charset":
                charset = f";charset={trim(value).lower()}"
        for media_type in media_types:
            if quality > 0 and _covers(kind.lower(), media_type) and (best is None or quality > best[0]):
                best = quality, media_type + charset
    return None if best is None else best[1]


def _quality(text: str) -> float:
    try:
        return parse_double(text)
    except ValueError:
        return 0.0


def _covers(kind: str, media_type: str) -> bool:
    return kind in ("*/*", "*", media_type, media_type.partition("/")[0] + "/*")
