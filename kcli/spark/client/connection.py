"""One blocking connection to a broker: sends requests, reads answers, and chooses versions that both sides support."""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Generic

from kcli.client.tls_errors import alert_error
from kcli.errors import ProtocolError, SaslAuthenticationException
from kcli.model.addresses import Address
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import decode_response, encode_request
from kcli.protocol.wire.peer import speaks_tls
from kcli.runtime.hosts import host_is_checked
from kcli.security.client import ClientSecurity
from kcli.security.mechanisms.client import ClientCredentials, client_exchange
from kcli.spark.client.calls import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    AnswerT,
    Call,
    RequestT,
)

MAX_FRAME_BYTES = 1 << 30
"""The largest accepted answer. A Fetch answer may have tens of megabytes.

If a port uses another protocol, the first four bytes that it sends usually look like a larger size.
"""

LOGIN_FRAME_BYTES_MAX = 512 * 1024
"""The largest accepted answer before the end of the login. The limit is lower, because the broker is not trusted
yet."""

_SIZE = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class InFlightRequest(Generic[AnswerT]):
    """A request whose answer has not been read yet."""

    key: ApiKey
    answer: type[AnswerT]
    version: int
    correlation_id: int


class Connection:
    """One blocking connection. Several requests may be sent before the first answer is read. Answers arrive in the
    order of the requests."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_seconds: float,
        security: ClientSecurity | None = None,
    ) -> None:
        self.address = Address(host, port)
        self._client_id = client_id
        self._next_id = 0
        self._frame_bytes_max = LOGIN_FRAME_BYTES_MAX
        with host_is_checked(host):
            self._socket = socket.create_connection((host, port), timeout_seconds)
        self._stream = self._socket.makefile("rb")
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security is not None and security.tls is not None:
                self._socket = self._wrapped(security.tls.context(), host)
                self._stream = self._socket.makefile("rb")
            self._broker_versions: dict[int, tuple[int, int]] = {}
            answer = self.request(API_VERSIONS, ApiVersionsRequest())
            self._broker_versions = {
                api.api_key: (api.min_version, api.max_version) for api in answer.api_keys
            }
            if security is not None and security.sasl is not None:
                self._log_in(security.sasl)
            self._frame_bytes_max = MAX_FRAME_BYTES
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
                f"no TLS with {self.address} ({error.reason}): check kafka.security.protocol"
            ) from error

    def _log_in(self, credentials: ClientCredentials) -> None:
        mechanism = credentials.mechanism
        answer = self.request(SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=mechanism))
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise SaslAuthenticationException(
                f"{self.address} does not support kafka.sasl.mechanism {mechanism}; it supports {offered}"
            )

        def ask(ours: bytes) -> bytes:
            answer = self.request(SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=ours))
            if answer.error_code:
                why = answer.error_message or answer.error_code.name
                raise SaslAuthenticationException(f"{self.address} refuses {credentials.username}: {why}")
            return answer.auth_bytes

        exchange = client_exchange(credentials, self.address.host)
        ours = exchange.respond(b"")
        while ours is not None:
            ours = exchange.respond(ask(ours))

    def close(self) -> None:
        self._stream.close()  # the socket stays open until its stream is closed
        self._socket.close()

    def request(self, call: Call[RequestT, AnswerT], message: RequestT) -> AnswerT:
        """Sends a request and waits for its answer."""
        return self.receive(self.send(call, message))

    def send(self, call: Call[RequestT, AnswerT], message: RequestT) -> InFlightRequest[AnswerT]:
        """Sends a request. Call `receive` once for each request, in the order of the requests."""
        pending = InFlightRequest(call.key, call.answer, self._version(call), self._next_id)
        self._next_id += 1
        self._socket.sendall(
            encode_request(message, call.key, pending.version, pending.correlation_id, self._client_id)
        )
        return pending

    def receive(self, pending: InFlightRequest[AnswerT]) -> AnswerT:
        """Reads the next answer. Raises ProtocolError if this answer does not belong to the request `pending`."""
        (size,) = _SIZE.unpack(prefix := self._read(_SIZE.size))
        if speaks_tls(prefix):
            raise ProtocolError(f"{self.address} speaks TLS: set kafka.security.protocol to SSL or SASL_SSL")
        if not 4 <= size <= self._frame_bytes_max:
            raise ProtocolError(
                f"{self.address} announced an answer of {size} bytes: it does not speak Kafka's protocol"
            )
        correlation_id, message = decode_response(pending.key, pending.version, self._read(size))
        if correlation_id != pending.correlation_id:
            raise ProtocolError(
                f"{self.address} answered request {correlation_id}; expected {pending.correlation_id}"
            )
        assert isinstance(message, pending.answer), f"{message} is not a {pending.answer.__name__}"
        return message

    def _read(self, size: int) -> bytes:
        """Reads `size` bytes from the socket directly into the result, because copying megabytes takes time."""
        try:
            read = self._stream.read(size)
        except ssl.SSLError as error:
            # With TLS 1.3, a server refuses the certificate of a client after the handshake.
            refused = alert_error(error, self.address)
            raise ProtocolError(
                f"{self.address}: {refused.message} ({refused.hint}): see kafka.ssl.keystore.*"
            ) from error
        if len(read) < size:
            raise ConnectionError(f"{self.address} closed the connection")
        return read

    def _version(self, call: Call[RequestT, AnswerT]) -> int:
        """Returns the highest version of an API that both sides support."""
        low, high = call.versions
        if call.key is ApiKey.API_VERSIONS:
            return low
        broker_low, broker_high = self._broker_versions.get(call.key, (0, -1))
        version = min(high, broker_high)
        if version < max(low, broker_low):
            raise ProtocolError(
                f"{self.address} speaks {API[call.key].name} {broker_low} to {broker_high}; this client {low} to {high}"
            )
        return version
