"""Strangers at an HTTP server: they take the places of other strangers, and never those of users."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from kcli.http import bodies, logins
from kcli.http import server as http
from kcli.http.bodies import read_body
from kcli.http.logins import FAILURES_MAX, LoginGuard, Logins, TooManyFailures
from kcli.http.server import KNOWN_CONNECTIONS, HttpServer, Request, Response, Rules, get, post, respond
from kcli.runtime.network import SystemNetwork
from rigs.loops import until
from simulation.runtime.loop import SimLoop, simulate

PLACES = 4
PATIENCE_S = 60.0
USERS = Logins({"ann": "secret"})
LARGE_BYTES = 64 * 1024 * 1024

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Story = Callable[[int], Awaitable[None]]


def head(path: str = "/", login: str = "", *, method: str = "GET", more: str = "") -> bytes:
    encoded = base64.b64encode(login.encode()).decode()
    with_login = f"Authorization: Basic {encoded}\r\n" if login else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{with_login}{more}\r\n".encode()


RIGHT, WRONG = head(login="ann:secret"), head(login="ann:guess")
IS_USER = "Cookie: user\r\n"


async def index(_: Request) -> Response:
    return respond(b"hello", http.TEXT)


HANGING: list[Request] = []


async def hang(request: Request) -> Response:
    HANGING.append(request)
    await asyncio.sleep(3600)
    raise AssertionError("cancelled before")


async def upload(request: Request) -> Response:
    return respond(await read_body(request, body_max_bytes=1_000_000), http.TEXT)


async def large(_: Request) -> Response:
    return respond(bytes(LARGE_BYTES), "application/octet-stream")


ROUTES = [get("/", index), get("/hang", hang), post("/upload", upload), get("/large", large)]


def serve(
    story: Story, users: Logins | None = None, is_known: Callable[[Request], bool] | None = None
) -> None:
    async def main() -> None:
        rules = Rules(connections_max=PLACES, is_known=is_known)
        server = HttpServer(ROUTES, SystemNetwork(), logins=users, rules=rules)
        port = await server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story(port)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def opened(port: int, sent: bytes) -> Stream:
    stream = await asyncio.open_connection("127.0.0.1", port)
    stream[1].write(sent)
    return stream


async def status_of(port: int, sent: bytes) -> bytes:
    """The status of the response, or an empty text if the connection is closed without one."""
    reader, writer = await opened(port, sent)
    line = b""
    with contextlib.suppress(ConnectionResetError):
        line = await reader.readline()
    writer.close()
    return line[9:12]


def close(streams: list[Stream]) -> None:
    for _reader, writer in streams:
        writer.close()


def test_pipelined_wrong_logins_do_not_lock_a_user_out() -> None:
    async def story(port: int) -> None:
        assert await status_of(port, RIGHT) == b"200"
        for _ in range(2 * FAILURES_MAX // PLACES):
            strangers = [await opened(port, WRONG * 20) for _ in range(PLACES)]
            assert await status_of(port, RIGHT) == b"200", "without a wait, although the address is delayed"
            close(strangers)

    serve(story, USERS)


def test_a_wrong_login_ends_its_connection() -> None:
    async def story(port: int) -> None:
        reader, writer = await opened(port, WRONG + RIGHT)
        said = await reader.read()
        assert said.count(b"HTTP/1.1 ") == 1 and b" 401 " in said
        writer.close()

    serve(story, USERS)


def test_slow_bodies_give_way_to_browsers() -> None:
    async def story(port: int) -> None:
        slow = head("/upload", method="POST", more="Content-Length: 1000\r\n") + b"{"
        strangers = [await opened(port, slow) for _ in range(3 * PLACES)]
        for _ in range(2 * PLACES):
            assert await status_of(port, head()) == b"200"
        close(strangers)

    serve(story)


def test_unread_responses_give_way_to_browsers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SLOW_READ_SECONDS", 0.0)

    async def story(port: int) -> None:
        strangers = [await opened(port, head("/large")) for _ in range(PLACES)]
        for reader, _writer in strangers:
            await reader.readline()
        assert await status_of(port, head()) == b"200"
        close(strangers)

    serve(story)


def test_a_user_gets_a_place_while_strangers_keep_all_of_them_busy() -> None:
    async def story(port: int) -> None:
        HANGING.clear()
        strangers = [await opened(port, head("/hang")) for _ in range(PLACES)]
        await until(lambda: len(HANGING) == PLACES)
        assert await status_of(port, head()) == b"503"
        assert await status_of(port, head(more=IS_USER)) == b"200"
        users = [await opened(port, head("/hang", more=IS_USER)) for _ in range(KNOWN_CONNECTIONS)]
        await until(lambda: len(HANGING) == PLACES + KNOWN_CONNECTIONS)
        assert await status_of(port, head(more=IS_USER)) == b"503", "their number has a limit too"
        close(strangers + users)

    serve(story, is_known=lambda request: request.headers.get("Cookie") == "user")


def test_a_stranger_gives_way_before_a_user() -> None:
    async def story(port: int) -> None:
        user = await opened(port, RIGHT)
        assert b" 200 " in await user[0].readline()
        strangers = [await opened(port, b"GET") for _ in range(3 * PLACES)]
        assert await status_of(port, RIGHT) == b"200"
        user[1].write(RIGHT)
        assert b" 200 " in await user[0].readuntil(b" 200 OK")
        close([user, *strangers])

    serve(story, USERS)


def test_a_body_must_arrive_at_a_lowest_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_FIRST_SECONDS", 0.05)

    async def story(port: int) -> None:
        slow = head("/upload", method="POST", more="Content-Length: 1000\r\n") + b"{"
        assert await status_of(port, slow) == b"408"

    serve(story)


def test_logins_of_an_address_wait_one_after_another_and_those_of_others_do_not() -> None:
    async def main(loop: SimLoop) -> list[float]:
        guard, began = LoginGuard(), loop.time()
        for _ in range(FAILURES_MAX + 2):
            guard.failed("10.0.0.1")
        waits = []
        for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
            began = loop.time()
            await guard.wait(address)
            waits.append(round(loop.time() - began, 3))
        return waits

    assert simulate(1, main) == [2 * logins.INTERVAL_SECONDS, logins.INTERVAL_SECONDS, 0.0]


def test_a_login_that_would_wait_too_long_is_refused_and_a_known_one_is_not() -> None:
    async def main(_loop: SimLoop) -> bool:
        guard = LoginGuard()
        guard.succeeded("10.0.0.1", "ann:secret")
        for _ in range(10 * FAILURES_MAX):
            guard.failed("10.0.0.1")
        with pytest.raises(TooManyFailures):
            await guard.wait("10.0.0.1")
        assert not guard.is_known("10.0.0.1", "ann:guess")
        assert not guard.is_known("10.0.0.2", "ann:secret")
        return guard.is_known("10.0.0.1", "ann:secret")

    assert simulate(1, main)
