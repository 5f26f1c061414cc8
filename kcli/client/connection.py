"""One connection to one server. The correlation id shows which request a response belongs to, so several requests may
wait for their responses.

`Connection.open` does the TLS handshake and the SASL login. If the server uses another protocol (TLS, HTTP), the
connection recognises the protocol by the first bytes of the answer. The error then contains the name of the protocol.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import TYPE_CHECKING, cast

from kcli import KAFKA_VERSION
from kcli.client.tls_errors import alert_error, handshake_error
from kcli.errors import ErrorCode, KafkaError, NetworkException, ProtocolError, UnsupportedVersionException
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.model.request_values import VERSION_MAX
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import Message, decoded_response, encode_request
from kcli.protocol.wire.peer import speaks_tls
from kcli.runtime.network import Network
from kcli.runtime.turns import Turn

if TYPE_CHECKING:
    from kcli.security.client import ClientSecurity
    from kcli.security.mechanisms.client import ClientCredentials

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
"""The largest response. The description of a very large cluster has some tens of megabytes.

Kafka's own clients allow 100 MB (socket.request.max.bytes).
"""

MAX_BYTES_BEFORE_LOGIN = 512 * 1024
"""The largest response before the end of the login. Before the login, the server is not trusted, and a false size could
make the client reserve much memory. Kafka has the same limit for requests of a login (sasl.server.max.receive.size).
"""

FIRST_BYTES = 256 * 1024
"""The largest buffer that is reserved for an answer before its bytes arrive. Nearly all answers are smaller."""

MAX_IN_FLIGHT = 1000
"""The most requests without an answer. This is far more than any admin call needs.

