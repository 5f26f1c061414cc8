"""A connection from a fetcher to a leader, with one request at a time.

A Fetch response may have ten megabytes. So all responses are read into the same buffer, and the next response
overwrites the last one. A fetcher sends no ApiVersions request, because metadata.version decides the version of Fetch.
For the login, the connection uses versions that every broker since Kafka 2.5 supports.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from kcli.config.definition import ConfigError
from kcli.errors import NetworkException, ProtocolError
from kcli.model.addresses import Address
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.packing import INT32
from kcli.runtime.network import Network
from kcli.server.network.links import Secure, plain_text

if TYPE_CHECKING:
    from kcli.protocol.wire.codec import Message
    from kcli.security.mechanisms.client import ClientCredentials

FRAME_MAX_BYTES = 1 << 30
"""The largest response. A response has at most replica.fetch.response.max.bytes, or it has one batch, whose size
max.message.bytes limits. The buffer grows to the size of a response as soon as the leader has sent this size."""

LOGIN_FRAME_MAX_BYTES = 512 * 1024
"""The largest response before the end of a login, as in Kafka (sasl.server.max.receive.size). Before the end of the
login, another server could pretend to be the leader. By sending a large size, this server could make the broker
allocate much memory."""

BUFFER_BYTES = 64 * 1024
"""The size of the buffer while few records arrive."""

SMALL_RESPONSES_MAX = 20
"""The number of small responses in a row after which a larger buffer is freed. An idle leader sends this number in 10
s. Under load a small response often comes between two large ones, and a new buffer would cost a page fault for each of
its pages."""


SYSTEM_BUFFER = -1
"""With this value, the operating system chooses the size of the socket's receive buffer."""


_LOGIN_VERSIONS = {ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2}


class LeaderConnection(asyncio.BufferedProtocol):
    """A connected socket to one leader."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(BUFFER_BYTES)
        self._spare = bytearray(1)
        self._filled = 0
        self._small_responses = 0
        self._max_bytes = FRAME_MAX_BYTES
        self._answer: asyncio.Future[memoryview] | None = None
        self._lost: Exception | None = None
        self._stale_at: float | None = None

    @classmethod
    async def open(
        cls,
        network: Network,
        address: Address,
        secure: Secure = plain_text,
        *,
        client_id: str = "",
        receive_buffer_bytes: int = SYSTEM_BUFFER,
    ) -> LeaderConnection:
        """Connects to the leader, and logs in. Raises OSError, KafkaError or ProtocolError."""
        try:
            security = secure()
            tls = None if security is None or security.tls is None else security.tls.context()
        except (ConfigError, ValueError) as error:
            raise NetworkException(f"cannot connect to {address}: {error}") from error
        transport, protocol = await network.create_connection(
            lambda: cls(address), address.host, address.port, tls=tls
        )
        assert isinstance(protocol, cls)
        opened = transport.get_extra_info("socket")
        if opened is not None and receive_buffer_bytes > 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        if security is not None and security.sasl is not None:
            try:
                protocol._max_bytes = LOGIN_FRAME_MAX_BYTES
                await protocol._log_in(security.sasl, client_id)
                protocol._max_bytes = FRAME_MAX_BYTES
            except BaseException:
                protocol.close()
                raise
        return protocol

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed the connection."""
        return self._lost is not None

    @property
    def is_usable(self) -> bool:
        """Whether the next request may use this connection. It must be open, and its session must not end soon."""
        is_stale = self._stale_at is not None and asyncio.get_running_loop().time() >= self._stale_at
        return not self.is_closed and not is_stale

    def close(self) -> None:
        """Closes the connection immediately."""
        self._fail(NetworkException(f"The connection to {self.address} was closed"))
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, frame: bytes) -> memoryview:
        """Sends a whole request frame. Returns the response without its size prefix, in a buffer that the next call
        overwrites. Raises NetworkException or ProtocolError."""
        if self._lost is not None:
            raise self._lost
        assert self._transport is not None and self._answer is None, "one request at a time"
        self._filled = 0
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        try:
            return await self._answer
        finally:
            self._answer = None

    async def _log_in(self, credentials: ClientCredentials, client_id: str) -> None:
        from kcli.client.connection import LOGIN_USED
        from kcli.client.login import log_in
        from kcli.protocol.wire.codec import decode_response, encode_request

        async def ask(message: Message, key: ApiKey) -> Message:
            version = _LOGIN_VERSIONS[key]
            answer = await self.exchange(encode_request(message, key, version, 0, client_id))
            return decode_response(key, version, bytes(answer))[1]

        lifetime_ms = await log_in(ask, credentials, self.address.host)
        if lifetime_ms > 0:
            self._stale_at = asyncio.get_running_loop().time() + lifetime_ms / 1000 * LOGIN_USED

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Without a request, the leader must not send bytes. They go to another buffer, because `_buffer` still has the
        # last answer.
        return memoryview(self._buffer)[self._filled :] if self._is_waiting else memoryview(self._spare)

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_waiting:
            self._refuse(f"{self.address} sent bytes without a request")
            return
        self._filled += nbytes
        if self._filled < INT32.size:
            return
        (size,) = INT32.unpack_from(self._buffer)
        end = INT32.size + size
        if not INT32.size <= size <= self._max_bytes:
            self._refuse(f"{self.address} announced a response of {size} bytes (limit {self._max_bytes})")
        elif self._filled > end:
            self._refuse(f"{self.address} sent bytes without a request")
        elif self._filled == end:
            self._complete(end)
        elif end > len(self._buffer):
            larger = bytearray(end)
            larger[: self._filled] = memoryview(self._buffer)[: self._filled]
            self._buffer = larger

    def _complete(self, end: int) -> None:
        assert self._answer is not None, "a request waits"
        self._answer.set_result(memoryview(self._buffer)[INT32.size : end])
        self._small_responses = self._small_responses + 1 if end <= BUFFER_BYTES else 0
        if self._small_responses >= SMALL_RESPONSES_MAX and len(self._buffer) > BUFFER_BYTES:
            self._buffer = bytearray(BUFFER_BYTES)

    @property
    def _is_waiting(self) -> bool:
        return self._answer is not None and not self._answer.done()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(NetworkException(f"{self.address} closed the connection"))

    def _refuse(self, why: str) -> None:
        self._fail(ProtocolError(why))
        self.close()

    def _fail(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._lost)
