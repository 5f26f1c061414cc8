"""The HTTP server: responses, errors, and limits on clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
import uvloop

from kcli.http import server as http
from kcli.http.server import HttpError, HttpServer, Request, Response, get, respond
from kcli.runtime.network import SystemNetwork
from simulation.runtime.loop import SimLoop, simulate
from simulation.runtime.network import SimNetwork, Weather

PATIENCE_S = 60.0
LARGE_BYTES = 64 * 1024 * 1024

Talk = Callable[[int], Awaitable[None]]


async def boom(_: Request) -> Response:
    raise RuntimeError("not shown to clients")


async def bad(_: Request) -> Response:
    raise HttpError(HTTPStatus.BAD_REQUEST, "no")


async def large(_: Request) -> Response:
    return respond(bytes(LARGE_BYTES), "application/octet-stream")


async def hang(_: Request) -> Response:
    await asyncio.sleep(3600)
    raise AssertionError("cancelled before")


async def echo(request: Request) -> Response:
    await asyncio.sleep(0)
    query = {key: request.query.getall(key) for key in request.query}
    return respond(f"{request.path} {query}".encode(), http.TEXT)


ROUTES = [get("/boom", boom), get("/bad", bad), get("/large", large), get("/hang", hang)]


def serve(talk: Talk) -> None:
    """Runs `talk(port)` against a server, on the event loop that brokers use."""

    async def story() -> None:
        server = HttpServer([*ROUTES, get("/{path:.*}", echo)], SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        try:
            await talk(port)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


async def exchange(port: int, *parts: bytes) -> bytes:
    """Everything that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.005)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()


async def closed(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionResetError):  # an abort may be seen as one
        while await asyncio.wait_for(reader.read(1024 * 1024), PATIENCE_S):
            pass


def test_requests_one_after_the_other_on_one_connection() -> None:
    async def talk(port: int) -> None:
        said = await exchange(
            port,
            b"GET /a?q=1&q=%2A HTTP/1.1\r\nHo",
            b"st: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n",
            b"HEAD /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )
        assert said.count(b"HTTP/1.1 200 OK\r\n") == 3
        assert b"/a {'q': ['1', '*']}" in said
        assert b"/b {}" in said
        assert said.endswith(b"\r\n\r\n"), "a HEAD has no body"
        assert said.count(b"Connection: close") == 1

    serve(talk)


def test_headers_of_every_response() -> None:
    async def talk(port: int) -> None:
        for request in (b"GET /a HTTP/1.0\r\n\r\n", b"GET /boom HTTP/1.0\r\n\r\n", b"junk\r\n\r\n"):
            said = await exchange(port, request)
            assert b"Content-Type: text/plain; charset=utf-8\r\n" in said
            assert b"Cache-Control: no-store\r\n" in said
            assert b"X-Content-Type-Options: nosniff\r\n" in said
            assert b"Server: kcli\r\n" in said

    serve(talk)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"junk\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x00\xa5\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", b"505 HTTP Version Not Supported"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET http://[bad HTTP/1.1\r\nHost: x\r\n\r\n", b"400 Bad Request"),
        (b"GET /" + b"a" * http.LINE_MAX_BYTES, b"431 Request Header Fields Too Large"),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"a" * (http.HEADER_MAX_BYTES + 1) + b"\r\n\r\n",
            b"431 Request Header Fields Too Large",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * http.HEADERS_MAX + b"\r\n",
            b"431 Request Header Fields Too Large",
        ),
    ],
)
def test_a_bad_request_is_answered_and_the_connection_closed(
    sent: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk(port: int) -> None:
        said = await exchange(port, sent)
        assert said.split(b"\r\n")[0].split(b" ", 1)[1] == status, said
        assert (b"Allow: GET, HEAD\r\n" in said) == (status[:3] == b"405")

    serve(talk)
    assert not caplog.records, "a hostile client must not fill the log"


def test_a_failure_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(port: int) -> None:
        said = await exchange(port, b"GET /boom HTTP/1.0\r\n\r\n")
        assert said.startswith(b"HTTP/1.0 500 ")
        assert b"not shown" not in said
        said = await exchange(port, b"GET /bad HTTP/1.0\r\n\r\n")
        assert said.startswith(b"HTTP/1.0 400 ") and said.endswith(b"\r\n\r\nno\n")

    serve(talk)
    assert "GET /boom failed" in caplog.text


def test_a_path_without_a_route_is_not_found() -> None:
    async def story() -> None:
        server = HttpServer([get("/a", echo)], SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        said = await exchange(port, b"GET /b HTTP/1.0\r\n\r\n")
        assert said.startswith(b"HTTP/1.0 404 ") and said.endswith(b"\r\n\r\nNot Found\n")
        await server.stop()

    asyncio.run(story())


def test_a_client_too_many_is_refused_while_all_others_have_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 1)

    async def story() -> None:
        begun = asyncio.Event()

        async def held(request: Request) -> Response:
            begun.set()
            return await hang(request)

        server = HttpServer([get("/held", held), get("/", echo)], SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        _, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        assert (await exchange(port, b"")).startswith(b"HTTP/1.1 503 ")
        first.close()
        said = b""
        async with asyncio.timeout(PATIENCE_S):  # until the server has seen that it is gone
            while not said.startswith(b"HTTP/1.0 200 "):
                with contextlib.suppress(ConnectionResetError):
                    said = await exchange(port, b"GET / HTTP/1.0\r\n\r\n")
        await server.stop()

    asyncio.run(story())


def test_silent_clients_make_room_before_those_that_have_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 3)

    async def talk(port: int) -> None:
        asked_reader, asked = await asyncio.open_connection("127.0.0.1", port)
        asked.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asked_reader.readline()).startswith(b"HTTP/1.1 200 ")
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        others = []
        for oldest, _ in silent:
            others.append(await asyncio.open_connection("127.0.0.1", port))
            await closed(oldest)
        asked.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/1.1 200 " in await asked_reader.readuntil(b"HTTP/1.1 200 ")
        for _, writer in (*silent, *others, (asked_reader, asked)):
            writer.close()

    serve(talk)


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost"])
def test_a_silent_client_is_closed(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(http, "IDLE_MAX_SECONDS", 0.02)

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        await closed(reader)
        writer.close()

    serve(talk)


def test_a_client_that_sends_its_head_byte_by_byte_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_MAX_SECONDS", 0.1)

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ended = asyncio.create_task(closed(reader))
        async with asyncio.timeout(PATIENCE_S):
            while not ended.done():
                writer.write(b"G")
                await asyncio.sleep(0.01)
        writer.close()

    serve(talk)


def test_a_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "RESPONSE_MAX_SECONDS", 0.1)
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 1)

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        said = b""
        async with asyncio.timeout(PATIENCE_S):
            while not said.startswith(b"HTTP/1.0 200 "):
                with contextlib.suppress(ConnectionResetError):
                    said = await exchange(port, b"GET / HTTP/1.0\r\n\r\n")
                await asyncio.sleep(0.01)
        await closed(reader)
        writer.close()

    serve(talk)