Without this limit, requests to a peer that never answers could fill the memory.
"""

_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")
CORRELATION_MAX = 2**31 - 1

LOGIN_USED = 0.85
"""The part of a session's lifetime after which a connection is stale. Java's clients log in again after 85 to 95 %."""


class WrongPeer(KafkaError):
    """Raised if the peer is not a Kafka server. Another attempt cannot succeed."""


class Connection(asyncio.BufferedProtocol):
    """A connected socket. After `negotiate`, `versions` has the API versions of the peer."""

    def __init__(self, address: Address, client_id: str | None) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: ApiVersionsResponse = ApiVersionsResponse()
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._correlation = 0
        self._buffer = bytearray(_SIZE.size)
        self._filled = 0
        self._needed_bytes = _SIZE.size
        self._in_body = False
        self._answers = 0
        self._max_response_bytes = MAX_BYTES_BEFORE_LOGIN
        self._lost: Exception | None = None
        self._is_encrypted = False
        self._is_retired = False
        self._stale_at: float | None = None
        self.counts = ConnectionCounts()
        """The counts of this connection. Its owner may set the counts of all connections with the same purpose."""

    @classmethod
    async def open(
        cls,
        network: Network,
        address: Address,
        client_id: str | None,
        timeout: float,
        security: ClientSecurity | None = None,
    ) -> Connection:
        """Connects, negotiates versions and logs in within `timeout` seconds.

        `security` has the settings of TLS and SASL. Without `security`, the connection has no TLS and no login. Raises
        OSError, TimeoutError or KafkaError. After SslAuthenticationException or SaslAuthenticationException, another
        attempt would fail too.
        """
        async with asyncio.timeout(timeout):
            protocol = await cls._connected(network, address, client_id, security)
            try:
                await protocol.negotiate()
                if security is not None and security.sasl is not None:
                    await protocol._log_in(security.sasl)
                protocol._max_response_bytes = MAX_RESPONSE_BYTES
            except BaseException:
                protocol.close()
                raise
        return protocol

    @classmethod
    async def _connected(
        cls, network: Network, address: Address, client_id: str | None, security: ClientSecurity | None
    ) -> Connection:
        tls = security.tls.context() if security is not None and security.tls is not None else None
        try:
            _, protocol = await network.create_connection(
                lambda: cls(address, client_id), address.host, address.port, tls=tls
            )
        except ssl.SSLError as error:
            raise handshake_error(error, address) from error
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
            if tls is None:
                raise
            raise NetworkException(
                f"{address} closed the connection during the TLS handshake, as listeners without TLS do"
            ) from error
        assert isinstance(protocol, cls)
        protocol._is_encrypted = tls is not None
        return protocol

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed the connection."""
        return self._lost is not None

    @property
    def is_stale(self) -> bool:
        """Whether the session of the login ends soon (KIP-368). A new connection is then needed."""
        return self._stale_at is not None and asyncio.get_running_loop().time() >= self._stale_at

    @property
    def is_proven(self) -> bool:
        """Whether the server has answered a request other than ApiVersions, so that it serves this client.

        Without a login, a listener with SASL answers only ApiVersions.
        """
        return self._answers > 1

    def close(self) -> None:
        """Closes the connection immediately. Requests without an answer raise NetworkException."""
        if self._transport is not None:
            self._transport.abort()

    def retire(self) -> None:
        """Closes the connection when all sent requests have their answers."""
        self._is_retired = True
        if not self._pending:
            self.close()

    async def negotiate(self) -> None:
        """Requests the peer's API versions (KIP-35).

        If the peer does not support the version of the first request, sends a second request in an older version.
        """
        request = ApiVersionsRequest(client_software_name="kcli", client_software_version=KAFKA_VERSION)
        newest = API[ApiKey.API_VERSIONS].max_version
        response = await self._api_versions(request, newest)
        if response.error_code is ErrorCode.UNSUPPORTED_VERSION:
            offered = {entry.api_key: entry.max_version for entry in response.api_keys}
            response = await self._api_versions(request, min(newest, offered.get(ApiKey.API_VERSIONS, 0)))
        if response.error_code is not ErrorCode.NONE:
            raise WrongPeer(f"{self.address} refused ApiVersions with {response.error_code.name}")
        self.features = response
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}

    def version_for(self, key: ApiKey, *, at_least: int = 0, at_most: int = VERSION_MAX) -> int:
        """Returns the newest version up to `at_most` that both sides support. Raises UnsupportedVersionException with
        Java's text."""
        spec = API[key]
        name = spec.key.name
        if key not in self.versions:
            raise UnsupportedVersionException(f"The node does not support {name}")
        least, most = self.versions[key]
        max_version = min(spec.max_version, at_most)
        version = min(max_version, most)
        min_version = max(spec.min_version, at_least)
        if version < max(least, min_version):
            raise UnsupportedVersionException(
                f"The node does not support {name} with version in range "
                f"[{min_version},{max_version}]. The supported range is [{least},{most}]."
            )
        return version

    async def request(self, message: Message, key: ApiKey, *, version: int, timeout: float) -> Message:
        """Sends a request and waits for the answer. Raises NetworkException, ProtocolError or TimeoutError."""
        if self._lost is not None:
            raise self._lost
        if len(self._pending) >= MAX_IN_FLIGHT:
            raise NetworkException(f"{MAX_IN_FLIGHT} requests to {self.address} are unanswered")
        self._correlation = self._correlation % CORRELATION_MAX + 1
        correlation = self._correlation
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[correlation] = answer
        assert self._transport is not None
        request = encode_request(message, key, version, correlation, self._client_id)
        self._transport.write(request)
        self.counts.sent(len(request))
        try:
            async with asyncio.timeout(timeout):
                frame = await answer
        finally:
            self._pending.pop(correlation, None)
            if self._is_retired and not self._pending:
                self.close()
        # While a large answer is decoded, the event loop also runs other tasks.
        _, answer = await decoded_response(key, version, frame, Turn())
        return answer

    async def _log_in(self, credentials: ClientCredentials) -> None:
        from kcli.client.login import HANDSHAKE_VERSION, log_in  # a client without SASL starts faster

        async def ask(message: Message, key: ApiKey) -> Message:
            version = HANDSHAKE_VERSION if key is ApiKey.SASL_HANDSHAKE else self.version_for(key)
            return await self.request(message, key, version=version, timeout=3600)  # `open` limits the time

        lifetime_ms = await log_in(ask, credentials, self.address.host)
        if lifetime_ms > 0:
            self._stale_at = asyncio.get_running_loop().time() + lifetime_ms / 1000 * LOGIN_USED

    async def _api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        # The caller of `open` limits the time, so this time-out is only a large number.
        try:
            response = await self.request(request, ApiKey.API_VERSIONS, version=version, timeout=3600)
        except ProtocolError:
            # An old broker answers an unknown version of ApiVersions in the layout of version 0, whatever version was
            # requested (KIP-511).
            if version == 0:
                raise
            response = await self.request(request, ApiKey.API_VERSIONS, version=0, timeout=3600)
        assert isinstance(response, ApiVersionsResponse)
        return response

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transports do not inherit from asyncio's

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < self._needed_bytes:
            self._grow()
            return
        if self._in_body:
            self._frame(bytes(self._buffer))
            self._expect(_SIZE.size, in_body=False)
            return
        (size,) = _SIZE.unpack(self._buffer)
        if not _CORRELATION.size <= size <= self._max_response_bytes:
            self._fail(self._wrong_size(bytes(self._buffer), size))
            self.close()
            return
        self._expect(size, in_body=True)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.counts.closed += 1
        if isinstance(exc, ssl.SSLError):
            self._fail(alert_error(exc, self.address))
            return
        self._fail(NetworkException(f"{self.address} closed the connection{self._hint()}"))

    def _hint(self) -> str:
        """Returns the likely reason why a server closes a connection that it has not served yet."""
        if self._answers == 0 and not self._is_encrypted:
            return " without an answer, as listeners with TLS or SASL do"
        if self._answers == 0:
            return " after the TLS handshake, as listeners do that require a client certificate"
        if not self.is_proven:
            return " at the first request, as listeners with SASL do"
        return ""

    def _expect(self, size: int, *, in_body: bool) -> None:
        self._buffer = bytearray(min(size, FIRST_BYTES))
        self._needed_bytes = size
        self._filled = 0
        self._in_body = in_body

    def _grow(self) -> None:
        """Doubles a full buffer. So the memory depends on the received bytes, and not on the size that a server
        declares.
        """
        if self._filled == len(self._buffer):
            # The transport still holds a view of the buffer, so the buffer itself cannot change its size.
            self._buffer = self._buffer + bytes(min(self._filled, self._needed_bytes - self._filled))

    def _frame(self, frame: bytes) -> None:
        self._answers += 1
        self.counts.received(_SIZE.size + len(frame))
        (correlation,) = _CORRELATION.unpack_from(frame)
        answer = self._pending.pop(correlation, None)
        if answer is not None and not answer.done():
            answer.set_result(frame)
        elif not 0 < correlation <= self._correlation:
            self._fail(ProtocolError(f"{self.address} answered request {correlation}, which was never sent"))
            self.close()

    def _wrong_size(self, head: bytes, size: int) -> Exception:
        if self._answers == 0 and speaks_tls(head):
            return WrongPeer(
                f"{self.address} speaks TLS, this client does not: set security.protocol=SSL or SASL_SSL"
            )
        if self._answers == 0 and head == b"HTTP":
            return WrongPeer(f"{self.address} speaks HTTP: it is not a Kafka listener")
        return ProtocolError(
            f"{self.address} announced a response of {size} bytes (limit {self._max_response_bytes}): not a Kafka "
            f"listener?"
        )

    def _fail(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = error
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            if not answer.done():
                answer.set_exception(self._lost)
