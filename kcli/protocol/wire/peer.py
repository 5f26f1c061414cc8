"""Recognises a peer that uses TLS on a connection without TLS, by the first bytes that the peer sends."""

from __future__ import annotations

# The content types that open a TLS connection (RFC 8446, section 5.1). A client begins with a handshake; a server
# that received a Kafka request answers with an alert.
_ALERT, _HANDSHAKE = 0x15, 0x16
_MAJOR_VERSION = 3
"""The major version of every TLS record, also of TLS 1.3."""


def speaks_tls(first: bytes) -> bool:
    """Returns True if the first two bytes of a frame's size prefix are the start of a TLS record.

    If these bytes were the start of a frame size, the frame would be 352 MB or larger. A broker refuses such a frame by
    default (socket.request.max.bytes), and our clients never request a response of this size.
    """
    return len(first) >= 2 and first[0] in (_ALERT, _HANDSHAKE) and first[1] == _MAJOR_VERSION
