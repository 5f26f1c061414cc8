"""Accepts the connections of a port. If the operating system refuses, logs the error and tries again.

The accept of uvloop closes the port after most errors, and closes new connections if there is no free descriptor. Both
happen without a line in the log. So this module accepts the connections itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

from kcli.runtime.descriptors import is_last_reserved
from kcli.runtime.hosts import host_is_checked
from kcli.runtime.limited_lines import LimitedLines

_log = logging.getLogger("kcli.runtime.Acceptor")

ACCEPTS_PER_TURN = 16
"""The most connections that are accepted in one iteration of the event loop. Refused connections are closed a few
iterations later, so a larger number would exhaust the reserve of descriptors."""
RETRY_SECONDS = 0.5
"""The pause after an error of accept. The kernel keeps the connections that wait."""


class AcceptingServer(asyncio.AbstractServer):
    """The open port of a server, on one or more sockets that listen."""

    def __init__(
        self,
        listening: Sequence[socket.socket],
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        handshake_limit_s: float | None,
    ) -> None:
        self.sockets = tuple(listening)
        self._protocol_factory = protocol_factory
        self._tls = tls
        self._handshake_limit_s = handshake_limit_s
        self._loop = asyncio.get_running_loop()
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._lines = LimitedLines()
        self._is_closed = False
        for listener in listening:
            self._loop.add_reader(listener, self._accept, listener)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def start_serving(self) -> None:
        """Does nothing, because the server accepts connections from its beginning."""

    async def serve_forever(self) -> None:
        """Waits until the caller is cancelled."""
        await self._loop.create_future()

    def is_serving(self) -> bool:
        return not self._is_closed

    def close(self) -> None:
        """Closes the port. Accepted connections stay open."""
        if self._is_closed:
            return
        self._is_closed = True
        for retry in self._retries.values():
            retry.cancel()
        for listener in self.sockets:
            self._loop.remove_reader(listener)
            listener.close()

    async def wait_closed(self) -> None:
        """Returns at once, because `close` does not wait."""

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._is_closed:
                return
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            if is_last_reserved(accepted.fileno()):
                accepted.close()
                self._warn(listening, "a connection is closed, because too few descriptors are free")
                continue
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        self._warn(listening, f"no connection can be accepted for {RETRY_SECONDS:g} s: {error}")
        self._loop.remove_reader(listening)
        self._retries[listening] = self._loop.call_later(RETRY_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        self._retries.pop(listening, None)
        self._loop.add_reader(listening, self._accept, listening)

    def _warn(self, listening: socket.socket, reason: str) -> None:
        ending = self._lines.ending(self._loop.time())
        if ending is not None:
            host, port, *_ = listening.getsockname()
            _log.warning("%s:%s: %s%s", host, port, reason, ending)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol_factory,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else self._handshake_limit_s,
            )
        except OSError:  # the client has gone, or its handshake has failed
            accepted.close()


async def listening_sockets(host: str | None, port: int, backlog: int) -> list[socket.socket]:
    """Opens a port on each address of a host (None: every interface). Raises OSError."""
    with host_is_checked(host):
        addresses = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, address in dict.fromkeys(addresses):
            try:
                listener = socket.socket(family, kind, protocol)
            except OSError:  # the machine has no IPv6
                continue
            opened.append(listener)
            _listen(listener, address, backlog)
        if not opened:
            raise OSError(f"{host} has no address that can be used here")
    except BaseException:
        for listener in opened:
            listener.close()
        raise
    return opened


def _listen(opened: socket.socket, address: tuple[object, ...], backlog: int) -> None:
    opened.setblocking(False)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        opened.bind(address)
    except OSError as error:
        text = f"error while attempting to bind on address {address!r}: {(error.strerror or '').lower()}"
        raise OSError(error.errno, text) from None
    opened.listen(backlog)