def test_a_client_that_sends_too_much_ahead_is_closed() -> None:
    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        ended = asyncio.create_task(closed(reader))
        head = b"GET / HTTP/1.1\r\nHost: x\r\n" + (b"A: " + b"a" * 8000 + b"\r\n") * 60 + b"\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(head)
                await writer.drain()
        await ended
        writer.close()

    serve(talk)


def test_many_small_requests_sent_ahead_are_all_answered() -> None:
    count = 5_000

    async def talk(port: int) -> None:
        ahead = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * count
        said = await exchange(port, ahead + b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert said.count(b"HTTP/1.1 200 OK\r\n") == count + 1

    serve(talk)


def test_a_stop_closes_idle_connections_at_once_and_waits_for_no_hanging_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "STOP_MAX_SECONDS", 0.05)

    async def story() -> None:
        server = HttpServer(ROUTES, SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        busy, busy_writer = await asyncio.open_connection("127.0.0.1", port)
        busy_writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.01)
        async with asyncio.timeout(PATIENCE_S):
            await server.stop()
        await closed(idle)
        await closed(busy)
        idle_writer.close()
        busy_writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(story())


class Client(asyncio.Protocol):
    """Sends one request and keeps the response."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.received = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


def test_the_simulated_network_carries_it() -> None:
    async def medium(_: Request) -> Response:
        return respond(bytes(1_000_000), "application/octet-stream")

    async def main(loop: SimLoop) -> int:
        network = SimNetwork(loop, loop.rng, Weather(cut_chance=0.9))
        server = HttpServer([get("/medium", medium)], network.host("server"))
        port = await server.start(None, 0)
        client = Client(b"GET /medium HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await network.host("client").create_connection(lambda: client, "server", port)
        assert await client.ended is None
        silent = Client(b"GET /med")
        began = loop.time()
        await network.host("client").create_connection(lambda: silent, "server", port)
        await silent.ended
        assert 0 <= loop.time() - began - http.IDLE_MAX_SECONDS < 5
        await server.stop()
        return len(client.received)

    assert simulate(1, main) == simulate(1, main) > 1_000_000
