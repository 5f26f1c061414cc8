"""Recognises a peer that speaks TLS where a Kafka frame is expected, by the first bytes that it sends."""

from __future__ import annotations

# The content types that open a TLS connection (RFC 8446, section 5.1). A client begins with a handshake; a server
# that received a Kafka request answers with an alert.
_ALERT, _HANDSHAKE = 0x15, 0x16
_MAJOR_VERSION = 3
"""The major version of every TLS record, also of TLS 1.3."""


def speaks_tls(first: bytes) -> bool:
    """True if the first two bytes of a frame's size prefix begin a TLS record.

    Read as a frame size, they mean 352 MB or more: above the default limit of a broker (socket.request.max.bytes) and
    above every answer that our clients ask for.
    """
    return len(first) >= 2 and first[0] in (_ALERT, _HANDSHAKE) and first[1] == _MAJOR_VERSION
