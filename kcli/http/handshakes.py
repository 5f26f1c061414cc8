"""The TLS handshakes of an HTTP server. Each handshake counts as a connection, and uses the newest certificate.

A TLS server of asyncio reports a connection only after its handshake, so it cannot limit connections that never end
their handshake. With `start_tls` and uvloop, the first bytes of a client can be lost. So this module starts asyncio's
TLS protocol itself, for each new connection.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from kcli.runtime.network import HANDSHAKE_LIMIT_S

Tls = Callable[[], ssl.SSLContext]
"""Returns the TLS context for the next connection."""


class Waiting(Protocol):
    """A connection that could be closed to make room for a new one."""

    address: str
    has_served: bool
    is_known: bool
    waits_since: float

    def abort(self) -> None: ...


def peer_address(transport: asyncio.BaseTransport) -> str:
    """The address of the client, without its port."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


class Handshakes:
    """The handshakes in progress."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._open: set[_Handshake] = set()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._open)

    def protocol(self, secured: asyncio.Protocol) -> asyncio.BaseProtocol:
        """Returns the asyncio protocol that makes the handshake. `secured` is the protocol of the connection after the
        handshake.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        handshake = _Handshake(
            asyncio.get_running_loop(),
            secured,
            self._tls(),
            waiter,
            server_side=True,
            ssl_handshake_timeout=int(HANDSHAKE_LIMIT_S),
        )
        handshake.waits_since = asyncio.get_running_loop().time()
        handshake.ended = lambda: self._open.discard(handshake)
        self._open.add(handshake)

        def end(result: asyncio.Future[None]) -> None:
            handshake.ended()
            if not result.cancelled():
                result.exception()  # the client sees a closed connection

        waiter.add_done_callback(end)
        return handshake

    def cancel(self) -> None:
        """Ends the handshakes, because the server stops."""
        for handshake in list(self._open):
            handshake.abort()


class _Handshake(SSLProtocol):
    """A TLS connection that can be closed before its handshake is complete."""

    address = ""
    has_served = is_known = False
    waits_since = 0.0
    ended: Callable[[], None]
    _raw: asyncio.Transport | None = None
    _is_aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's
        self.address = peer_address(transport)
        super().connection_made(transport)
        if self._is_aborted:
            self._raw.abort()

    def abort(self) -> None:
        # Another new connection may displace this one before it has its transport.
        self._is_aborted = True
        self.ended()
        if self._raw is not None:
            self._raw.abort()
