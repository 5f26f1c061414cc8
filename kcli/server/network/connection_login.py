"""The login of a connection, and the end of its session. A login is a phase (phase.py) that ends with a session.

During a login, `serve_in_phase` serves the frames in place of the dispatch. So later requests need no check for a
login. If the session has an expiry time, `serve_until_expiry` checks this time before each request.

This module has functions and a plain state, and no object with a reference to its connection. Such an object and the
connection would refer to each other, so the memory of a lost connection would not be freed immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kcli.errors import ProtocolError
from kcli.runtime.turns import continued
from kcli.security.principal import Session
from kcli.server.network.login_counts import LoginCounts
from kcli.server.network.phase import Phase
from kcli.server.network.waiting import Answer, Waiting

_HANDSHAKE_KEY = b"\x00\x11"


@dataclass(slots=True, eq=False)
class LoginState:
    """The login of one connection. `phase` is the login that runs now. `last` is the last phase, from which a new login
    begins (KIP-368). `timer` ends a phase that takes too long.
    """

    phase: Phase | None = None
    last: Phase | None = None
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def drop(self) -> None:
        """Forgets the login of a lost connection."""
        self.stop_timer()
        self.phase = self.last = None


class LoggingIn(Protocol):
    """The parts of a connection that its login uses."""

    session: Session
    login: LoginState
    logins: LoginCounts
    now: Callable[[], float]
    peer_host: str
    peer_port: int

    def enter(self, phase: Phase) -> None: ...

    def open(self, session: Session) -> None: ...

    def serve_request(self, frame: memoryview) -> Answer | Waiting: ...

    def send_last(self, answer: bytes | None) -> None: ...

    def warn(self, reason: str, defect: BaseException | None = None) -> None: ...

    def abort(self) -> None: ...


def start_timer(connection: LoggingIn, phase: Phase) -> None:
    """Starts the timer that closes the connection if the phase takes too long."""
    connection.login.stop_timer()
    loop = asyncio.get_running_loop()
    connection.login.timer = loop.call_later(phase.time_limit_seconds, _too_slow, connection, phase)


def serve_until_expiry(connection: LoggingIn, frame: memoryview) -> Answer | Waiting:
    """Serves a request if the session of its client has not expired."""
    expires_at = connection.session.expires_at
    assert expires_at is not None
    if frame[:2] == _HANDSHAKE_KEY and connection.login.last is not None:
        # A new login is possible after the end of the session too (KIP-368).
        phase = connection.login.last.again()
        if phase is not None:
            connection.enter(phase)
            return serve_in_phase(connection, frame)
    if connection.now() >= expires_at:
        connection.logins.expired += 1
        raise ProtocolError(f"the session of {connection.session.principal} has expired")
    return connection.serve_request(frame)


def serve_in_phase(connection: LoggingIn, frame: memoryview) -> Answer | Waiting:
    """Passes a frame to the present phase of the login, and returns the answer. If the phase suspends, a task runs the
    rest of its work, as in the dispatch."""
    phase = connection.login.phase
    assert phase is not None
    work = _answer(connection, phase, bytes(frame))
    try:
        awaited = work.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    # If the client disconnects, the work must end, because no client reads its answer.
    return Waiting(
        name="the login", task=asyncio.ensure_future(continued(work, awaited)), may_be_dropped=True
    )


async def _answer(connection: LoggingIn, phase: Phase, frame: bytes) -> Answer:
    try:
        step = await phase.receive(frame)
    except Exception as error:
        raise login_failed(connection, error) from error
    if step.closes:
        connection.send_last(step.answer)
        return None
    if step.session is not None:
        connection.open(step.session)
    return step.answer


def login_failed(connection: LoggingIn, error: BaseException) -> ProtocolError:
    """Converts an error of the login to the error that closes the connection. An unexpected error is written to the
    log, and not sent to the client.
    """
    if isinstance(error, ProtocolError):
        return error
    connection.warn("unexpected error in the login", defect=error)
    return ProtocolError("the login failed")


def _too_slow(connection: LoggingIn, phase: Phase) -> None:
    connection.warn(f"the login took longer than {phase.time_limit_seconds:g} s")
    connection.abort()
