"""The principal of a connection, and the session that begins with a login."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal: a type and a name, as in ACLs and quotas. Kafka itself creates only principals of the type User."""

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)
    """Whether the user logged in with a delegation token (KIP-48). Such a user may not create, renew, expire or
    describe tokens."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def principal_from_text(text: str, *, token_authenticated: bool = False) -> Principal:
    """Parses a principal such as `User:alice`. Raises ValueError if the text does not have the form `Type:name`."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name, token_authenticated)


@dataclass(frozen=True, slots=True)
class Session:
    """The principal of a connection, and the time at which its login expires. A new login on the same connection makes
    a new session (KIP-368).

    `mechanism` is the SASL mechanism, or None without SASL. `expires_at` is in seconds of the connection's clock, or
    None if the session does not expire.
    """

    principal: Principal
    mechanism: str | None = None
    expires_at: float | None = None


ANONYMOUS = Principal("User", "ANONYMOUS")

ANONYMOUS_SESSION = Session(ANONYMOUS)
"""The session of a connection without a login, and of every connection before its login."""
