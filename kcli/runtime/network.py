"""The third seam: sockets, in asyncio's own shape so that a simulated one can hand out the same protocols."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Network(Protocol):
    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> asyncio.AbstractServer:
        """Listens on host (None: every interface) and port (0: any free one). Raises OSError."""
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
    ) -> asyncio.AbstractServer:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            protocol_factory, host, port, ssl=tls, reuse_address=True, backlog=1024
        )

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        loop = asyncio.get_running_loop()
        return await loop.create_connection(protocol_factory, host, port, ssl=tls)
