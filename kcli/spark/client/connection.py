"""One blocking connection to a broker: frames out, frames in, and which versions both sides speak.

Works against every broker that speaks the versions of `_VERSIONS`, Apache Kafka and kcli alike.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Any

from kcli.errors import ProtocolError, SaslAuthenticationException
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import decode_response, encode_request
from kcli.protocol.wire.peer import speaks_tls
from kcli.security.client import ClientSecurity
from kcli.security.mechanisms.client import Credentials, client_exchange

MAX_FRAME_BYTES = 1 << 30
"""Far above any answer we ask for (fetches are tens of megabytes); below what stray protocols spell as a size."""

_SIZE = struct.Struct(">i")

_VERSIONS = {
    ApiKey.API_VERSIONS: (0, 0),  # every broker answers it, and we need no more than the ranges
    ApiKey.FETCH: (4, 12),  # 4: batches of magic 2; from 13 on topics go by id
    ApiKey.PRODUCE: (3, 11),  # from 12 on the first generation of transactions ends
    ApiKey.METADATA: (4, API[ApiKey.METADATA].max_version),
    ApiKey.LIST_OFFSETS: (2, API[ApiKey.LIST_OFFSETS].max_version),
    ApiKey.INIT_PRODUCER_ID: (0, API[ApiKey.INIT_PRODUCER_ID].max_version),
    ApiKey.SASL_HANDSHAKE: (1, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.FIND_COORDINATOR: (1, 3),  # from 4 on for many keys at once
    ApiKey.OFFSET_FETCH: (7, 7),  # 7: require_stable; from 8 on for many groups at once
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),  # from 4 on for brokers among themselves
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 3),
    ApiKey.TXN_OFFSET_COMMIT: (0, 3),
    ApiKey.END_TXN: (0, 3),
    ApiKey.CREATE_TOPICS: (4, API[ApiKey.CREATE_TOPICS].max_version),  # 4: -1 is the broker's default
}


@dataclass(frozen=True, slots=True)
class Pending:
    """A request whose answer was not read yet."""

    key: ApiKey
    version: int
    correlation_id: int


class Connection:
    """One blocking connection. Requests may be sent ahead; answers come in their order."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_seconds: float,
        security: ClientSecurity | None = None,
    ) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._next_id = 0
        self._socket = socket.create_connection((host, port), timeout_seconds)
        self._stream = self._socket.makefile("rb")
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security is not None and security.tls is not None:
                self._socket = self._wrapped(security.tls.context(), host)
                self._stream = self._socket.makefile("rb")
            self._broker_versions: dict[int, tuple[int, int]] = {}
            answer = self.request(ApiVersionsRequest(), ApiKey.API_VERSIONS)
            self._broker_versions = {
                each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
            }
            if security is not None and security.sasl is not None:
                self._log_in(security.sasl)
        except BaseException:
            self.close()
            raise

    def _wrapped(self, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        try:
            return context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise ProtocolError(
                f"the certificate of {self.address} is not trusted ({error.verify_message}): see kafka.ssl.truststore.*"
            ) from error
        except ssl.SSLError as error:
            raise ProtocolError(
                f"no TLS with {self.address} ({error.reason}): is kafka.security.protocol right?"
            ) from error

    def _log_in(self, credentials: Credentials) -> None:
        mechanism = credentials.mechanism
        answer = self.request(SaslHandshakeRequest(mechanism=mechanism), ApiKey.SASL_HANDSHAKE)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise SaslAuthenticationException(
                f"{self.address} does not take kafka.sasl.mechanism {mechanism}; it offers {offered}"
            )

        def ask(ours: bytes) -> bytes:
            answer = self.request(SaslAuthenticateRequest(auth_bytes=ours), ApiKey.SASL_AUTHENTICATE)
            if answer.error_code:
                why = answer.error_message or answer.error_code.name
                raise SaslAuthenticationException(f"{self.address} refuses {credentials.username}: {why}")
            theirs: bytes = answer.auth_bytes
            return theirs

        exchange = client_exchange(credentials)
        ours = exchange.respond(b"")
        while ours is not None:
            ours = exchange.respond(ask(ours))

    def close(self) -> None:
        self._stream.close()  # as long as it is open, so is the socket
        self._socket.close()

    def request(self, message: Any, key: ApiKey) -> Any:
        return self.receive(self.send(message, key))

    def send(self, message: Any, key: ApiKey) -> Pending:
        pending = Pending(key, self._version(key), self._next_id)
        self._next_id += 1
        self._socket.sendall(
            encode_request(message, key, pending.version, pending.correlation_id, self._client_id)
        )
        return pending

    def receive(self, pending: Pending) -> Any:
        (size,) = _SIZE.unpack(prefix := self._read(_SIZE.size))
        if speaks_tls(prefix):
            raise ProtocolError(f"{self.address} speaks TLS: set kafka.security.protocol to SSL or SASL_SSL")
        if not 4 <= size <= MAX_FRAME_BYTES:
            raise ProtocolError(
                f"{self.address} announced an answer of {size} bytes: it does not speak Kafka's protocol"
            )
        correlation_id, message = decode_response(pending.key, pending.version, self._read(size))
        if correlation_id != pending.correlation_id:
            raise ProtocolError(
                f"{self.address} answered request {correlation_id}; {pending.correlation_id} was next"
            )
        return message

    def _read(self, size: int) -> bytes:
        """Megabytes of an answer go from the socket into the bytes object itself: no copy."""
        read = self._stream.read(size)
        if len(read) < size:
            raise ConnectionError(f"{self.address} closed the connection")
        return read

    def _version(self, key: ApiKey) -> int:
        low, high = _VERSIONS[key]
        if key is ApiKey.API_VERSIONS:
            return low
        broker_low, broker_high = self._broker_versions.get(key, (0, -1))
        version = min(high, broker_high)
        if version < max(low, broker_low):
            raise ProtocolError(
                f"{self.address} speaks {API[key].name} {broker_low} to {broker_high}; this client {low} to {high}"
            )
        return version
