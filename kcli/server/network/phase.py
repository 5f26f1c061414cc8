"""The phase of a connection before its requests are served: the login.

A phase owns the connection's frames, and with SASL it answers three APIs: ApiVersions, SaslHandshake and
SaslAuthenticate. It ends with a session, or the connection is closed. A frame that the client sends before it has the
answer to the last one waits; so nothing is served before the login is complete. A live session may log in again
(KIP-368): the connection then enters a new phase and keeps its old session until the phase yields another one.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from kcli.security.principal import Session


@dataclass(frozen=True, slots=True)
class Step:
    """What a phase makes of one frame.

    `answer` is a whole response frame, None if the client gets none. `session` ends the phase. `closes` closes the
    connection after the answer.
    """

    answer: bytes | None = None
    session: Session | None = None
    closes: bool = False


class Phase(Protocol):
    """One login on one connection."""

    @property
    def frame_size_max_bytes(self) -> int:
        """The largest frame that a client may send before it is known. A larger one closes the connection."""

    def receive(self, frame: bytes) -> Step | Awaitable[Step]:
        """Takes one frame, without its size prefix. Frames come one at a time: no frame comes while a step is awaited.

        Raises ProtocolError to close the connection without an answer. Any other exception closes it too.
        """
