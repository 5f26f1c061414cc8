"""A pool of connections to the servers of one cluster, for one purpose: one connection to each server.

A user of the pool names a server by its address, or by its id if the pool has a function that finds the address of an
id. If the address of an id changes, the connection to the old address is closed. Only one task opens a connection to a
server, because requests on several connections would lose their order. The other tasks wait for this connection, and
fail with the same error.

The pool starts no task and reads no clock except the time of the event loop. So it behaves the same in each simulated
run with the same seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.errors import NetworkException, ProtocolError
from kcli.model.addresses import Address

if TYPE_CHECKING:
    from kcli.client.connection import Connection
    from kcli.protocol.wire.api import ApiKey
    from kcli.protocol.wire.codec import Message

BACKOFF_FACTOR = 2
"""The factor by which a pause grows after each failure (KIP-580)."""

Connect = Callable[[Address], Awaitable["Connection"]]
"""Opens a connection: with TLS, negotiated versions and a login. Raises OSError, KafkaError or ProtocolError."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses between attempts: the first one, and the longest one."""

    first_s: float
    last_s: float

    def after(self, pause_s: float) -> float:
        """Returns the pause that follows a pause of `pause_s` seconds."""
        return min(pause_s * BACKOFF_FACTOR, self.last_s)


NO_BACKOFF = Backoff(0.0, 0.0)


Server = int | Address
"""The name of a server: its id or its address."""


@dataclass(slots=True)
class _Slot:
    """The connection to one server. No connection is opened before the time `retry_at`. The lock `opening` is held
    while a connection is opened. `failures` counts the failed attempts, and `error` is the error of the last one.
    """

    address: Address
    pause_s: float
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None
    retry_at: float = 0.0
    used_at: float = 0.0
    failures: int = 0
    error: Exception | None = None
    is_dropped: bool = False

    def disconnect(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Pool:
    """The connections to the servers of one cluster. `send` has the parameters of `Client.send` except `at_most`."""

    def __init__(
        self,
        connect: Connect,
        *,
        request_timeout_s: float,
        address_of: Callable[[int], Address | None] | None = None,
        backoff: Backoff = NO_BACKOFF,
        idle_s: float | None = None,
    ) -> None:
        """`address_of` returns the present address of a server, or None if the id is unknown.

        `backoff` has the pauses between failed attempts to connect. A connection without requests for `idle_s` seconds
        is closed when the pool opens another one.
        """
        self._connect = connect
        self._request_timeout_s = request_timeout_s
        self._address_of = address_of
        self._backoff = backoff
        self._idle_s = idle_s
        self._slots: dict[Server, _Slot] = {}

    async def send(
        self,
        message: Message,
        key: ApiKey,
        *,
        to: Server,
        timeout_ms: int | None = None,
        at_least: int = 0,
    ) -> Message:
        """Sends a request in the newest version that both sides support. If no valid answer arrives, the connection is
        closed, and the next request opens a new one.

        Raises OSError (such as TimeoutError), KafkaError or ProtocolError. Raises UnsupportedVersionException if the
        newest common version is below `at_least`.
        """
        slot = self._slot(to)
        connection = await self._connected(slot)
        version = connection.version_for(key, at_least=at_least)
        timeout = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            return await connection.request(message, key, version=version, timeout=timeout)
        except (OSError, NetworkException, ProtocolError):
            # Another task may already have opened a new connection, which must stay open.
            if slot.connection is connection:
                slot.disconnect()
            raise

    async def connection(self, to: Server) -> Connection:
        """Returns an open connection to a server, whose session does not end soon.

        Waits for the end of the back-off if the last attempts have failed. Raises OSError, KafkaError or ProtocolError.
        """
        return await self._connected(self._slot(to))

    def any_open(self) -> Connection | None:
        """Returns a connection that can be used now, or None."""
        for slot in self._slots.values():
            if is_usable(slot.connection):
                slot.used_at = asyncio.get_running_loop().time()
                return slot.connection
        return None

    def disconnect(self, to: Server) -> None:
        """Closes the connection to a server. The next request opens a new one."""
        if to in self._slots:
            self._slots[to].disconnect()

    def rest(self, to: Server) -> None:
        """Closes the connection to a server, and delays the next one by the first pause of the back-off."""
        if to in self._slots:
            self._slots[to].disconnect()
            self._slots[to].retry_at = asyncio.get_running_loop().time() + self._backoff.first_s

    def close(self) -> None:
        """Closes all connections. The next request opens a new one."""
        for server in list(self._slots):
            self._drop(server)

    def _slot(self, to: Server) -> _Slot:
        address = self._address(to) if isinstance(to, int) else to
        slot = self._slots.get(to)
        if slot is None or slot.address != address:
            self._drop(to)  # the server has moved
            self._drop_departed()
            slot = self._slots[to] = _Slot(address, self._backoff.first_s)
        return slot

    def _address(self, server_id: int) -> Address:
        assert self._address_of is not None, "a pool without `address_of` knows no ids"
        address = self._address_of(server_id)
        if address is None:
            raise NetworkException(f"the address of node {server_id} is not known")
        return address

    def _drop_departed(self) -> None:
        """Closes the connections to servers that have left the cluster."""
        if self._address_of is None:
            return
        for server in list(self._slots):
            if isinstance(server, int) and self._address_of(server) is None:
                self._drop(server)

    def _drop(self, server: Server) -> None:
        slot = self._slots.pop(server, None)
        if slot is not None:
            slot.is_dropped = True
            slot.disconnect()

    async def _connected(self, slot: _Slot) -> Connection:
        failures = slot.failures
        async with slot.opening:
            if slot.is_dropped:
                raise _departed(slot)
            if not is_usable(slot.connection):
                if slot.failures != failures and slot.error is not None:
                    raise slot.error  # of the attempt for which this task has waited
                slot.connection = await self._opened(slot)
            assert slot.connection is not None
            slot.used_at = asyncio.get_running_loop().time()
            return slot.connection

    async def _opened(self, slot: _Slot) -> Connection:
        loop = asyncio.get_running_loop()
        if slot.connection is not None:
            slot.connection.retire()  # a session that ends soon still gets the answers to its requests
            slot.connection = None
        self._retire_idle(loop.time())
        if (wait_s := slot.retry_at - loop.time()) > 0:
            await asyncio.sleep(wait_s)
        # An attempt to connect counts as failed until it succeeds, because the caller may cancel it.
        slot.retry_at = loop.time() + slot.pause_s
        slot.pause_s = self._backoff.after(slot.pause_s)
        try:
            connection = await self._connect(slot.address)
        except Exception as error:
            slot.failures, slot.error = slot.failures + 1, error
            raise
        slot.retry_at, slot.pause_s, slot.error = 0.0, self._backoff.first_s, None
        if slot.is_dropped:
            connection.close()
            raise _departed(slot)
        return connection

    def _retire_idle(self, now: float) -> None:
        if self._idle_s is None:
            return
        for server, slot in list(self._slots.items()):
            if slot.connection is not None and now - slot.used_at >= self._idle_s:
                del self._slots[server]
                slot.connection.retire()


def _departed(slot: _Slot) -> NetworkException:
    return NetworkException(f"the server at {slot.address} has moved or has left the cluster")


def is_usable(connection: Connection | None) -> bool:
    """Whether the next request may use a connection. The connection must be open, and its session must not end soon."""
    return connection is not None and not connection.is_closed and not connection.is_stale
