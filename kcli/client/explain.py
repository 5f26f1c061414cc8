"""Finds out why a connection, a TLS handshake or a login failed, and names the setting to change.

The functions connect a second time, without any check of the certificate and without credentials, and look at what the
port speaks. They block, so asyncio code calls them in a thread. They send no secret.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import (
    ErrorCode,
    IllegalSaslStateException,
    KafkaError,
    KcliError,
    SaslAuthenticationException,
    UnsupportedSaslMechanismException,
)
from kcli.model.addresses import Address
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message, decode_response, encode_request
from kcli.security.client import ClientSecurity

if TYPE_CHECKING:
    from cryptography import x509

TIMEOUT_S = 3.0
"""The time for each step. The user already waits for an error, so a silent port must not take much longer."""

ANSWER_BYTES_MAX = 1 << 20
"""The largest answer that is read. The answer to ApiVersions has less than a kilobyte."""

_SIZE = struct.Struct(">i")

# OpenSSL's codes of certificate errors (X509_V_ERR_…).
_EXPIRED, _NOT_YET_VALID = 10, 9
_WRONG_NAME = (62, 64)


@dataclass(frozen=True, slots=True)
class Port:
    """What a port speaks. `mechanisms` is None if the port asks for no login, or if that is unknown."""

    is_kafka: bool = False
    is_tls: bool = False
    mechanisms: tuple[str, ...] | None = None

    @property
    def protocol(self) -> str:
        """The security.protocol that the port needs, as far as it is known."""
        if not self.is_kafka:
            return "SSL or SASL_SSL" if self.is_tls else ""
        kind = "SSL" if self.is_tls else "PLAINTEXT"
        if self.mechanisms is None:
            return kind
        return f"SASL_{kind} (sasl.mechanism {' or '.join(self.mechanisms)})"


def explain(address: Address, security: ClientSecurity | None, error: Exception) -> str:
    """Returns one line that names the mistake, or an empty text if the reason is not known."""
    wants_tls = security is not None and security.tls is not None
    wants_login = security is not None and security.sasl is not None
    match error:
        case UnsupportedSaslMechanismException():
            return "choose one of these mechanisms in sasl.mechanism"
        case IllegalSaslStateException():
            return f"this port asks for no login: set security.protocol={'SSL' if wants_tls else 'PLAINTEXT'}"
        case SaslAuthenticationException():
            return "check the user and the password in sasl.jaas.config"
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return about_certificate(address, cause)
    if getattr(error, "hint", ""):
        return str(getattr(error, "hint", ""))
    port = look_at(address)
    if wants_tls and not port.is_tls and port.is_kafka:
        return f"this port does not speak TLS: set security.protocol={port.protocol}"
    if not wants_tls and port.is_tls:
        return f"this port speaks TLS, the client does not: set security.protocol={port.protocol}"
    if not wants_login and port.mechanisms is not None:
        return f"this port asks for a login: set security.protocol={port.protocol}"
    return ""


def about_certificate(address: Address, error: ssl.SSLCertVerificationError) -> str:
    """Names what is wrong with the certificate of a server: its dates, its names or its authority."""
    certificate = _certificate(address)
    if certificate is None:
        return f"the certificate of {address} is not accepted: {error.verify_message}"
    match error.verify_code:
        case code if code == _EXPIRED:
            return f"a certificate of {address} expired: {_dates(certificate)}"
        case code if code == _NOT_YET_VALID:
            return f"a certificate of {address} is not valid yet: {_dates(certificate)}"
        case code if code in _WRONG_NAME:
            names = " and ".join(certificate_names(certificate)) or certificate.subject.rfc4514_string()
            return f"the certificate is for {names}, not for {address.host}"
        case _:
            return (
                f"the certificate of {address} comes from {certificate.issuer.rfc4514_string()}, which is not in "
                "ssl.truststore.location"
            )


def certificate_names(certificate: x509.Certificate) -> list[str]:
    """The host names and IP addresses for which a certificate is valid."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(each) for each in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def look_at(address: Address) -> Port:
    """Looks at what a port speaks: TLS or plain text, Kafka's protocol or another, a login or none."""
    # TLS comes first, because a broker without TLS closes such a connection at once. A server of TLS may wait for more
    # bytes of a request in plain text.
    try:
        with _encrypted(address) as link:
            try:
                return _kafka(link, is_tls=True)
            except (OSError, KcliError):
                return Port(is_tls=True)
    except OSError:
        pass
    try:
        with _plain(address) as link:
            return _kafka(link, is_tls=False)
    except (OSError, KcliError):
        return Port()


def _kafka(link: socket.socket, *, is_tls: bool) -> Port:
    versions = _ask(link, ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
    assert isinstance(versions, ApiVersionsResponse)
    if ApiKey.SASL_HANDSHAKE not in {each.api_key for each in versions.api_keys}:
        return Port(is_kafka=True, is_tls=is_tls)
    try:
        # No server has a mechanism without a name, so a listener with SASL answers with the list of its mechanisms.
        answer = _ask(link, SaslHandshakeRequest(mechanism=""), ApiKey.SASL_HANDSHAKE, 1)
    except (OSError, KcliError):
        return Port(is_kafka=True, is_tls=is_tls)
    assert isinstance(answer, SaslHandshakeResponse)
    asks = answer.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return Port(is_kafka=True, is_tls=is_tls, mechanisms=tuple(answer.mechanisms) if asks else None)


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
def _plain(address: Address) -> Iterator[socket.socket]:
    with socket.create_connection((address.host, address.port), TIMEOUT_S) as link:
        yield link


@contextlib.contextmanager
def _encrypted(address: Address) -> Iterator[ssl.SSLSocket]:
    """Opens TLS without any check, because the certificate is only looked at. No secret goes through this link."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with _plain(address) as link, context.wrap_socket(link, server_hostname=address.host) as encrypted:
        yield encrypted


def _certificate(address: Address) -> x509.Certificate | None:
    from cryptography import x509

    try:
        with _encrypted(address) as link:
            content = link.getpeercert(binary_form=True)
            return x509.load_der_x509_certificate(content) if content else None
    except (OSError, ValueError):
        return None


def _dates(certificate: x509.Certificate) -> str:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"it is valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
