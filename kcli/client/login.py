"""Logs a client in with SASL (KIP-43, KIP-152): first sends the name of the mechanism, then the messages of the
mechanism.

`log_in` needs only a function that sends one request, so each kind of asyncio connection can use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kcli.errors import (
    ErrorCode,
    IllegalSaslStateException,
    ProtocolError,
    UnsupportedSaslMechanismException,
    error_for,
)
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from kcli.security.mechanisms.client import ClientCredentials, client_exchange

Ask = Callable[[Message, ApiKey], Awaitable[Message]]
"""Sends one request in a version that both sides support, and returns the answer."""

HANDSHAKE_VERSION = 1
"""The version of SaslHandshake. With version 0, the messages of the mechanism would have no Kafka header."""

MAX_ROUNDS = 16
"""The most messages of a mechanism. SCRAM has 2 and GSSAPI about 4. A server must not keep a client busy for ever."""


async def log_in(ask: Ask, credentials: ClientCredentials, host: str = "") -> int:
    """Logs in to the server `host`, and returns the lifetime of the session in milliseconds (KIP-368). 0 means that the
    session does not end.

    Raises SaslAuthenticationException, UnsupportedSaslMechanismException or IllegalSaslStateException, with the texts
    of Kafka's clients. The messages of a mechanism are computed in a thread, because this may take long.
    """
    answer = await ask(SaslHandshakeRequest(mechanism=credentials.mechanism), ApiKey.SASL_HANDSHAKE)
    assert isinstance(answer, SaslHandshakeResponse)
    check_handshake(answer, credentials.mechanism)
    exchange = await asyncio.to_thread(client_exchange, credentials, host)
    ours = await asyncio.to_thread(exchange.respond, b"")
    lifetime_ms = 0
    for _ in range(MAX_ROUNDS):
        if ours is None:
            return lifetime_ms
        theirs = await ask(SaslAuthenticateRequest(auth_bytes=ours), ApiKey.SASL_AUTHENTICATE)
        assert isinstance(theirs, SaslAuthenticateResponse)
        if theirs.error_code is not ErrorCode.NONE:
            raise error_for(theirs.error_code, theirs.error_message or None)
        lifetime_ms = theirs.session_lifetime_ms
        ours = await asyncio.to_thread(exchange.respond, theirs.auth_bytes)
    raise ProtocolError(f"the server continued a login after {MAX_ROUNDS} messages")


def check_handshake(answer: SaslHandshakeResponse, mechanism: str) -> None:
    """Raises the exception of Kafka's clients, with their text, if the server refuses a mechanism."""
    offered = f"[{', '.join(answer.mechanisms)}]"
    match answer.error_code:
        case ErrorCode.NONE:
            return
        case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise UnsupportedSaslMechanismException(
                f"Client SASL mechanism '{mechanism}' not enabled in the server, enabled mechanisms are {offered}"
            )
        case ErrorCode.ILLEGAL_SASL_STATE:
            raise IllegalSaslStateException(
                f"Unexpected handshake request with client mechanism {mechanism}, enabled mechanisms are {offered}"
            )
        case code:
            raise error_for(code)
