"""Sessions end by time and by number, and their clients with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kcli.console import sessions
from kcli.console.connection import STREAMS_AT_ONCE, ClusterConnection
from kcli.console.failures import ConsoleError
from kcli.console.identity import Identity
from kcli.console.sessions import AGE_MAX_SECONDS, IDLE_MAX_SECONDS, Sessions
from kcli.runtime.network import SystemNetwork


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.sessions = Sessions(lambda: self.now)
        self.closed: list[str] = []

    def connection(self, name: str) -> ClusterConnection:
        """A connection that notes its end."""
        identity = Identity(name, {"bootstrap.servers": "127.0.0.1:1"})
        made = ClusterConnection(identity, SystemNetwork(), lambda: self.now)

        async def close() -> None:
            self.closed.append(name)

        made.own("witness", close)
        return made


def with_world(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(World())

    asyncio.run(run())


def test_a_session_without_requests_ends_and_closes_its_clients() -> None:
    async def story(world: World) -> None:
        session = await world.sessions.begin()
        session.connections["main"] = world.connection("alice")
        world.now += IDLE_MAX_SECONDS - 1
        assert world.sessions.find(session.id) is session
        world.now += IDLE_MAX_SECONDS + 1
        assert world.sessions.find(session.id) is None
        assert world.closed == []
        await world.sessions.sweep()
        assert (world.closed, len(world.sessions)) == (["alice"], 0)

    with_world(story)


def test_a_session_in_use_ends_after_a_working_day() -> None:
    async def story(world: World) -> None:
        session = await world.sessions.begin()
        for _ in range(int(AGE_MAX_SECONDS / IDLE_MAX_SECONDS * 2)):
            world.now += IDLE_MAX_SECONDS / 2
            assert world.sessions.find(session.id) is session
        world.now += 1
        assert world.sessions.find(session.id) is None

    with_world(story)


def test_too_many_sessions_drop_those_without_a_login_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)

    async def story(world: World) -> None:
        with_login = await world.sessions.begin()
        with_login.connections["main"] = world.connection("alice")
        for _ in range(10):
            world.now += 1
            latest = await world.sessions.begin()
        assert len(world.sessions) == 3
        assert world.sessions.find(with_login.id) is with_login
        assert world.sessions.find(latest.id) is latest
        assert world.closed == []

    with_world(story)


def test_visitors_do_not_drop_the_session_of_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)

    async def story(world: World) -> None:
        owner = await world.sessions.begin(is_owner=True)
        for _ in range(10):
            world.now += 1
            await world.sessions.begin()
        assert len(world.sessions) == 3
        assert world.sessions.find(owner.id) is owner

    with_world(story)


def test_the_end_of_a_session_ends_its_streams_and_clients() -> None:
    async def story(world: World) -> None:
        session = await world.sessions.begin()
        connection = session.connections["main"] = world.connection("alice")
        begun = asyncio.Event()

        async def follow() -> None:
            async with connection.stream():
                begun.set()
                await asyncio.Event().wait()

        tail = asyncio.create_task(follow())
        await begun.wait()
        client = connection.client()
        closed: list[bool] = []

        async def close() -> None:
            closed.append(True)

        client.close = close
        await world.sessions.end(session)
        assert closed == [True]
        with pytest.raises(ConsoleError, match="ended"):
            await asyncio.wait_for(tail, 30)
        for make in (connection.client, connection.lasting_client):
            with pytest.raises(ConsoleError, match="ended"):
                make()
        for enter in (connection.stream, connection.turn):
            with pytest.raises(ConsoleError, match="ended"):
                async with enter():
                    pytest.fail("a closed connection was used")

    with_world(story)


def test_a_stream_that_ends_on_its_own_gives_its_place_back_and_keeps_its_error() -> None:
    async def story(world: World) -> None:
        connection = world.connection("alice")
        for _ in range(STREAMS_AT_ONCE + 1):
            with pytest.raises(TimeoutError):
                async with connection.stream():
                    raise TimeoutError
        await connection.close()

    with_world(story)


def test_an_unknown_or_missing_cookie_is_no_session() -> None:
    async def story(world: World) -> None:
        session = await world.sessions.begin()
        assert world.sessions.find(None) is None
        assert world.sessions.find("") is None
        assert world.sessions.find(session.id[:-1]) is None
        assert session.accepts(session.csrf)
        assert not session.accepts(None) and not session.accepts("ü") and not session.accepts("\udcff\udcfe")
        assert session.csrf not in repr(session) and session.id not in repr(session)

    with_world(story)
