"""Makes a TLS handshake in memory, to check whether a client with one context can connect to a server with another."""

from __future__ import annotations

import ssl

from kcli.security.tls.checks import HandshakeError

_UNKNOWN_ISSUER = frozenset((2, 18, 19, 20, 21))
"""OpenSSL's error codes for a certificate chain that does not lead to a trusted certificate."""
# Java's text for such a chain.
_NO_PATH = (
    "PKIX path building failed: sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid "
    "certification path to requested target"
)
_STEPS_MAX = 16
"""The most steps of a handshake. TLS 1.2 with certificates on both sides takes five."""


def check_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Raises HandshakeError if a client with the first context cannot connect to a server with the second context."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_STEPS_MAX):
            ends = [end for end in ends if not _is_done(end)]
            if not ends:
                return
    except ssl.SSLCertVerificationError as error:
        unknown = error.verify_code in _UNKNOWN_ISSUER
        raise HandshakeError(_NO_PATH if unknown else error.verify_message) from None
    except ssl.SSLError as error:
        raise HandshakeError((error.reason or str(error)).replace("_", " ").lower()) from None
    raise HandshakeError("the handshake does not end")


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
