"""The phase of a connection before its requests: who gets which frame, and when, over real sockets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kcli.errors import ProtocolError
from kcli.runtime.network import SystemNetwork
from kcli.security.principal import ANONYMOUS_SESSION, Principal, Session
from kcli.server.network.connection import Connection, anonymous
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.phase import LoginStep
from rigs.loops import PATIENCE_S, move_clock, some_turns, until

ALICE = Session(Principal("User", "alice"), "PLAIN")
LIMIT_BYTES = 1_000
LOGIN_LIMIT_S = 500.0  # longer than any wait of a test: only a moved clock reaches it
# A token of SASL may begin as a Produce request does, with two zero bytes.
PRODUCE = b"\0\0"
HANDSHAKE = b"\0\x11"


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Login:
    """A phase that does what a frame says; `gate` is what a slow frame waits for."""

    frame_size_max_bytes = LIMIT_BYTES
    time_limit_seconds = LOGIN_LIMIT_S

    def __init__(self, session: Session, *, again: bool = False) -> None:
        self.session = session
        self.may_begin_again = again
        self.seen: list[bytes] = []
        self.gate = asyncio.Event()

    async def receive(self, received: bytes) -> LoginStep:
        self.seen.append(received)
        word = received.removeprefix(PRODUCE).removeprefix(HANDSHAKE)
        if word.startswith(b"slow "):
            return await self.later(word.removeprefix(b"slow "))
        return self.step(word)

    def again(self) -> Login | None:
        return Login(self.session) if self.may_begin_again else None

    async def later(self, word: bytes) -> LoginStep:
        await self.gate.wait()
        return self.step(word)

    def step(self, word: bytes) -> LoginStep:
        match word:
            case b"token":
                return LoginStep(frame(b"more"))
            case b"last":
                return LoginStep(frame(b"welcome"), self.session)
            case b"wrong":
                return LoginStep(frame(b"no"), closes=True)
            case b"silent":
                return LoginStep(closes=True)
            case b"bug":
                raise ZeroDivisionError
        raise ProtocolError("not a frame of a login")


class Rig:
    """A listener whose connections begin with a login."""

    def __init__(self, *, session: Session = ALICE, begin: Callable[..., Any] | None = None) -> None:
        self.session = session
        self.begin = begin or self.log_in
        self.phases: list[Login] = []
        self.served: list[tuple[bytes, Session]] = []
        self.time = 0.0
        self.again = False

    def log_in(self, _connection: Connection) -> Login:
        self.phases.append(Login(self.session, again=self.again))
        return self.phases[-1]

    def serve(self, connection: Connection, request: memoryview) -> bytes:
        body = bytes(request)
        self.served.append((body, connection.session))
        if body == b"again":
            connection.enter(self.log_in(connection))
        return frame(body)

    async def __aenter__(self) -> Rig:
        self.sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=1_000_000,
            idle_max_seconds=None,
            protected_listener=None,
            now=lambda: self.time,
        )
        settings = ListenerSettings("SASL", "127.0.0.1", 0)
        self.listener = await self.sockets.listen(settings, self.serve, self.begin)
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        return self

    async def reconnect(self) -> None:
        self.writer.close()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def __aexit__(self, *_exc: object) -> None:
        self.writer.close()
        await self.sockets.close()
        await asyncio.sleep(0)

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(map(frame, bodies)))

    async def read(self) -> bytes:
        (size,) = struct.unpack(">i", await asyncio.wait_for(self.reader.readexactly(4), PATIENCE_S))
        return await asyncio.wait_for(self.reader.readexactly(size), PATIENCE_S)

    async def ask(self, body: bytes) -> bytes:
        self.send(body)
        return await self.read()

    async def is_closed(self) -> bool:
        return await asyncio.wait_for(closed(self.reader), PATIENCE_S)


def run(story: Callable[..., Any]) -> None:
    asyncio.run(story())


def test_without_a_login_requests_have_the_anonymous_session_and_pay_nothing() -> None:
    async def story() -> None:
        async with Rig(begin=anonymous) as rig:
            assert await rig.ask(b"request") == b"request"
            assert rig.served == [(b"request", ANONYMOUS_SESSION)]
            (connection,) = rig.sockets.connections
            assert connection._serve == rig.serve, "a frame goes straight to the dispatch"

    run(story)


def test_a_phase_owns_the_frames_until_it_yields_a_session() -> None:
    async def story() -> None:
        async with Rig() as rig:
            assert await rig.ask(b"token") == b"more"
            assert await rig.ask(b"last") == b"welcome"
            assert await rig.ask(b"token") == b"token"
            assert rig.phases[0].seen == [b"token", b"last"]
            assert rig.served == [(b"token", ALICE)]

    run(story)


@pytest.mark.parametrize("prefix", [b"", PRODUCE])
def test_frames_behind_a_step_that_is_awaited_wait_for_it(prefix: bytes) -> None:
    async def story() -> None:
        async with Rig() as rig:
            rig.send(prefix + b"slow token", prefix + b"slow last", prefix + b"request")
            await until(lambda: rig.phases and rig.phases[0].seen)
            await some_turns()
            assert rig.phases[0].seen == [prefix + b"slow token"]
            rig.phases[0].gate.set()
            assert [await rig.read() for _ in range(3)] == [b"more", b"welcome", prefix + b"request"]
            assert rig.phases[0].seen == [prefix + b"slow token", prefix + b"slow last"]
            assert rig.served == [(prefix + b"request", ALICE)]

    run(story)


@pytest.mark.parametrize("word", [b"wrong", b"slow wrong"])
def test_a_refused_login_is_answered_and_closed_and_nothing_behind_it_is_served(word: bytes) -> None:
    async def story() -> None:
        async with Rig() as rig:
            rig.send(word, b"last", b"request")
            await until(lambda: rig.phases)
            rig.phases[0].gate.set()
            assert await rig.read() == b"no"
            assert await rig.is_closed()
            assert (rig.phases[0].seen, rig.served) == ([word], [])

    run(story)


@pytest.mark.parametrize("word", [b"silent", b"slow silent", b"bug", b"slow bug", b"odd", b"slow odd"])
def test_a_login_that_fails_closes_the_connection_without_an_answer(word: bytes) -> None:
    async def story() -> None:
        async with Rig() as rig:
            rig.send(word, b"request")
            await until(lambda: rig.phases)
            rig.phases[0].gate.set()
            assert await rig.is_closed()
            assert rig.served == []

    run(story)


def test_a_large_frame_is_accepted_after_the_login_only(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        large = bytes(LIMIT_BYTES + 1)
        async with Rig() as rig:
            assert await rig.ask(b"last") == b"welcome"
            assert await rig.ask(large) == large
        async with Rig() as rig:
            rig.send(large)
            assert await rig.is_closed()
            assert rig.phases[0].seen == []

    run(story)
    assert "size = 1001 is not within 0 and 1000, sasl.server.max.receive.size" in caplog.text


def test_a_live_session_keeps_its_principal_until_it_has_logged_in_again() -> None:
    async def story() -> None:
        async with Rig() as rig:
            assert await rig.ask(b"last") == b"welcome"
            rig.session = Session(ALICE.principal, "PLAIN", expires_at=60.0)
            assert await rig.ask(b"again") == b"again"
            (connection,) = rig.sockets.connections
            assert connection.session is ALICE
            rig.send(b"slow last", b"request")
            await until(lambda: rig.phases[1].seen)
            assert connection.session is ALICE
            rig.phases[1].gate.set()
            assert [await rig.read(), await rig.read()] == [b"welcome", b"request"]
            assert rig.served == [(b"again", ALICE), (b"request", rig.session)]

    run(story)


def test_a_request_after_the_end_of_its_session_closes_without_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with Rig(session=Session(ALICE.principal, "PLAIN", expires_at=60.0)) as rig:
            await rig.ask(b"last")
            rig.time = 59.9
            assert await rig.ask(b"request") == b"request"
            rig.time = 60.0
            rig.send(b"too late")
            assert await rig.is_closed()
            assert len(rig.served) == 1

    run(story)
    assert "the session of User:alice has expired" in caplog.text


def test_a_connection_that_cannot_begin_is_closed_and_forgotten() -> None:
    def begin(_connection: Connection) -> None:
        raise ProtocolError("no rule maps this name")

    async def story() -> None:
        async with Rig(begin=begin) as rig:
            rig.send(b"request")
            assert await rig.is_closed()
            assert (rig.served, rig.sockets.connections) == ([], {})

    run(story)


def test_a_client_that_leaves_in_the_middle_of_its_login_leaves_nothing() -> None:
    async def story() -> None:
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, what: complaints.append(what))
        async with Rig() as rig:
            rig.send(b"slow bug")
            await until(lambda: rig.phases and rig.phases[0].seen)
            rig.writer.close()
            await until(lambda: not rig.sockets.connections)
            rig.phases[0].gate.set()
            await some_turns()
        assert complaints == []

    run(story)


def test_the_work_of_a_login_ends_when_its_client_leaves() -> None:
    async def story() -> None:
        cancelled = asyncio.Event()

        class Slow(Login):
            async def later(self, word: bytes) -> LoginStep:
                try:
                    return await super().later(word)
                except asyncio.CancelledError:
                    cancelled.set()
                    raise

        slow = Slow(ALICE)
        async with Rig(begin=lambda _connection: slow) as rig:
            rig.send(b"slow last")
            await until(lambda: bool(slow.seen))
            rig.writer.close()
            await asyncio.wait_for(cancelled.wait(), PATIENCE_S)

    run(story)


def test_a_login_that_takes_too_long_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Rig() as rig:
            assert await rig.ask(b"token") == b"more"
            move_clock(LOGIN_LIMIT_S)
            assert await rig.is_closed()
            # After the login, the time limit has no effect.
            await rig.reconnect()
            assert await rig.ask(b"last") == b"welcome"
            move_clock(LOGIN_LIMIT_S)
            await some_turns()
            assert await rig.ask(b"request") == b"request"

    run(story)
    assert "the login took longer than 500 s" in caplog.text


def test_the_time_of_a_login_begins_when_the_connection_is_admitted() -> None:
    async def story() -> None:
        async with Rig() as rig:
            await until(lambda: rig.phases)
            rig.sockets.hold(["SASL"])
            accepted = set(rig.sockets.connections)
            await rig.reconnect()
            rig.send(b"last")
            await until(lambda: set(rig.sockets.connections) - accepted)
            move_clock(LOGIN_LIMIT_S)
            await some_turns()
            rig.sockets.admit()
            assert await rig.read() == b"welcome"

    run(story)


def test_a_connection_that_is_refused_makes_no_authenticator() -> None:
    async def story() -> None:
        async with Rig() as rig:
            await until(lambda: rig.phases)
            rig.sockets.limits = ConnectionLimits(per_ip_max=1)
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.listener.port)
            assert await asyncio.wait_for(closed(reader), PATIENCE_S)
            writer.close()
            assert len(rig.phases) == 1

    run(story)


def test_an_expired_session_can_begin_again_with_a_handshake_only() -> None:
    async def story() -> None:
        async with Rig(session=Session(ALICE.principal, "PLAIN", expires_at=60.0)) as rig:
            rig.again = True
            await rig.reconnect()
            await rig.ask(b"last")
            rig.time = 61.0
            rig.send(HANDSHAKE + b"token")
            assert await rig.read() == b"more"
            assert await rig.ask(b"last") == b"welcome"
            assert rig.served == []

    run(story)


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
