"""The principal of a client as bytes. A broker sends these bytes to the controller with a forwarded request (KIP-590).

The layout is Kafka's DefaultPrincipalData, version 0: type and name of the principal, and whether the client logged in
with a delegation token.
"""

from __future__ import annotations

import struct

from kcli.errors import PrincipalDeserializationException, ProtocolError
from kcli.protocol.wire.packing import (
    INT16,
    NO_TAGS,
    cause_text,
    pack_string,
    read_present_string,
    read_tags,
)
from kcli.security.principal import Principal

VERSION = 0

BOOL = struct.Struct(">?")


def encode_principal(principal: Principal) -> bytes:
    return b"".join(
        (
            INT16.pack(VERSION),
            pack_string(principal.type, True),
            pack_string(principal.name, True),
            BOOL.pack(principal.token_authenticated),
            NO_TAGS,
        )
    )


def decode_principal(content: bytes) -> Principal:
    """Parses a principal. Raises PrincipalDeserializationException if the bytes are not a principal of version 0."""
    try:
        (version,) = INT16.unpack_from(content)
        if version != VERSION:
            raise PrincipalDeserializationException(f"Invalid principal data version {version}")
        kind, at = read_present_string(content, INT16.size, True, "type")
        name, at = read_present_string(content, at, True, "name")
        (by_token,) = BOOL.unpack_from(content, at)
        at = read_tags(content, at + BOOL.size)
    except (ProtocolError, IndexError, ValueError, struct.error) as error:
        raise PrincipalDeserializationException(f"Invalid principal data: {cause_text(error)}") from error
    if at != len(content):
        raise PrincipalDeserializationException(f"Principal data has {len(content) - at} bytes too many")
    return Principal(kind, name, by_token)
