"""Converts the TLS errors of Python's ssl module to the exceptions of Kafka's clients, with a hint about the cause."""

from __future__ import annotations

import ssl

from kcli.errors import SslAuthenticationException
from kcli.model.addresses import Address

AFTER_HANDSHAKE = "Failed to process post-handshake messages"
"""Kafka's text for an alert that arrives when the client regards the handshake as complete (TLS 1.3)."""

WITHOUT_TLS_ON_PURPOSE = "If the listener has no TLS on purpose, set"
"""The beginning of a hint to turn off TLS. The hint has a condition, because an attacker between client and broker can
make a listener look as if it had no TLS."""

# The reasons of OpenSSL that mean that the peer answered with something other than TLS.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")

_HINTS = {
    "CERTIFICATE_REQUIRED": "the server asks for a client certificate: set ssl.keystore.location",
    "BAD_CERTIFICATE": "the server asks for a client certificate, or for another one: check ssl.keystore.location",
    "UNKNOWN_CA": "the server does not trust the authority of the client's certificate",
    "CERTIFICATE_EXPIRED": "the client's certificate has expired",
    "CERTIFICATE_UNKNOWN": "the server does not accept the client's certificate",
    "HANDSHAKE_FAILURE": "client and server have no cipher or certificate type in common, or the server asks for a"
    " client certificate",
    "PROTOCOL_VERSION": "the server does not support the versions in ssl.enabled.protocols",
    "NO_PROTOCOLS_AVAILABLE": "ssl.enabled.protocols leaves no version of TLS",
    "UNSUPPORTED_PROTOCOL": "client and server have no version of TLS in common: check ssl.enabled.protocols",
}


def handshake_error(error: ssl.SSLError, address: Address) -> SslAuthenticationException:
    """Returns the exception for a handshake that failed before it was complete."""
    return SslAuthenticationException(None, _hint(error, address))


def alert_error(error: ssl.SSLError, address: Address) -> SslAuthenticationException:
    """Returns the exception for an alert after the handshake. With TLS 1.3, a server that refuses a client's
    certificate sends such an alert.
    """
    return SslAuthenticationException(AFTER_HANDSHAKE, _hint(error, address))


def _hint(error: ssl.SSLError, address: Address) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {address} is not accepted: {error.verify_message}"
    reason = error.reason or ""
    if any(words in reason for words in _NOT_TLS):
        return f"{address} does not speak TLS. {WITHOUT_TLS_ON_PURPOSE} security.protocol=PLAINTEXT or SASL_PLAINTEXT"
    for name, hint in _HINTS.items():
        if reason.endswith(name):
            return hint
    return reason.replace("_", " ").lower()
