"""Sessions end by time and by number, and their clients with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kcli.console import sessions
from kcli.console.connection import CALLS_AT_ONCE, STREAMS_AT_ONCE, ClusterConnection
from kcli.console.failures import ConsoleError
from kcli.console.identity import Identity
from kcli.console.sessions import AGE_MAX_SECONDS, IDLE_MAX_SECONDS, Session, Sessions
from kcli.runtime.network import SystemNetwork
from rigs.loops import some_turns


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.sessions = Sessions(lambda: self.now)
        self.closed: list[str] = []

    async def logged_in(self, name: str) -> Session:
        """A session with a login."""
        session = self.sessions.visit()
        session.connections["main"] = self.connection(name)
        await self.sessions.renew(session)
        return session

    def rights(self, session: Session) -> list[str]:
        """The clusters that a browser with the cookie of this session may use."""
        live = self.sessions.find(session.id)
        return list(live.connections) if live is not None else ["no session"]

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
        session = await world.logged_in("alice")
        world.now += IDLE_MAX_SECONDS - 1
        assert world.sessions.find(session.id) is session
        world.now += IDLE_MAX_SECONDS + 1
        assert world.rights(session) == []
        assert world.closed == []
        await world.sessions.sweep()
        assert (world.closed, len(world.sessions)) == (["alice"], 0)

    with_world(story)


def test_a_session_in_use_ends_after_a_working_day() -> None:
    async def story(world: World) -> None:
        session = await world.logged_in("alice")
        for _ in range(int(AGE_MAX_SECONDS / IDLE_MAX_SECONDS * 2)):
            world.now += IDLE_MAX_SECONDS / 2
            assert world.sessions.find(session.id) is session
        world.now += 1
        assert world.rights(session) == []

    with_world(story)


def test_too_many_logins_end_the_session_that_was_not_used_for_the_longest_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)

    async def story(world: World) -> None:
        first, second = await world.logged_in("alice"), await world.logged_in("bob")
        world.now += 1
        world.sessions.find(first.id)
        third = await world.logged_in("carol")
        assert [world.rights(visitor) for visitor in (first, second, third)] == [["main"], [], ["main"]]
        assert (world.closed, len(world.sessions)) == (["bob"], 2)

    with_world(story)


def test_visitors_take_no_place_and_keep_their_tokens() -> None:
    async def story(world: World) -> None:
        owner = await world.sessions.begin_owner()
        visitors = [world.sessions.visit() for _ in range(sessions.SESSIONS_MAX)]
        assert len(world.sessions) == 1 and world.sessions.find(owner.id) is owner
        assert len({visitor.csrf for visitor in visitors}) == len(visitors)
        for visitor in visitors:
            live = world.sessions.find(visitor.id)
            assert live is not None and live.accepts(visitor.csrf) and not live.is_owner
            assert not live.accepts(owner.csrf)

    with_world(story)


def test_a_logout_leaves_a_visitor_with_the_same_token() -> None:
    async def story(world: World) -> None:
        session = await world.logged_in("alice")
        world.sessions.forget(session)
        assert session in world.sessions, "it has a login"
        session.connections.clear()
        world.sessions.forget(session)
        live = world.sessions.find(session.id)
        assert session not in world.sessions
        assert live is not None and live.accepts(session.csrf)

    with_world(story)


def test_the_end_of_a_session_ends_its_streams_and_clients() -> None:
    async def story(world: World) -> None:
        session = await world.logged_in("alice")
        connection = session.connections["main"]
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


def test_the_end_of_a_session_ends_its_requests_at_once() -> None:
    async def story(world: World) -> None:
        connection = world.connection("alice")
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def read() -> None:
            async with asyncio.timeout(30), connection.turn():
                await connection.cache.get("topics", 10, lambda: asyncio.shield(answer))

        # The first ones wait for the cluster, and the others wait for their turn.
        requests = [asyncio.create_task(read()) for _ in range(CALLS_AT_ONCE + 2)]
        await some_turns()
        await connection.close()
        await some_turns()
        assert all(request.done() for request in requests)
        for request in requests:
            with pytest.raises(ConsoleError, match="ended"):
                await request

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
        session = world.sessions.visit()
        assert Sessions(lambda: 0.0).find(session.id) is None, "another console, or before a restart"
        assert world.sessions.find("ü.\udcff") is None
        assert world.sessions.find(None) is None
        assert world.sessions.find("") is None
        assert world.sessions.find(session.id[:-1]) is None
        assert session.accepts(session.csrf)
        assert not session.accepts(None) and not session.accepts("ü") and not session.accepts("\udcff\udcfe")
        assert session.csrf not in repr(session) and session.id not in repr(session)

    with_world(story)
