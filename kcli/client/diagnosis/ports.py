"""Looks at one port with blocking sockets: the addresses of its host, whether it answers, and what it speaks.

Every function has a time limit, and returns what it saw instead of raising for a server that is not Kafka.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from enum import Enum

from kcli.model.addresses import Address
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import encode_request
from kcli.protocol.wire.peer import speaks_tls

FIRST_BYTES = 8
"""The size and the correlation id of an answer."""
CORRELATION_ID = 77_001
"""A number that another protocol would hardly send at the place of the correlation id."""


class Speaks(Enum):
    """The protocol of a port, as its first bytes show it."""

    KAFKA = "Kafka without TLS"
    TLS = "TLS"
    HTTP = "HTTP"
    SSH = "SSH"
    NOTHING = "nothing: it closes the connection"
    SILENCE = "nothing: it does not answer"
    OTHER = "a protocol that is not Kafka"


@dataclass(frozen=True, slots=True)
class TlsLook:
    """The TLS of a server, seen without checking its certificate. `certificate` is in DER form."""

    version: str
    cipher: str
    certificate: bytes


def resolve(address: Address) -> tuple[str, ...]:
    """The IP addresses of the host, each once. Raises OSError if the name is unknown."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def connects(ip: str, port: int, timeout_s: float) -> OSError | None:
    """Connects once. Returns the error if no server accepts the connection."""
    try:
        socket.create_connection((ip, port), timeout_s).close()
    except OSError as error:
        return error
    return None


def spoken(address: Address, timeout_s: float) -> Speaks:
    """Sends an ApiVersions request without TLS, and returns what the answer looks like."""
    request = encode_request(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0, CORRELATION_ID, "kcli-doctor")
    try:
        with socket.create_connection((address.host, address.port), timeout_s) as opened:
            opened.settimeout(timeout_s)
            opened.sendall(request)
            first = _received(opened)
        otherwise = Speaks.NOTHING
    except TimeoutError:
        first, otherwise = b"", Speaks.SILENCE
    except OSError:
        first, otherwise = b"", Speaks.NOTHING
    if len(first) == FIRST_BYTES and int.from_bytes(first[4:]) == CORRELATION_ID:
        return Speaks.KAFKA
    if speaks_tls(first):
        return Speaks.TLS
    if first.startswith(b"HTTP"):
        return Speaks.HTTP
    if first.startswith(b"SSH-"):
        return Speaks.SSH
    if first:
        return Speaks.OTHER
    # Some servers with TLS send no alert after a request without TLS.
    with contextlib.suppress(OSError):
        look_unchecked(address, timeout_s)
        return Speaks.TLS
    return otherwise


def look_at_tls(address: Address, context: ssl.SSLContext, timeout_s: float) -> TlsLook:
    """Makes a TLS handshake. Raises OSError, such as ssl.SSLError, if the handshake fails."""
    with (
        socket.create_connection((address.host, address.port), timeout_s) as opened,
        context.wrap_socket(opened, server_hostname=address.host) as wrapped,
    ):
        cipher = wrapped.cipher()
        return TlsLook(
            wrapped.version() or "TLS",
            cipher[0] if cipher else "an unknown cipher",
            wrapped.getpeercert(binary_form=True) or b"",
        )


def look_unchecked(address: Address, timeout_s: float) -> TlsLook:
    """The same as `look_at_tls`, with any certificate. Nothing is sent to the server after the handshake."""
    return look_at_tls(address, _unchecked(), timeout_s)


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _received(opened: socket.socket) -> bytes:
    """The first bytes of the answer. Fewer, if the server closes the connection before."""
    first = b""
    while len(first) < FIRST_BYTES:
        more = opened.recv(FIRST_BYTES - len(first))
        if not more:
            break
        first += more
    return first
