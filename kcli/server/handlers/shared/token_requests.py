"""The rules for clients that may ask for delegation tokens (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kcli.config.broker import BrokerConfig
from kcli.errors import UnsupportedByAuthenticationException
from kcli.runtime.clock import Clock
from kcli.security.principal import ANONYMOUS
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.requests.context import RequestContext


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a handler that passes a request about tokens to the controller."""

    channel: ControllerChannel
    clock: Clock
    config: BrokerConfig


class HasConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


def check_may_ask(context: RequestContext[HasConfig]) -> None:
    """Raises UnsupportedByAuthenticationException if the connection of the client is not safe enough for a token.

    A client may ask for a token if it has logged in with SASL, or has a TLS certificate. A client that has logged in
    with a token may not ask, because it could get new tokens for ever. For a forwarded request, the broker has already
    made this check.
    """
    principal = context.session.principal
    if principal.token_authenticated:
        raise UnsupportedByAuthenticationException
    if context.is_forwarded:
        return
    protocol = _protocol(context)
    if protocol == "PLAINTEXT" or (protocol == "SSL" and principal == ANONYMOUS):
        raise UnsupportedByAuthenticationException


def _protocol(context: RequestContext[HasConfig]) -> str:
    config = context.ports.config
    return next(
        (listener.security_protocol for listener in config.listeners if listener.name == context.listener),
        "PLAINTEXT",
    )
