"""The sessions of browsers, with their logins to clusters and the times at which they end.

A browser without a login has no session in memory. Its cookie is a random text with a signature of this console, and
its token against CSRF is a signature of the cookie. The number of sessions in memory is limited, and a new session may
end an old one. So even very many visitors without a login do not end the sessions of other users.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.console.connection import ClusterConnection

SESSIONS_MAX = 512
"""The most sessions with a login. If there are more, the session that was not used for the longest time ends."""

IDLE_MAX_SECONDS = 3600.0
"""The time for which a session lasts without a request. An open page sends requests regularly, so its session
continues."""

AGE_MAX_SECONDS = 12 * 3600.0
"""The longest time of a session: a working day. After this time, the user must log in again."""

_SECRET_BYTES = 32
_ID_BYTES = 24


@dataclass(slots=True, eq=False)
class Session:
    """The session of a browser. `connections` has the connection of each login, by the name of the cluster."""

    began_at: float
    used_at: float
    id: str = field(repr=False)
    csrf: str = field(repr=False)
    is_owner: bool = False
    """Whether the browser opened the secret address, and so may use the logins of the settings files."""
    connections: dict[str, ClusterConnection] = field(default_factory=dict, repr=False)

    def accepts(self, csrf: str | None) -> bool:
        """Whether a request has the token against CSRF, which only a page of this session can read."""
        return hmac.compare_digest(self.csrf.encode(), (csrf or "").encode(errors="replace"))


class Sessions:
    """The sessions with a login, by their ids."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._key = secrets.token_bytes(_SECRET_BYTES)
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: Session) -> bool:
        """Whether a session has a login, and has not ended."""
        return self._sessions.get(session.id) is session

    def find(self, session_id: str | None) -> Session | None:
        """Returns the session of a cookie, and stores the time of this use. A session that has ended, or has no login
        yet, has no permissions.

        Returns None if this console did not make the cookie.
        """
        session = self._sessions.get(session_id or "")
        if session is not None and not self._is_over(session):
            session.used_at = self._now()
            return session
        nonce, _, signature = (session_id or "").encode(errors="replace").partition(b".")
        if not hmac.compare_digest(self._signed(nonce).encode(), signature):
            return None
        return self._made(nonce.decode())

    def visit(self) -> Session:
        """Makes a session without permissions, and does not store it."""
        return self._made(secrets.token_urlsafe(_ID_BYTES))

    async def begin_owner(self) -> Session:
        """Makes and stores the session of the browser that opened the secret address."""
        session = self.visit()
        session.is_owner = True
        await self._keep(session)
        return session

    async def renew(self, session: Session) -> None:
        """Stores a session with a new id and a new token, because its permissions change. If there are too many
        sessions, ends another one.

        Another program on this machine may know the old id, because that program may have set the cookie. A browser
        uses the cookies of a host for all ports of the host.
        """
        self._sessions.pop(session.id, None)
        new = self.visit()
        session.id, session.csrf = new.id, new.csrf
        await self._keep(session)

    def forget(self, session: Session) -> None:
        """Forgets a session that has no permissions any more."""
        if not session.is_owner and not session.connections:
            self._sessions.pop(session.id, None)

    async def _keep(self, session: Session) -> None:
        while len(self._sessions) >= SESSIONS_MAX:
            await self.end(min(self._sessions.values(), key=lambda session: session.used_at))
        self._sessions[session.id] = session

    def _made(self, nonce: str) -> Session:
        now = self._now()
        session_id = f"{nonce}.{self._signed(nonce.encode())}"
        return Session(now, now, session_id, self._signed(session_id.encode()))

    def _signed(self, text: bytes) -> str:
        return hmac.digest(self._key, text, "sha256").hex()

    async def end(self, session: Session) -> None:
        """Ends a session, and closes its clients."""
        self._sessions.pop(session.id, None)
        connections, session.connections = session.connections, {}
        for connection in connections.values():
            await connection.close()

    async def sweep(self) -> None:
        """Ends expired sessions, and forgets old answers of the other sessions."""
        for session in [session for session in self._sessions.values() if self._is_over(session)]:
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
