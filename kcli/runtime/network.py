"""The third seam: sockets, in asyncio's own shape so that a simulated one can hand out the same protocols."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

BACKLOG = 1024
"""Connections that may wait in the kernel to be accepted: enough for a burst of clients, and as many as most kernels
allow."""

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
        """Listens on host (None: every interface) and port (0: any free one). Raises OSError.

        `backlog`: how many connections may wait in the kernel to be accepted.
        """
        ...

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connects; raises OSError when the peer cannot be reached."""
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
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            protocol_factory, host, port, ssl=tls, reuse_address=True, backlog=backlog
        )

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        loop = asyncio.get_running_loop()
        return await loop.create_connection(protocol_factory, host, port, ssl=tls)
