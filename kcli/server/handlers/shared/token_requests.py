"""Which clients may ask for delegation tokens (KIP-48)."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.security.principal import ANONYMOUS
from kcli.server.handlers.ports import NodeContext


def check_may_ask(context: NodeContext) -> None:
    """Raises UnsupportedByAuthenticationException if the connection of the client is not safe enough for a token.

    A client without TLS and SASL, or with TLS but without a certificate, may not ask. A client that has logged in with
    a token may not ask either, because it could extend its own life without end. For a forwarded request, the broker
    has checked the connection of the client.
    """
    principal = context.session.principal
    if principal.token_authenticated:
        raise UnsupportedByAuthenticationException
    if context.is_forwarded:
        return
    protocol = _protocol(context)
    if protocol == "PLAINTEXT" or (protocol == "SSL" and principal == ANONYMOUS):
        raise UnsupportedByAuthenticationException


def _protocol(context: NodeContext) -> str:
    config = context.ports.config
    return next(
        (each.security_protocol for each in config.listeners if each.name == context.listener), "PLAINTEXT"
    )
