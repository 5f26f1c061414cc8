"""The sessions of browsers, with their logins to clusters and the times at which they end."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.console.connection import ClusterConnection

SESSIONS_MAX = 512
"""The most sessions. If there are more, the oldest session without rights is dropped, or else the oldest session."""

IDLE_MAX_SECONDS = 3600.0
"""How long a session lasts without a request. An open page asks regularly, so its session goes on."""

AGE_MAX_SECONDS = 12 * 3600.0
"""The longest session: a working day. Then each user logs in again."""

_SECRET_BYTES = 32


def _new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


@dataclass(slots=True, eq=False)
class Session:
    """A browser. `connections` are those of its own logins, by the names of the clusters."""

    began_at: float
    used_at: float
    is_owner: bool = False
    """Whether the browser opened the secret address, so that the given logins may serve."""
    id: str = field(default_factory=_new_secret, repr=False)
    csrf: str = field(default_factory=_new_secret, repr=False)
    connections: dict[str, ClusterConnection] = field(default_factory=dict, repr=False)

    @property
    def has_rights(self) -> bool:
        """Whether the session has a login. Sessions without a login are dropped first, because every browser can begin
        one."""
        return self.is_owner or bool(self.connections)

    def accepts(self, csrf: str | None) -> bool:
        """Whether a request has the token that only a page of this session can read."""
        return hmac.compare_digest(self.csrf.encode(), (csrf or "").encode(errors="replace"))


class Sessions:
    """All sessions, by their ids."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: str | None) -> Session | None:
        """Returns a session that has not ended, and notes its use."""
        session = self._sessions.get(session_id or "")
        if session is None or self._is_over(session):
            return None
        session.used_at = self._now()
        return session

    async def begin(self, *, is_owner: bool = False) -> Session:
        """Makes a session. May end another one."""
        while len(self._sessions) >= SESSIONS_MAX:
            await self.end(min(self._sessions.values(), key=lambda each: (each.has_rights, each.used_at)))
        now = self._now()
        session = Session(now, now, is_owner)
        self._sessions[session.id] = session
        return session

    def renew(self, session: Session) -> None:
        """Gives a session a new id and a new token, because its rights change.

        Another program on this machine may have set the old id as a cookie, because a browser uses the
        cookies of a host for all ports of the host.
        """
        del self._sessions[session.id]
        session.id, session.csrf = _new_secret(), _new_secret()
        self._sessions[session.id] = session

    async def end(self, session: Session) -> None:
        """Ends a session, and closes its clients."""
        self._sessions.pop(session.id, None)
        connections, session.connections = session.connections, {}
        for connection in connections.values():
            await connection.close()

    async def sweep(self) -> None:
        """Ends the sessions whose time is over, and forgets old answers of the others."""
        for session in [each for each in self._sessions.values() if self._is_over(each)]:
            await self.end(session)
        for session in self._sessions.values():
            for connection in session.connections.values():
                connection.cache.sweep()

    async def close(self) -> None:
        """Ends all sessions."""
        for session in tuple(self._sessions.values()):
            await self.end(session)

    def _is_over(self, session: Session) -> bool:
        now = self._now()
        return now - session.used_at > IDLE_MAX_SECONDS or now - session.began_at > AGE_MAX_SECONDS
