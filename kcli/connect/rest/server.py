"""The REST server of a worker: its listeners, the time-outs of requests, and the errors of herders as responses."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from kcli.connect.errors import NotLeader, RestError
from kcli.connect.herders.connector_log import ConnectorLog
from kcli.connect.herders.herder import Herder
from kcli.connect.peers.forwarding import Forwarder
from kcli.connect.rest.connectors import ConnectorResources, location
from kcli.connect.rest.internal import InternalResources
from kcli.connect.rest.loggers import LoggerResources
from kcli.connect.rest.plugins import PluginResources
from kcli.formats.connect.errors import ConnectException, NotFoundException
from kcli.http.rest.application import Application, error_reply
from kcli.http.rest.json_bodies import InvalidBody
from kcli.http.rest.listeners import Listener
from kcli.http.rest.response_headers import ResponseHeaders
from kcli.http.rest.routing import Call, Handler, Reply, Route
from kcli.http.server import HttpServer, Rules
from kcli.model.addresses import Address
from kcli.runtime.network import Network

REQUEST_TIMEOUT_SECONDS = 90.0
"""The time of a request, as in Java (RestServer's DEFAULT_REST_REQUEST_TIMEOUT_MS)."""

HEALTH_TIMEOUT_SECONDS = 10.0
"""The time in which a worker must show that it is alive (KIP-1017)."""

BODY_MAX_BYTES = 32 * 1024 * 1024
"""The longest body. Configurations of some megabytes exist, because they may contain scripts and certificates."""

CONNECTIONS_MAX = 200
"""The most connections. Operators of Kubernetes, consoles and scripts keep some dozens open."""

KAFKA_VERSION = "4.1.0"
KAFKA_COMMIT = "13f70256db3c994c"
"""The release of Apache Kafka that the worker is compatible with. Clients choose their calls by it."""


@dataclass(frozen=True, slots=True)
class RestSettings:
    """`admin_listeners`: None means that /admin is on the main listeners. An empty list means that it is nowhere."""

    listeners: Sequence[Listener]
    admin_listeners: Sequence[Listener] | None = None
    tracks_topics: bool = True
    allows_reset: bool = True
    headers: ResponseHeaders = field(default_factory=ResponseHeaders)
    check: Callable[[Call], Awaitable[Reply | None]] | None = None
    """Refuses requests without a login."""
    forwarding_tls: ssl.SSLContext | None = None


class RestServer:
    """Listens from `listen` to `stop`, and answers when `serve` has given it a herder.

    The port of a listener may be chosen while the server begins to listen, and the herder needs it for its worker id.
    """

    def __init__(self, settings: RestSettings, network: Network) -> None:
        self._settings = settings
        self._network = network
        self._forwarder = Forwarder(settings.forwarding_tls)
        self._herders: Sequence[Herder] = ()
        self._url = ""
        self.last_active = 0.0
        """The time of the event loop at which the last request came or was answered."""
        self._servers: list[HttpServer] = []
        self._applications: list[Application] = []
        self._admin_applications: list[Application] = []

    async def listen(self) -> Sequence[Address]:
        """Returns the addresses of the main listeners. Raises OSError."""
        settings = self._settings
        addresses = [await self._listen(listener, self._applications) for listener in settings.listeners]
        for listener in settings.admin_listeners or ():
            await self._listen(listener, self._admin_applications)
        return addresses

    def serve(self, herder: Herder, advertised_url: str, log: ConnectorLog) -> None:
        """Answers requests with a herder, which may still start up."""
        self._herders, self._url = (herder,), advertised_url
        settings = self._settings
        root = Route("GET", "/", _root(herder))
        admin = LoggerResources(herder).routes()
        connectors = ConnectorResources(
            herder,
            advertised_url,
            log,
            tracks_topics=settings.tracks_topics,
            allows_reset=settings.allows_reset,
        )
        main = [
            root,
            Route("GET", "/health", self._health),
            Route("GET", "/rebalance", _rebalance(herder)),
            *PluginResources(herder).routes(),
            *connectors.routes(),
            *InternalResources(herder).routes(),
            *(admin if settings.admin_listeners is None else ()),
        ]
        for application in self._applications:
            application.serve(self._in_time(main))
        for application in self._admin_applications:
            application.serve(self._in_time([root, *admin]))

    def serve_internal(self, herders: Mapping[str, Herder]) -> None:
        """Answers only the other workers. The herders are by the beginning of their paths, such as `/A/B`."""
        self._herders = tuple(herders.values())
        routes = [Route("GET", "/health", self._health)]
        for prefix, herder in herders.items():
            routes += InternalResources(herder, prefix).routes()
        for application in self._applications:
            application.serve(self._in_time(routes))

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()

    async def _listen(self, listener: Listener, applications: list[Application]) -> Address:
        application = Application(
            [Route("GET", "/health", self._health)],
            body_max_bytes=BODY_MAX_BYTES,
            on_error=_reply_to,
            check=self._settings.check,
            headers=self._settings.headers,
        )
        server = HttpServer(
            application.routes(),
            self._network,
            tls=listener.tls,
            rules=Rules(connections_max=CONNECTIONS_MAX),
        )
        applications.append(application)
        self._servers.append(server)
        port = await server.start(listener.host, listener.port)
        return Address(listener.host or "", port)

    def _in_time(self, routes: Sequence[Route]) -> Sequence[Route]:
        return [Route(route.method, route.template, self._limited(route.handler)) for route in routes]

    def _limited(self, handler: Handler) -> Handler:
        """A handler with a limit of time, whose request goes to another worker if this one cannot answer it."""

        async def limited(call: Call) -> Reply:
            now = asyncio.get_running_loop().time
            self.last_active = now()
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                    try:
                        return await handler(call)
                    except NotLeader as error:
                        return self._with_location(await self._forwarder.forward(call, error))
            except TimeoutError:
                stages = (herder.health().stage for herder in self._herders)
                stage = next(filter(None, stages), None)
                raise RestError(f"Request timed out. {stage}" if stage else "Request timed out") from None
            finally:
                self.last_active = now()

        return limited

    def _with_location(self, reply: Reply) -> Reply:
        """A forwarded answer to the creation of a connector. Its URL names the worker that the client has asked."""
        if reply.status is not HTTPStatus.CREATED or not isinstance(reply.body, bytes):
            return reply
        name = str(json.loads(reply.body)["name"])
        return dataclasses.replace(reply, headers={"Location": location(self._url, name)})

    async def _health(self, call: Call) -> Reply:
        if not self._herders:
            return _health("starting", _STARTING, HTTPStatus.SERVICE_UNAVAILABLE)
        with suppress(TimeoutError):
            async with asyncio.timeout(HEALTH_TIMEOUT_SECONDS):
                for herder in self._herders:
                    await herder.ping()
                return _health("healthy", "Worker has completed startup and is ready to handle requests.")
        healths = [herder.health() for herder in self._herders]
        health = next((one for one in healths if not one.is_ready or one.stage), healths[0])
        stage = f" {health.stage}" if health.stage else ""
        if not health.is_ready:
            return _health("starting", f"Worker is still starting up.{stage}", HTTPStatus.SERVICE_UNAVAILABLE)
        return _health(
            "unhealthy",
            f"Worker was unable to handle this request and may be unable to handle other requests.{stage}",
            HTTPStatus.INTERNAL_SERVER_ERROR,
        )


def _root(herder: Herder) -> Handler:
    async def root(call: Call) -> Reply:
        return Reply(
            {
                "version": KAFKA_VERSION,
                "commit": KAFKA_COMMIT,
                "kafka_cluster_id": herder.kafka_cluster_id,
            }
        )

    return root


def _rebalance(herder: Herder) -> Handler:
    """The state of the group of workers. Java's workers do not have this resource."""

    async def rebalance(call: Call) -> Reply:
        return Reply({"delay_ms": herder.rebalance_delay_ms})

    return rebalance


_STARTING = "Worker is still starting up."


def _health(status: str, message: str, http_status: HTTPStatus = HTTPStatus.OK) -> Reply:
    return Reply({"status": status, "message": message}, http_status)


_STATUS_OF: Mapping[type[Exception], HTTPStatus] = {NotFoundException: HTTPStatus.NOT_FOUND}


def _reply_to(error: Exception) -> Reply | None:
    match error:
        case RestError():
            return error_reply(HTTPStatus(error.status), str(error))
        case InvalidBody() | ConnectException():
            status = _STATUS_OF.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)
            return error_reply(status, str(error))
        case _:
            return None
