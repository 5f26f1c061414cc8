"""The listeners of a node: their ports, their logins, and the dispatches that serve their requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listeners import Listener
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.hosts import InvalidHost
from kcli.runtime.network import Network
from kcli.security.authorizer import Authorizer
from kcli.server.logins.listener_security import NodeSecurity
from kcli.server.metrics.metrics import Metrics
from kcli.server.network.connection import Serve
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import (
    connection_limits,
    idle_max_seconds,
    listener_settings,
    queued_bytes_max,
)
from kcli.server.network.loop_shared import LoopShared
from kcli.server.requests.apis import served_on_broker, served_on_controller
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.forwarding import ForwardedCaller, Forwarder
from kcli.server.requests.offers import Offers
from kcli.server.requests.quotas import ClientQuotas

_log = logging.getLogger("kcli.server.KafkaRaftServer")


class Listeners:
    """The listeners of a node, which share their sockets, their logins, the quotas of clients and the authorizer."""

    def __init__(
        self,
        config: BrokerConfig,
        sockets: SocketServer,
        *,
        security: NodeSecurity,
        quotas: ClientQuotas,
        metrics: Metrics,
        authorizer: Authorizer,
    ) -> None:
        self.security = security
        self.quotas = quotas
        self.metrics = metrics
        self.authorizer = authorizer
        self.dispatches: dict[bool, Dispatch] = {}
        """The dispatch of the broker listeners (False) and of the controller listeners (True)."""
        self._config = config
        self.sockets = sockets

    def serve(self, offers: Offers, *, on_controller: bool, forwarder: Forwarder | None = None) -> None:
        """Makes the dispatch of a role. Its handlers take their ports from `offers`. Call this method before `open`."""
        self.dispatches[on_controller] = Dispatch(
            offers,
            served_on_controller() if on_controller else served_on_broker(),
            quotas=self.quotas,
            metrics=self.metrics,
            authorizer=self.authorizer,
            forwarder=forwarder,
        )

    async def open(self, around: Callable[[Dispatch], Serve]) -> None:
        """Opens every listener. Clients that connect wait until the sockets admit them, except on the early listeners.

        `around` returns the function that serves the requests of a dispatch. Raises OSError or ConfigError.
        """
        early = self._config.early_start_listeners
        self.sockets.hold(listener.name for listener in self._config.listeners if listener.name not in early)
        served = {on_controller: around(dispatch) for on_controller, dispatch in self.dispatches.items()}
        for listener in self._config.listeners:
            on_controller = listener.name in self._config.controller_listener_names
            security = self.security.of(listener, self.dispatches[on_controller])
            try:
                opened = await self.sockets.listen(
                    listener_settings(self._config, listener),
                    served[on_controller],
                    security.authenticate,
                    security.tls,
                )
            except InvalidHost as error:
                raise ConfigError(str(error), key="listeners") from error
            _log.info("Awaiting socket connections on %s:%d.", listener.host or "0.0.0.0", opened.port)

    def bound(self, listeners: Iterable[Listener]) -> list[Listener]:
        """The listeners with the ports that the system chose in place of port 0."""
        return [
            listener
            if listener.port
            else listener.at(listener.host, self.sockets.listeners[listener.name].port)
            for listener in listeners
        ]

    def reconfigure(self, _before: BrokerConfig, after: BrokerConfig) -> None:
        """Applies changed limits of connections, and then admits the clients for which there is a place now."""
        self.sockets.limits = connection_limits(after)
        for listener in self._config.listeners:
            self.sockets.listeners[listener.name].settings = listener_settings(after, listener)
        self.sockets.admit_held()

    def stop_accepting_clients(self) -> None:
        """Closes the ports of the broker listeners. Their connections stay open."""
        self.sockets.stop_accepting(self._broker_listeners())

    async def close_clients(self) -> None:
        """Closes the connections of the broker listeners."""
        await self.sockets.close(self._broker_listeners())

    def _broker_listeners(self) -> list[str]:
        of_controller = self._config.controller_listener_names
        return [name for name in self.sockets.listeners if name not in of_controller]

    # Ports of handlers.

    def offers(self) -> dict[str, object]:
        """What handlers and beans may use, by name."""
        return {
            "quotas": self.quotas,
            "serve_forwarded": self.serve_forwarded,
            "served_on": self.served_on,
            "sockets": self.sockets,
        }

    def served_on(self, listener: str) -> tuple[ApiKey, ...]:
        """The APIs that are served on the listener with this name."""
        is_controller = listener in self._config.controller_listener_names
        return tuple(served_on_controller() if is_controller else served_on_broker())

    async def serve_forwarded(self, frame: bytes, client: ForwardedCaller) -> bytes:
        """Serves a request from an Envelope, on the listeners of a controller (KIP-590)."""
        return await self.dispatches[True].serve_forwarded(frame, client)


def node_sockets(config: BrokerConfig, network: Network, quotas: ClientQuotas) -> SocketServer:
    return SocketServer(
        network,
        limits=connection_limits(config),
        request_size_max_bytes=config.integer("socket.request.max.bytes"),
        idle_max_seconds=idle_max_seconds(config),
        protected_listener=config.inter_broker_listener_name,
        now=asyncio.get_running_loop().time,
        rate_window_seconds=quotas.windows.total_seconds,
        throttle_seconds=quotas.connections.throttle_seconds,
        shared=LoopShared(
            queued_bytes_max=queued_bytes_max(config),
            queued_requests_max=config.integer("queued.max.requests"),
        ),
    )
