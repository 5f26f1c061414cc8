"""The client's side of a SASL login, with any mechanism.

The caller owns the connection. It sends the bytes that `respond` returns, and passes the server's answer to `respond`.
It repeats both steps until `respond` returns None:

    exchange = client_exchange(credentials, host)
    ours = exchange.respond(b"")
    while ours is not None:
        ours = exchange.respond(ask(ours))

`client_exchange` and `respond` may block, because they may wait for a token endpoint or a Kerberos server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kcli.errors import SaslAuthenticationException
from kcli.security.mechanisms import plain, scram
from kcli.security.token_source import TokenSource

OAUTHBEARER, GSSAPI = "OAUTHBEARER", "GSSAPI"

PASSWORD_MECHANISMS = (plain.NAME, *scram.MECHANISMS)
"""The mechanisms with a user name and a password."""

CLIENT_MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)
"""The mechanisms that `client_exchange` supports."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and password, and the SASL mechanism of the login.

    With `is_token`, the user name is the id of a delegation token, and the password is its HMAC in Base64 (KIP-48).
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    is_token: bool = False


@dataclass(frozen=True, slots=True)
class BearerCredentials:
    """A source of tokens for OAUTHBEARER, and SASL extensions (KIP-342)."""

    source: TokenSource = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)

    @property
    def mechanism(self) -> str:
        return OAUTHBEARER

    @property
    def username(self) -> str:
        """The text that errors show in place of a user name. The server reads the name from the token."""
        return "the token"


@dataclass(frozen=True, slots=True)
class KerberosCredentials:
    """The Kerberos service name of the brokers, and the principal and keytab of the client. Without a keytab, the
    ticket cache of the user is used."""

    service: str
    principal: str | None = None
    keytab: str | None = None

    @property
    def mechanism(self) -> str:
        return GSSAPI

    @property
    def username(self) -> str:
        """The text that errors show in place of a user name."""
        return self.principal or "the principal of the ticket cache"


ClientCredentials = Credentials | BearerCredentials | KerberosCredentials


class ClientExchange(Protocol):
    """The client's side of one login. A second login needs a new exchange."""

    def respond(self, received: bytes) -> bytes | None:
        """Returns the next message to the server, or None when the login is complete.

        `received` is the server's last message. In the first call, it is empty. Raises SaslAuthenticationException if
        the server's message is invalid, or if the server cannot prove that it knows the password.
        """


def client_exchange(credentials: ClientCredentials, host: str = "") -> ClientExchange:
    """Begins a login, and returns its exchange. `host` is the host name of the server, which only GSSAPI needs.

    Raises KeyError if the mechanism is not one of CLIENT_MECHANISMS. Raises SaslAuthenticationException if the client
    cannot get a token, or if the library for Kerberos is missing.
    """
    match credentials:
        case BearerCredentials():
            from kcli.security.mechanisms.oauthbearer import BearerClient

            return BearerClient(credentials.source.token(), credentials.extensions)
        case KerberosCredentials():
            from kcli.security.mechanisms.gssapi import KerberosClient, KerberosMissing

            try:
                return KerberosClient(credentials.service, host, credentials.principal, credentials.keytab)
            except KerberosMissing as error:
                raise SaslAuthenticationException(str(error)) from None
    username, password = credentials.username, credentials.password
    if credentials.mechanism == plain.NAME:
        return plain.PlainClient(username, password)
    mechanism = scram.MECHANISMS[credentials.mechanism]
    return scram.ScramClient(mechanism, username, password, scram.new_nonce(), is_token=credentials.is_token)
