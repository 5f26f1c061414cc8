"""The HTTP of the metrics endpoint: what is answered, refused and limited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
from until import PATIENCE_S

from kcli.server.beans import endpoint
from kcli.server.beans.endpoint import BadRequest, HttpConnection, Request, Response, parse_head

Talk = Callable[[int], Awaitable[None]]


async def answer(request: Request) -> Response:
    if request.path == "/boom":
        raise RuntimeError("not shown to clients")
    if request.path == "/bad":
        raise BadRequest(HTTPStatus.BAD_REQUEST, "no")
    await asyncio.sleep(0)
    return Response(HTTPStatus.OK, "text/plain", f"{request.path} {dict(request.query)}".encode())


def serve(talk: Talk) -> None:
    async def story() -> None:
        connections: dict[HttpConnection, None] = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(answer, connections), "127.0.0.1", 0)
        try:
            await talk(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for connection in list(connections):
                connection.abort()
            await asyncio.sleep(0.01)

    asyncio.run(story())


async def exchange(port: int, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.005)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()


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


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"junk\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x00\xa5\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", b"505 HTTP Version Not Supported"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET http://[bad HTTP/1.1\r\nHost: x\r\n\r\n", b"400 Bad Request"),
        (b"a" * (endpoint.HEAD_SIZE_MAX_BYTES + 1), b"431 Request Header Fields Too Large"),
    ],
)
def test_a_bad_request_is_answered_and_the_connection_closed(sent: bytes, status: bytes) -> None:
    async def talk(port: int) -> None:
        said = await exchange(port, sent)
        assert said.startswith(b"HTTP/1.1 " + status), said
        assert b"Connection: close" in said

    serve(talk)


def test_a_failure_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(port: int) -> None:
        said = await exchange(port, b"GET /boom HTTP/1.0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"not shown" not in said
        assert (await exchange(port, b"GET /bad HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 400 ")

    serve(talk)
    assert "GET /boom failed" in caplog.text


def test_too_many_clients_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "CONNECTIONS_MAX", 1)

    async def talk(port: int) -> None:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.01)
        assert (await exchange(port, b"")).startswith(b"HTTP/1.1 503 ")
        first.close()
        said = b""
        async with asyncio.timeout(PATIENCE_S):  # until the server has seen that it is gone
            while not said.startswith(b"HTTP/1.1 200 "):
                with contextlib.suppress(ConnectionResetError):
                    said = await exchange(port, b"GET / HTTP/1.0\r\n\r\n")

    serve(talk)


def test_a_silent_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "IDLE_MAX_SECONDS", 0.02)

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):  # an abort may be seen as one
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()

    serve(talk)


def test_keep_alive_is_the_default_of_http_1_1_only() -> None:
    assert parse_head(b"GET / HTTP/1.1\r\nHost: x").keep_alive
    assert not parse_head(b"GET / HTTP/1.0").keep_alive
    assert parse_head(b"GET / HTTP/1.0\r\nConnection: Keep-Alive").keep_alive
