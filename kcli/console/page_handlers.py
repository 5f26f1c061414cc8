"""Runs the handlers of pages: finds the user's connection, limits the time, and turns errors into responses."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from kcli.console.access import Visitors
from kcli.console.answers import Outcome, as_json, json_response
from kcli.console.audit import AuditLog, Deed
from kcli.console.calls import Action, Call
from kcli.console.failures import BROKEN, READ_ONLY, ConsoleError, Failure, failure_of
from kcli.console.routes import Change, Download, Feed, Read, Route
from kcli.console.settings import ConsoleSettings
from kcli.console.shared import Shared
from kcli.http.bodies import read_object
from kcli.http.events import EventStream
from kcli.http.server import (
    Request,
    Response,
    RouteDef,
    Stream,
    StreamEnded,
    StreamResponse,
    get,
    log_defect,
    post,
)
from kcli.runtime.clock import Clock

_log = logging.getLogger("kcli.console")

REQUEST_MAX_SECONDS = 30.0
"""The longest time of a request, including the wait for a turn (`ClusterConnection.turn`). A call to the cluster has a
shorter limit of its own."""

ACTION_MAX_SECONDS = 120.0
"""The longest time of an action. An action that has begun continues if the browser goes away."""

Handler = Callable[[Request], Awaitable[StreamResponse]]

_ENDED = Failure(
    HTTPStatus.GATEWAY_TIMEOUT,
    "ENDED",
    "the session or the time ended first: the cluster may have done the action",
)


class PageHandlers:
    """Makes the handlers of the HTTP server from the routes of the pages."""

    def __init__(self, settings: ConsoleSettings, visitors: Visitors, audit: AuditLog, clock: Clock) -> None:
        self._settings = settings
        self._visitors = visitors
        self._audit = audit
        self._clock = clock
        # asyncio has only weak references to tasks. So these references keep the actions that outlive their requests.
        self._actions: set[asyncio.Task[object]] = set()
        self._shared = Shared()

    def route(self, route: Route, prefix: str) -> RouteDef:
        """The route of the HTTP server for a route of a page."""
        path = f"{prefix}{route.path}"
        match route:
            case Read():
                return get(path, self.guarded(lambda request: self._read(route, request)))
            case Change():
                return post(path, self.guarded(lambda request: self._change(route, request)))
            case Feed():
                return get(path, self.guarded(lambda request: self._feed(route, request)))
            case Download():
                return get(path, self.guarded(lambda request: self._download(route, request)))

    @staticmethod
    def guarded(handler: Handler) -> Handler:
        """A handler whose errors become responses of JSON."""

        async def run(request: Request) -> StreamResponse:
            try:
                return await handler(request)
            except StreamEnded:
                raise
            except Exception as error:
                return _failed(request, error).response()

        return run

    async def close(self) -> None:
        """Waits for the actions that have begun, and closes the shared objects of the console."""
        if self._actions:
            await asyncio.wait(self._actions, timeout=REQUEST_MAX_SECONDS)
        await self._shared.close()

    async def _read(self, route: Read, request: Request) -> Response:
        call = self._call(request)
        contact = call.connection.contact
        contact.used()
        async with asyncio.timeout(REQUEST_MAX_SECONDS), call.connection.turn():
            work = route.handler(call)
            return json_response(call.dated(await (contact.guarded(work) if route.needs_cluster else work)))

    async def _change(self, route: Change, request: Request) -> Response:
        session = self._visitors.check_csrf(request)
        if self._settings.is_read_only:
            raise ConsoleError(
                HTTPStatus.FORBIDDEN,
                READ_ONLY,
                "the console runs with --read-only, so it refuses every action",
            )
        name = request.match_info["cluster"]
        connection = self._visitors.connection(session, name)
        action = Action(
            request=request,
            settings=self._settings,
            rules=self._visitors.rules_of(name),
            connection=connection,
            clock=self._clock,
            shared=self._shared,
            body=await read_object(request, body_max_bytes=route.body_max_bytes),
            work_ended=lambda failure: self._end(_deed(route, action, "end of "), failure),
        )
        # The browser may go away. An action that has begun must still end, and its result must be in the audit log.
        task = asyncio.create_task(self._act(route, action))
        self._actions.add(task)
        task.add_done_callback(self._actions.discard)
        outcome = await asyncio.shield(task)
        return json_response(
            {
                "preview": action.is_preview,
                "command": outcome.command,
                "summary": outcome.summary,
                "details": outcome.details,
            }
        )

    async def _act(self, route: Change, action: Action) -> Outcome:
        action.target = action.request.path
        async with asyncio.timeout(ACTION_MAX_SECONDS), action.connection.turn():
            if action.is_preview:
                return await route.handler(action)
            return await self._audited(route, action)

    async def _audited(self, route: Change, action: Action) -> Outcome:
        deed = _deed(route, action)
        self._audit.begin(deed)
        try:
            outcome = await route.handler(action)
        except BaseException as error:
            failure = (failure_of(error) if isinstance(error, Exception) else _ENDED) or BROKEN
            self._end(_deed(route, action), failure)
            raise
        finally:
            action.connection.cache.clear()
        self._end(_deed(route, action), None)
        return outcome

    def _end(self, deed: Deed, failure: Failure | None) -> None:
        if failure is None:
            self._audit.end(deed, "ok")
        else:
            self._audit.end(deed, failure.error, failure.message)

    async def _feed(self, route: Feed, request: Request) -> StreamResponse:
        call = self._call(request)
        async with call.connection.stream():
            stream = EventStream(request, default=as_json)
            async with stream:
                try:
                    work = route.handler(call, stream)
                    if route.needs_cluster:
                        work = call.connection.contact.guarded(work, patience_seconds=math.inf)
                    await work
                except StreamEnded:
                    raise
                except Exception as error:
                    # The head of the response is sent, so the error is an event.
                    failure = _failed(request, error)
                    await stream.send("error", {"error": failure.error, "message": failure.message})
            return stream.response

    async def _download(self, route: Download, request: Request) -> StreamResponse:
        call = self._call(request)
        async with call.connection.stream():
            file = await route.handler(call)
            name = "".join(
                character if character.isalnum() or character in "-_." else "_" for character in file.name
            )
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            async with Stream(request, file.content_type, headers) as stream:
                async for part in file.parts:
                    await stream.write(part)
            return stream.response

    def _call(self, request: Request) -> Call:
        name = request.match_info["cluster"]
        connection = self._visitors.connection(self._visitors.session(request), name)
        return Call(
            request=request,
            settings=self._settings,
            rules=self._visitors.rules_of(name),
            connection=connection,
            clock=self._clock,
            shared=self._shared,
        )


def _deed(route: Change, action: Action, prefix: str = "") -> Deed:
    return Deed(
        user=action.connection.identity.name,
        client=action.request.remote or "",
        cluster=action.cluster,
        action=f"{prefix}{route.name}",
        target=action.target,
    )


def _failed(request: Request, error: Exception) -> Failure:
    failure = failure_of(error)
    if failure is None:
        log_defect(request, error)
    return failure or BROKEN
