"""Checks one port with blocking sockets: the addresses of its host, whether the port answers, and the protocol of the
port.

Every check has a time limit. No function sends a password or another secret, so a connection to a server with an
invalid certificate is safe.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import ErrorCode, KafkaError, KcliError
from kcli.model.addresses import Address
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message, decode_response, encode_request
from kcli.runtime.hosts import host_is_checked

if TYPE_CHECKING:
    from cryptography import x509

TIMEOUT_S = 3.0
"""The time for each step. The user already waits for an error, so a silent port must not take much longer."""
ANSWER_BYTES_MAX = 1 << 20
"""The largest answer that is read. The answer to ApiVersions has less than a kilobyte."""
FIRST_BYTES = 4
"""The number of bytes of an answer that are enough to recognise another protocol."""

_SIZE = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Port:
    """The protocol of a port.

    `mechanisms` is None if the port requires no login, or if this is unknown. If the protocol is neither Kafka's
    protocol nor TLS, `other` is the name of the protocol.
    """

    is_kafka: bool = False
    is_tls: bool = False
    mechanisms: tuple[str, ...] | None = None
    other: str = ""

    @property
    def protocol(self) -> str:
        """The security.protocol that the port needs, if it is known."""
        if not self.is_kafka:
            return "SSL or SASL_SSL" if self.is_tls else ""
        kind = "SSL" if self.is_tls else "PLAINTEXT"
        if self.mechanisms is None:
            return kind
        return f"SASL_{kind} (sasl.mechanism {' or '.join(self.mechanisms)})"


@dataclass(frozen=True, slots=True)
class TlsLook:
    """The TLS version, the cipher and the certificate of a server."""

    version: str
    cipher: str
    certificate: x509.Certificate | None


def resolve(address: Address) -> tuple[str, ...]:
    """The different IP addresses of the host. Raises OSError if the host name is unknown."""
    with host_is_checked(address.host):
        entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))


def connects(ip: str, port: int, timeout_s: float = TIMEOUT_S) -> OSError | None:
    """Connects once. Returns the error if no server accepts the connection."""
    try:
        socket.create_connection((ip, port), timeout_s).close()
    except OSError as error:
        return error
    return None


def look_at(address: Address, timeout_s: float = TIMEOUT_S) -> Port:
    """Finds out whether a port uses TLS, whether it uses Kafka's protocol, and whether it requires a login."""
    # TLS is tried first, because a broker without TLS immediately closes a connection that begins with a TLS handshake.
    # A server with TLS may wait for more bytes if a connection begins with a request in plain text.
    try:
        with _encrypted(address, timeout_s) as link:
            try:
                return _kafka(link, is_tls=True)
            except (OSError, KcliError):
                return Port(is_tls=True)
    except OSError:
        pass
    try:
        with _plain(address, timeout_s) as link:
            return _kafka(link, is_tls=False)
    except (OSError, KcliError):
        return Port(other=_other(address, timeout_s))


def look_at_tls(address: Address, timeout_s: float = TIMEOUT_S) -> TlsLook:
    """Makes a TLS handshake. Raises OSError, such as ssl.SSLError, if the handshake fails."""
    from cryptography import x509

    with _encrypted(address, timeout_s) as link:
        cipher, content = link.cipher(), link.getpeercert(binary_form=True)
        return TlsLook(
            link.version() or "TLS",
            cipher[0] if cipher else "an unknown cipher",
            x509.load_der_x509_certificate(content) if content else None,
        )


def shakes_hands(address: Address, context: ssl.SSLContext, timeout_s: float = TIMEOUT_S) -> None:
    """Makes a TLS handshake with the checks of a TLS context. Raises OSError, such as ssl.SSLError, if the handshake
    fails.
    """
    with _plain(address, timeout_s) as link, context.wrap_socket(link, server_hostname=address.host):
        pass


def _kafka(link: socket.socket, *, is_tls: bool) -> Port:
    versions = _ask(link, ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
    assert isinstance(versions, ApiVersionsResponse)
    if ApiKey.SASL_HANDSHAKE not in {api_key.api_key for api_key in versions.api_keys}:
        return Port(is_kafka=True, is_tls=is_tls)
    try:
        # No server has a mechanism without a name, so a listener with SASL answers with the list of its mechanisms.
        answer = _ask(link, SaslHandshakeRequest(mechanism=""), ApiKey.SASL_HANDSHAKE, 1)
    except (OSError, KcliError):
        return Port(is_kafka=True, is_tls=is_tls)
    assert isinstance(answer, SaslHandshakeResponse)
    asks = answer.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return Port(is_kafka=True, is_tls=is_tls, mechanisms=tuple(answer.mechanisms) if asks else None)


def _other(address: Address, timeout_s: float) -> str:
    """Returns the name of a protocol that is neither Kafka's protocol nor TLS, according to the first bytes of the
    answer."""
    try:
        with _plain(address, timeout_s) as link:
            link.sendall(encode_request(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0, 1, "kcli"))
            first = _read(link, FIRST_BYTES)
    except TimeoutError:
        return "nothing: it does not answer"
    except OSError:
        return "nothing: it closes the connection"
    if first == b"HTTP":
        return "HTTP"
    return "SSH" if first == b"SSH-" else "a protocol that is not Kafka"


def _ask(link: socket.socket, message: Message, key: ApiKey, version: int) -> Message:
    link.sendall(encode_request(message, key, version, 1, "kcli"))
    (size,) = _SIZE.unpack(_read(link, _SIZE.size))
    if not 0 < size <= ANSWER_BYTES_MAX:
        raise KafkaError(f"an answer of {size} bytes")
    return decode_response(key, version, _read(link, size))[1]


def _read(link: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = link.recv(size - len(content))
        if not part:
            raise ConnectionError("the server closed the connection")
        content += part
    return content


@contextlib.contextmanager
def _plain(address: Address, timeout_s: float) -> Iterator[socket.socket]:
    with host_is_checked(address.host):
        link = socket.create_connection((address.host, address.port), timeout_s)
    with link:
        yield link


@contextlib.contextmanager
def _encrypted(address: Address, timeout_s: float) -> Iterator[ssl.SSLSocket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        _plain(address, timeout_s) as link,
        context.wrap_socket(link, server_hostname=address.host) as encrypted,
    ):
        yield encrypted
