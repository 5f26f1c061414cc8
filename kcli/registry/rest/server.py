"""The REST server of a registry: its listeners, the limits of requests, and errors as responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from kcli.http.logins import Logins
from kcli.http.rest.application import Application
from kcli.http.rest.json_bodies import json_bytes
from kcli.http.rest.listeners import Listener
from kcli.http.rest.response_headers import Cors, HeaderRule, ResponseHeaders
from kcli.http.rest.routing import Call, Handler, Reply, Route
from kcli.http.server import HttpError, HttpServer, LoginNeeded, Response, Rules, respond
from kcli.model.addresses import Address
from kcli.registry.config.settings import RestConfig
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.registry import Registry
from kcli.registry.rest.access import Access
from kcli.registry.rest.contexts import in_contexts
from kcli.registry.rest.counts import ApiCounts
from kcli.registry.rest.resources import Desk
from kcli.registry.rest.schemas import SchemaResources
from kcli.registry.rest.scopes import ScopeResources
from kcli.registry.rest.subjects import SubjectResources
from kcli.runtime.network import Network

BODY_MAX_BYTES = 16 * 1024 * 1024
"""The longest body. A record has 1 MB by default, and JSON can make a schema six times as long."""

CONNECTIONS_MAX = 200
"""The most connections. More clients share them, because a connection without a request gives way to a new one."""

CONSUMED = ("application/octet-stream", "")
"""Types of bodies beside those of responses. The empty one stands for a request without Content-Type."""

JETTY_HEADERS = ("X-Requested-With", "Content-Type", "Accept", "Origin")
"""The headers that a page of another origin may send, if access.control.allow.headers is empty."""


class RestServer:
    """Listens from `listen` to `stop`."""

    def __init__(
        self,
        config: RestConfig,
        registry: Registry,
        listeners: Sequence[Listener],
        logins: Logins | None,
        network: Network,
    ) -> None:
        self._config = config
        self._registry = registry
        self._network = network
        self._servers: list[HttpServer] = []
        self._listeners = listeners
        self._logins = logins
        self.counts = ApiCounts()

    async def listen(self) -> Sequence[Address]:
        """Returns the addresses of the listeners. Raises OSError."""
        return [await self._listen(listener) for listener in self._listeners]

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()

    async def _listen(self, listener: Listener) -> Address:
        config = self._config
        application = Application(
            self._routes(),
            body_max_bytes=config.body_max_bytes or BODY_MAX_BYTES,
            on_error=_reply_to,
            media_types=config.media_types,
            consumes=CONSUMED,
            has_free_names=True,
            headers=ResponseHeaders(
                HeaderRule.parse(config.response_headers),
                Cors(
                    config.allow_origin,
                    config.allow_methods,
                    tuple(name for name in config.allow_headers if name) or JETTY_HEADERS,
                ),
            ),
        )
        rules = Rules(connections_max=CONNECTIONS_MAX, error_response=self._error_response)
        server = HttpServer(
            application.routes(), self._network, tls=listener.tls, logins=self._logins, rules=rules
        )
        self._servers.append(server)
        return Address(listener.host or "", await server.start(listener.host, listener.port))

    def _routes(self) -> Sequence[Route]:
        desk = Desk(self._registry, Access(self._registry.config.access))
        resources = [
            Route("GET", "/", _root),
            Route("POST", "/", _root),
            *SchemaResources(desk).routes(),
            *SubjectResources(desk).routes(),
            *ScopeResources(desk).routes(),
        ]
        routes = [*resources, *in_contexts(resources)]
        limited = [Route(route.method, route.template, self._limited(route)) for route in routes]
        return [*limited, Route("GET", "/health", self._health)]

    def _limited(self, route: Route) -> Handler:
        counted = self.counts.counted(route)

        async def handle(call: Call) -> Reply:
            try:
                async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                    return await counted(call)
            except TimeoutError:
                raise RegistryError(503, "the request took longer than request.timeout.ms") from None

        return handle

    async def _health(self, call: Call) -> Reply:
        """The state of this registry. Confluent's registries do not have this resource."""
        registry = self._registry
        if registry.store.error is not None:
            message = f"The topic is not read any more: {registry.store.error}"
            return _state("unhealthy", message, HTTPStatus.INTERNAL_SERVER_ERROR)
        election = registry.election
        if registry.config.read_only:
            return _state("healthy", "This registry only reads.")
        if registry.leads:
            return _state("healthy", "This registry is the leader.")
        leader = "unknown" if election is None or election.leader is None else election.leader.url
        return _state("healthy", f"The leader is {leader}.")

    def _error_response(self, error: HttpError) -> Response:
        """An error outside of the resources, such as a body that is too long."""
        needs_login = isinstance(error, LoginNeeded)
        message = "Unauthorized" if needs_login else str(error)
        body = json_bytes({"error_code": error.status.value, "message": message})
        response = respond(body, self._config.media_types[0], error.status)
        if error.close:
            response.force_close()
        if needs_login:
            realm = self._config.login.realm if self._config.login is not None else ""
            response.headers["WWW-Authenticate"] = f'Basic realm="{realm}"'
        return response


async def _root(call: Call) -> Reply:
    return Reply({})


def _state(status: str, message: str, http_status: HTTPStatus = HTTPStatus.OK) -> Reply:
    return Reply({"status": status, "message": message}, http_status)


def _reply_to(error: Exception) -> Reply | None:
    if not isinstance(error, RegistryError):
        return None
    return Reply({"error_code": error.code, "message": error.message}, error.status)
