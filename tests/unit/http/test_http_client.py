"""The HTTP client: whole responses within a limit, and errors as a socket raises them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from kcli.http import client, server
from kcli.http.server import HttpServer, Request, respond
from kcli.model.addresses import Address
from kcli.runtime.network import SystemNetwork

T = TypeVar("T")


def answered(answer: bytes, ask: Callable[[Address], Awaitable[T]]) -> T:
    """The result of `ask` against a server that sends these bytes and closes."""

    async def story() -> T:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
            return await ask(Address("127.0.0.1", listener.sockets[0].getsockname()[1]))

    return asyncio.run(story())


def get(address: Address) -> Awaitable[client.Response]:
    return client.get(address, "/", body_max_bytes=1000)


def test_our_own_server_is_understood() -> None:
    async def echo(request: Request) -> server.Response:
        return respond(request.query["q"].encode(), server.TEXT)

    async def story() -> None:
        served = HttpServer([server.get("/a", echo)], SystemNetwork())
        address = Address("127.0.0.1", await served.start("127.0.0.1", 0))
        found = await client.get(address, "/a?q=%2A+b", body_max_bytes=3)
        assert found == client.Response(200, b"* b")
        with pytest.raises(client.ResponseTooLong):
            await client.get(address, "/a?q=four", body_max_bytes=3)
        assert (await client.get(address, "/b", body_max_bytes=100)).status == 404
        await served.stop()

    asyncio.run(story())


def test_a_redirect_is_not_followed() -> None:
    found = answered(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", get)
    assert found == client.Response(302, b"")


def test_a_body_in_chunks() -> None:
    found = answered(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", get
    )
    assert found.body == b"abc"


def test_a_body_that_ends_early_is_an_error() -> None:
    with pytest.raises(OSError, match="before the end of its response"):
        answered(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", get)


@pytest.mark.parametrize("answer", [b"", b"\x00\x00\x00\x05hello", b"HTTP/1.1 2x0 OK\r\n\r\n"])
def test_something_else_is_not_http(answer: bytes) -> None:
    with pytest.raises(client.NotHttp):
        answered(answer, get)


def test_a_closed_port_is_a_connection_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(client.get(Address("127.0.0.1", 1), "/", body_max_bytes=1))


@pytest.mark.parametrize("host", ["a:b", "a" * 70])
def test_an_address_that_cannot_be_one_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError):
        asyncio.run(client.get(Address(host, 1), "/", body_max_bytes=1))


def test_a_server_that_does_not_answer_is_a_time_out() -> None:
    async def story() -> None:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            ended.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
            with pytest.raises(TimeoutError):
                await client.request("GET", url, headers={}, body_max_bytes=1, read_max_seconds=0.01)
            await ended.wait()

    asyncio.run(story())
