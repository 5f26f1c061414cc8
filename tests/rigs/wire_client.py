"""A client that speaks messages of the general codec over one socket."""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import Any

from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from rigs.loops import PATIENCE_S


class Client:
    """Sends requests and reads their responses, in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.correlation_id = 0

    def post(self, message: Message, key: ApiKey, version: int, client_id: str | None = "test") -> int:
        """Sends a request; returns its correlation id."""
        self.correlation_id += 1
        self.writer.write(codec.encode_request(message, key, version, self.correlation_id, client_id))
        return self.correlation_id

    async def receive(self, key: ApiKey, version: int) -> tuple[int, Any]:
        """The correlation id and message of the next response."""
        (size,) = struct.unpack(">i", await asyncio.wait_for(self.reader.readexactly(4), PATIENCE_S))
        return codec.decode_response(
            key, version, await asyncio.wait_for(self.reader.readexactly(size), PATIENCE_S)
        )

    async def call(self, message: Message, key: ApiKey, version: int, client_id: str | None = "test") -> Any:
        """Sends a request and returns its response."""
        sent = self.post(message, key, version, client_id)
        correlation_id, response = await self.receive(key, version)
        assert correlation_id == sent
        return response

    async def at_end(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE_S) == b""

    def close(self) -> None:
        self.writer.close()


async def connect(port: int, tls: ssl.SSLContext | None = None) -> Client:
    """A client of the listener on this port."""
    return Client(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
