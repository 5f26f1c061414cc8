"""The client's side of a SASL login, with any mechanism.

The caller owns the connection. The caller sends the bytes that `respond` returns, and passes the server's answer to
`respond`. It repeats both steps until `respond` returns None:

    exchange = client_exchange(credentials)
    ours = exchange.respond(b"")
    while ours is not None:
        ours = exchange.respond(ask(ours))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kcli.security.mechanisms import plain, scram

CLIENT_MECHANISMS = (plain.NAME, *scram.MECHANISMS)
"""The mechanisms that `client_exchange` knows."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and password, and the SASL mechanism of the login.

    With `is_token`, the user name is the id of a delegation token, and the password is its HMAC in Base64 (KIP-48).
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    is_token: bool = False


class ClientExchange(Protocol):
    """The client's side of one login. A second login needs a new exchange."""

    def respond(self, received: bytes) -> bytes | None:
        """Returns the next message to the server, or None when the login is complete.

        `received` is the server's last message, and is empty at first. Raises SaslAuthenticationException if the
        server's message is invalid, or if the server cannot prove that it knows the password.
        """


def client_exchange(credentials: Credentials) -> ClientExchange:
    """Begins a login. Raises KeyError if the mechanism is not one of CLIENT_MECHANISMS."""
    username, password = credentials.username, credentials.password
    if credentials.mechanism == plain.NAME:
        return plain.PlainClient(username, password)
    mechanism = scram.MECHANISMS[credentials.mechanism]
    return scram.ScramClient(mechanism, username, password, scram.new_nonce(), is_token=credentials.is_token)
