"""The principal of a connection, and the session that a login begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A user as ACLs and quotas name it. Kafka's own principals are all of type User."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class Session:
    """An authenticated connection. A new login on the same connection replaces it (KIP-368).

    `mechanism` is the SASL mechanism, None without SASL. `expires_at` is in seconds of the connection's clock, None
    if the session does not expire.
    """

    principal: Principal
    mechanism: str | None = None
    expires_at: float | None = None


ANONYMOUS = Principal("User", "ANONYMOUS")

ANONYMOUS_SESSION = Session(ANONYMOUS)
"""The session of a connection without a login, and of every connection before its login."""
