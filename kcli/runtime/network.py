"""The interface to sockets. This interface has the methods of asyncio, so simulated networks can use the same asyncio
protocols."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from kcli.runtime.accepting import AcceptingServer, listening_sockets
from kcli.runtime.hosts import host_is_checked

BACKLOG = 1024
"""The number of connections that may wait in the kernel to be accepted. This number is enough for many clients that
connect at the same moment, and most kernels do not allow more."""

HANDSHAKE_LIMIT_S = 10.0
"""The longest time for the TLS handshake of a client that connects to a server. A client needs some hundred
milliseconds."""

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Network(Protocol):
    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = BACKLOG,
    ) -> asyncio.AbstractServer:
        """Listens on a host (None: every interface) and a port (0: any free port). Raises OSError.

        `backlog` is the number of connections that may wait in the kernel to be accepted.
        """
        ...

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connects to a server. Raises OSError if the server cannot be reached."""
        ...


class SystemNetwork:
    """Real sockets on the running event loop."""

    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = BACKLOG,
    ) -> asyncio.AbstractServer:
        listening = await listening_sockets(host, port, backlog)
        return AcceptingServer(listening, protocol_factory, tls, HANDSHAKE_LIMIT_S)

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        loop = asyncio.get_running_loop()
        with host_is_checked(host):
            return await loop.create_connection(protocol_factory, host, port, ssl=tls)
