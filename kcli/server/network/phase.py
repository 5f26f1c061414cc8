"""The phase of a connection before its requests are served. This phase is the login.

A phase receives the frames (requests as bytes) of the connection. With SASL, a phase answers three APIs: ApiVersions,
SaslHandshake and SaslAuthenticate. A phase ends with a session, or with the end of the connection. A frame waits until
the frame before it has been answered, so no request is served before the login is complete.

A client may log in again on the same connection (KIP-368). The connection then enters a new phase, and keeps its old
session until the new login succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kcli.security.principal import Session


@dataclass(frozen=True, slots=True)
class LoginStep:
    """The result of one frame in a phase.

    `answer` is a whole response frame, or None if the client gets no answer. If `session` is set, the login is complete
    and the phase ends. If `closes` is True, the connection is closed after the answer.
    """

    answer: bytes | None = None
    session: Session | None = None
    closes: bool = False


class Phase(Protocol):
    """One login on one connection."""

    @property
    def frame_size_max_bytes(self) -> int:
        """The largest frame that a client may send before its login is complete. A larger frame closes the
        connection."""

    @property
    def time_limit_seconds(self) -> float:
        """The longest time of the login. A slower login closes the connection."""

    async def receive(self, frame: bytes) -> LoginStep:
        """Handles one request, without its size prefix. This method is not called again before its result is complete.

        Raises ProtocolError to close the connection without an answer. Any other exception closes it too.
        """

    def again(self) -> Phase | None:
        """Returns the phase of a new login on the same connection, after the client has sent a SaslHandshake (KIP-368).
        Returns None if the client may not log in again now. Called only if the session has an expiry time.
        """
