"""Listeners: named ports that accept connections, within limits on the number of connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable

from kcli.runtime.descriptors import is_reserved
from kcli.runtime.limited_lines import LimitedLines
from kcli.runtime.network import Network
from kcli.server.network.connection import Authenticate, Connection, Serve, anonymous
from kcli.server.network.listener_counts import ListenerCounts
from kcli.server.network.listener_settings import UNLIMITED, ConnectionLimits, ListenerSettings
from kcli.server.network.login_counts import LoginCounts
from kcli.server.network.loop_shared import LoopShared
from kcli.server.network.tls_transport import ServerTls, TlsTransport

_log = logging.getLogger("kcli.server.SocketServer")

# The most accepted connections that wait because max.connections is reached. The accept queue of a kernel usually has
# the same size.
HELD_CONNECTIONS_MAX = 1024
# The silent connections that are closed for a new one, if the process has too few descriptors.
DROPPED_FOR_EACH = 2
# The time for which a lack of descriptors limits the number of connections. The descriptors of connections that were
# closed meanwhile are free after this time.
SCARCE_SECONDS = 1.0
# The time that a client has to read its last answer when the broker stops.
CLOSING_SECONDS = 1.0
# The creation rate is averaged over quota.window.size.seconds × quota.window.num. This is the product of their
# defaults.
CREATION_RATE_WINDOW_SECONDS = 11.0


class SocketServer:
    """All listeners of a process, their shared limits, and the count of their connections."""

    def __init__(
        self,
        network: Network,
        *,
        limits: ConnectionLimits,
        request_size_max_bytes: int,
        idle_max_seconds: float | None,
        protected_listener: str | None,
        now: Callable[[], float],
        rate_window_seconds: float = CREATION_RATE_WINDOW_SECONDS,
        throttle_seconds: Callable[[str], float] = lambda _host: 0.0,
        shared: LoopShared | None = None,
    ) -> None:
        """Makes a server without listeners.

        `throttle_seconds` is called with the address of each new connection. If the result is above 0, the connection
        is closed after this number of seconds (KIP-612).
        """
        # Dicts instead of sets, because a simulation must iterate in the same order in every run.
        self.connections: dict[Connection, None] = {}
        self.listeners: dict[str, Acceptor] = {}
        self._network = network
        self.limits = limits
        self._idle_max_seconds = idle_max_seconds
        self._request_size_max_bytes = request_size_max_bytes
        self._protected_listener = protected_listener
        self._now = now
        self.rate_window_seconds = rate_window_seconds
        self.throttle_seconds = throttle_seconds
        self.shared = shared or LoopShared()
        self._by_ip: Counter[tuple[str, bool]] = Counter()
        self._most = float("inf")  # the most connections, if the process has too few descriptors for more
        self._scarce_until = 0.0
        # The connections that have perhaps sent no request yet, the oldest first.
        self._newcomers: dict[Connection, None] = {}
        self._held_listeners: frozenset[str] = frozenset()  # the listeners whose new connections wait
        self._closing: dict[Connection, None] = {}  # the connections for whose end `close` waits
        self._are_closed = asyncio.Event()

    async def listen(
        self,
        settings: ListenerSettings,
        serve: Serve,
        authenticate: Authenticate = anonymous,
        tls: ServerTls | None = None,
    ) -> Acceptor:
        """Opens a port. Raises OSError if the port is not available.

        `authenticate` is called for each new connection. With TLS, it is called after the handshake. `serve` gets the
        requests of clients that are logged in.
        """
        listener = Acceptor(settings, self, serve, authenticate, tls)
        await listener.open(self._network)
        self.listeners[settings.name] = listener
        return listener

    def accepted(
        self, listener: Acceptor, serve: Serve, authenticate: Authenticate, tls: ServerTls | None
    ) -> asyncio.BufferedProtocol:
        """Makes the protocol object for a new socket: a connection, with a TLS transport if the listener uses TLS."""
        connection = self._connection(listener, serve, authenticate)
        return connection if tls is None else TlsTransport(connection, tls, self.shared.tls)

    def _connection(self, listener: Acceptor, serve: Serve, authenticate: Authenticate) -> Connection:
        return Connection(
            listener=listener.settings.name,
            serve=serve,
            gate=listener,
            shared=self.shared,
            request_size_max_bytes=self._request_size_max_bytes + listener.settings.envelope_bytes_max,
            now=self._now,
            authenticate=authenticate,
            logins=listener.logins,
            lines=listener.lines,
            counts=listener.counts,
        )

    def count(self, connection: Connection, lines: LimitedLines) -> bool:
        """Counts a new connection. Returns False if its address has too many connections."""
        host = connection.peer_host
        counted = self._counted_as(connection)
        if self._by_ip[counted] >= self.limits.of_ip(host):
            ending = lines.ending(self._now())
            if ending is not None:
                _log.info(
                    "Rejected connection from %s, address already has the configured maximum of %d connections.%s",
                    host,
                    self.limits.of_ip(host),
                    ending,
                )
            return False
        self._by_ip[counted] += 1
        self.connections[connection] = None
        self._newcomers[connection] = None
        return True

    def lacks_descriptors(self, descriptor: int) -> bool:
        """Whether a new connection with this descriptor would leave too few descriptors for other work.

        A number in the reserve shows that the process has too many descriptors. A lower number does not show the
        opposite at once, because it may belong to a connection that was closed just before. So the number of
        connections at that moment is the limit for SCARCE_SECONDS.
        """
        now = self._now()
        if is_reserved(descriptor):
            self._most, self._scarce_until = len(self.connections), now + SCARCE_SECONDS
        elif now >= self._scarce_until:
            self._most = float("inf")
        return len(self.connections) >= self._most

    def drop_silent(self) -> bool:
        """Closes the oldest connections that have sent no request yet. Returns False if no connection was closed.

        Two are closed for a new one, because each closed connection keeps its descriptor for a moment.
        """
        left = DROPPED_FOR_EACH
        while left and self._newcomers:
            oldest = next(iter(self._newcomers))
            del self._newcomers[oldest]
            if not oldest.has_sent_request:
                oldest.abort()
                left -= 1
        return left < DROPPED_FOR_EACH

    def uncount(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._newcomers.pop(connection, None)
            counted = self._counted_as(connection)
            self._by_ip[counted] -= 1
            if self._by_ip[counted] <= 0:
                del self._by_ip[counted]
            self._closing.pop(connection, None)
            if not self._closing:
                self._are_closed.set()

    def _counted_as(self, connection: Connection) -> tuple[str, bool]:
        """The address of a client, and whether it is connected to a controller. The limits of addresses count for
        brokers and for controllers, as in Kafka."""
        return connection.peer_host, self.listeners[connection.listener].settings.is_controller

    def has_place(self, listener: Acceptor) -> bool:
        """Returns True if max.connections allows one more connection.

        If the limit is reached and the new connection is on the inter-broker listener, the connection of a client is
        closed to make room (KIP-402).
        """
        if listener.settings.name in self._held_listeners:
            return False
        same_role = self._same_role(listener)
        served = sum(len(acceptor.served) for acceptor in same_role)
        if served < self.limits.connections_max:
            return True
        return listener.settings.name == self._protected_listener and self._make_room(listener)

    def _same_role(self, listener: Acceptor) -> list[Acceptor]:
        """The listeners with which a listener shares max.connections: those of brokers, or those of controllers. As in
        Kafka, connections to the broker take no place of the controller, which could not be corrected otherwise."""
        role = listener.settings.is_controller
        return [acceptor for acceptor in self.listeners.values() if acceptor.settings.is_controller is role]

    def _make_room(self, protected: Acceptor) -> bool:
        others = [
            connection
            for acceptor in self._same_role(protected)
            if acceptor is not protected
            for connection in acceptor.served
        ]
        if not others:
            return False
        min(others, key=lambda connection: connection.last_active).abort()
        return True

    def hold(self, listeners: Iterable[str]) -> None:
        """Delays new connections of some listeners: clients can connect, but are not served until `admit` is called."""
        self._held_listeners = frozenset(listeners)

    def admit(self) -> None:
        """Serves the connections of all listeners."""
        self._held_listeners = frozenset()
        self.admit_held()

    def admit_held(self) -> None:
        for listener in self.listeners.values():
            listener.admit_held()

    @property
    def last_active(self) -> float:
        """The time of the last byte from or to a client, on the clock of the event loop. Minus infinity if no client is
        connected.
        """
        return max((connection.last_active for connection in self.connections), default=float("-inf"))

    def close_idle(self) -> int:
        """Closes connections without traffic for connections.max.idle.ms. Returns their number."""
        if self._idle_max_seconds is None:
            return 0
        oldest = self._now() - self._idle_max_seconds
        idle = [
            connection
            for connection in self.connections
            if connection.last_active < oldest and not connection.is_waiting
        ]
        for connection in idle:
            # Unsent bytes are dropped, because the client has not read for so long.
            connection.abort()
        return len(idle)

    def stop_accepting(self, listeners: Iterable[str]) -> None:
        """Closes the ports of some listeners. Their connections stay open."""
        for name in listeners:
            self.listeners[name].close()

    async def close(self, listeners: Iterable[str] | None = None) -> None:
        """Closes some listeners, or all of them if `listeners` is None. Sends the answers that are ready, then closes
        every connection of these listeners."""
        names = set(self.listeners if listeners is None else listeners)
        self.stop_accepting(names)
        self._closing = {connection: None for connection in self.connections if connection.listener in names}
        for connection in list(self._closing):
            connection.close()
        if self._closing:
            self._are_closed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._are_closed.wait(), CLOSING_SECONDS)
        for connection in list(self._closing):
            connection.abort()


class Acceptor:
    """One open port, which admits, delays or refuses new connections (`Gate`)."""

    def __init__(
        self,
        settings: ListenerSettings,
        sockets: SocketServer,
        serve: Serve,
        authenticate: Authenticate,
        tls: ServerTls | None = None,
    ) -> None:
        self.settings = settings
        self.port = settings.port
        self.served: dict[Connection, None] = {}
        self.counts = ListenerCounts()
        self._held_since = 0.0
        self.logins = LoginCounts()
        self.lines = LimitedLines()  # about closed connections
        self._refusals = LimitedLines()
        self._sockets = sockets
        self._serve = serve
        self._authenticate = authenticate
        self._tls = tls
        self._held: deque[Connection] = deque()
        self._server: asyncio.AbstractServer | None = None
        self._is_closed = False
        self._created: deque[float] = deque()
        self._retry: asyncio.TimerHandle | None = None

    async def open(self, network: Network) -> None:
        self._server = await network.create_server(
            lambda: self._sockets.accepted(self, self._serve, self._authenticate, self._tls),
            self.settings.host,
            self.settings.port,
            backlog=self.settings.backlog,
        )
        bound = getattr(self._server, "sockets", None)
        if bound:
            self.port = bound[0].getsockname()[1]

    def close(self) -> None:
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def opened(self, connection: Connection) -> None:
        if self._is_closed:  # the system accepted this connection before the port was closed
            connection.abort()
            return
        opened = self._socket_of(connection)
        if opened is not None:
            self._set_buffer_sizes(opened)
        self.counts.accepted += 1
        if (
            opened is not None
            and self._sockets.lacks_descriptors(opened.fileno())
            and not self._make_room(connection)
        ):
            connection.abort()
            return
        if not self._sockets.count(connection, self._refusals):
            connection.abort()
            return
        seconds = self._sockets.throttle_seconds(connection.peer_host)
        if seconds > 0:
            # Delay the close: a client that is refused immediately reconnects immediately.
            self.counts.quota_delays_ms.add(seconds * 1000)
            connection.hold()
            asyncio.get_running_loop().call_later(seconds, connection.close)
            return
        if not self._held and self._has_place():
            self._admit(connection)
        elif len(self._held) < HELD_CONNECTIONS_MAX:
            connection.hold()
            if not self._held:
                self._held_since = asyncio.get_running_loop().time()
            self._held.append(connection)
            self._retry_later()
        else:
            connection.abort()

    def lost(self, connection: Connection) -> None:
        self._sockets.uncount(connection)
        if connection in self.served:
            del self.served[connection]
            self.counts.closed += 1
            self._sockets.admit_held()
        elif connection in self._held:
            self._held.remove(connection)
            self.count_held()

    def count_held(self) -> None:
        """Counts the time for which connections have waited for a place, up to now."""
        now = asyncio.get_running_loop().time()
        self.counts.held_ns += int((now - self._held_since) * 1_000_000_000)
        self._held_since = now

    @property
    def holds(self) -> bool:
        """Whether connections wait for a place."""
        return bool(self._held)

    def admit_held(self) -> None:
        if self._held:
            self.count_held()
        while self._held and self._has_place():
            self._admit(self._held.popleft())
        if self._held:
            self._retry_later()

    def _admit(self, connection: Connection) -> None:
        self.served[connection] = None
        self.counts.opened += 1
        if self.settings.creation_rate_max < UNLIMITED:
            self._created.append(asyncio.get_running_loop().time())
        connection.admit()

    def _has_place(self) -> bool:
        return (
            len(self.served) < self.settings.connections_max
            and self._seconds_until_rate_allows() <= 0
            and self._sockets.has_place(self)
        )

    def _seconds_until_rate_allows(self) -> float:
        """The time until max.connection.creation.rate allows the next connection (KIP-612)."""
        rate = self.settings.creation_rate_max
        if rate == UNLIMITED:
            return 0.0
        now = asyncio.get_running_loop().time()
        window = self._sockets.rate_window_seconds
        while self._created and self._created[0] <= now - window:
            self._created.popleft()
        if len(self._created) < rate * window:
            return 0.0
        return self._created[0] + window - now

    def _retry_later(self) -> None:
        wait = self._seconds_until_rate_allows()
        if wait > 0 and self._retry is None:
            self.counts.rate_delays_ms.add(wait * 1000)
            self._retry = asyncio.get_running_loop().call_later(wait, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self.admit_held()

    def _make_room(self, connection: Connection) -> bool:
        """Makes a descriptor free, because the process has only its reserve left. A client that has sent no request
        yet loses its connection. Returns False if there is no such client.
        """
        has_place = self._sockets.drop_silent()
        ending = self._refusals.ending(asyncio.get_running_loop().time())
        if ending is not None:
            _log.warning(
                "The process has no free descriptor for the connection from %s on listener %s, so %s. Raise the limit "
                "of open files (ulimit -n), or set max.connections%s",
                connection.peer_host,
                self.settings.name,
                "an older connection without a request is closed" if has_place else "it is closed",
                ending,
            )
        return has_place

    @staticmethod
    def _socket_of(connection: Connection) -> socket.socket | None:
        """The socket of a connection. A simulated network has no sockets."""
        assert connection.transport is not None
        stream_socket: socket.socket | None = connection.transport.get_extra_info("socket")
        return stream_socket

    def _set_buffer_sizes(self, opened: socket.socket) -> None:
        """Applies socket.send.buffer.bytes and socket.receive.buffer.bytes. With the value -1, the operating system
        chooses the size.
        """
        if self.settings.send_buffer_bytes > 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.settings.send_buffer_bytes)
        if self.settings.receive_buffer_bytes > 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.settings.receive_buffer_bytes)
