"""The TLS handshakes of an HTTP server. They count as connections, and each one uses the newest certificate.

asyncio can make TLS connections itself, but it shows a connection only after its handshake. So a client could open any
number of connections that never end their handshake.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from kcli.runtime.network import HANDSHAKE_LIMIT_S

EARLY_MAX_BYTES = 64 * 1024
"""The most bytes that a client may send together with the end of its handshake. A request has at most a few
kilobytes."""

Tls = Callable[[], ssl.SSLContext]
"""Returns the context for the next connection."""


class Handshakes:
    """The handshakes in progress."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def protocol(self, secured: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """A protocol that shakes hands. `secured` makes the protocol of the connection after the handshake."""
        return _Handshake(self, secured)

    def begin(self, handshake: _Handshake, transport: asyncio.Transport) -> None:
        task = asyncio.get_running_loop().create_task(self._shake_hands(handshake, transport))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, handshake: _Handshake, transport: asyncio.Transport) -> None:
        # An OSError is also an error of TLS, and the end of the time. The client sees a closed connection.
        with suppress(OSError):
            made = await asyncio.get_running_loop().start_tls(
                transport, handshake, self._tls(), server_side=True, ssl_handshake_timeout=HANDSHAKE_LIMIT_S
            )
            if made is not None:
                handshake.complete(made)
                return
        transport.abort()

    def cancel(self) -> None:
        """Ends the handshakes, because the server stops."""
        for task in self._tasks:
            task.cancel()


class _Handshake(asyncio.Protocol):
    """The protocol of a connection until its handshake is complete. It keeps what the client sends with the end of the
    handshake, because asyncio gives these bytes to the protocol before `start_tls` returns."""

    def __init__(self, handshakes: Handshakes, secured: Callable[[], asyncio.Protocol]) -> None:
        self._handshakes = handshakes
        self._secured = secured
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        made.pause_reading()  # the first bytes belong to the handshake
        self._handshakes.begin(self, made)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    def complete(self, transport: asyncio.Transport) -> None:
        """Gives the connection to its own protocol."""
        if self._is_lost or len(self._early) > EARLY_MAX_BYTES:
            transport.abort()
            return
        protocol = self._secured()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(bytes(self._early))
