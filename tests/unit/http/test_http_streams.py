"""Bodies with limits, streamed responses, server-sent events, and rules for all requests of a server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest

from kcli.http import bodies, server
from kcli.http.bodies import read_body, read_object
from kcli.http.events import EventStream
from kcli.http.server import (
    AHEAD_MAX_BYTES,
    HttpError,
    HttpServer,
    Request,
    Response,
    Rules,
    Stream,
    StreamEnded,
    StreamResponse,
    get,
    post,
    respond,
)
from kcli.runtime.event_loop import loop_factory
from kcli.runtime.network import SystemNetwork

PATIENCE_S = 30.0
BODY_MAX_BYTES = 2 * AHEAD_MAX_BYTES


class Site:
    """A server with one route of each kind. It notes how its streams ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.sent = 0
        self.ended = asyncio.Event()

    async def length(self, request: Request) -> Response:
        return respond(
            str(len(await read_body(request, body_max_bytes=BODY_MAX_BYTES))).encode(), server.TEXT
        )

    async def object(self, request: Request) -> Response:
        return respond(repr(await read_object(request, body_max_bytes=100)).encode(), server.TEXT)

    async def events(self, request: Request) -> StreamResponse:
        async with EventStream(request) as stream:
            await stream.send("message", {"text": "a\nb\r\nevent: done"})
            await stream.beat()
            await stream.send("done", None)
        return stream.response

    async def endless(self, request: Request) -> StreamResponse:
        try:
            async with Stream(request, server.TEXT) as stream:
                while True:
                    await stream.write(bytes(256 * 1024))
                    self.sent += 1
                    await asyncio.sleep(0)
        except StreamEnded:
            self.ends.append("ended")
            raise
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        finally:
            self.ended.set()

    async def broken(self, request: Request) -> StreamResponse:
        async with Stream(request, server.TEXT) as stream:
            await stream.write(b"begin")
            raise RuntimeError("in the middle")


def serve(
    talk: Callable[[int, Site], Awaitable[None]],
    rules: Rules | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    async def story() -> None:
        site = Site()
        routes = [
            post("/length", site.length),
            post("/object", site.object),
            get("/events", site.events),
            get("/endless", site.endless),
            get("/broken", site.broken),
        ]
        served = HttpServer(routes, SystemNetwork(), rules=rules)
        port = await served.start("127.0.0.1", 0)
        try:
            await talk(port, site)
        finally:
            await served.stop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())


async def exchange(port: int, head: str, body: bytes = b"") -> bytes:
    """Everything that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\nHost: x\r\nConnection: close\r\n\r\n".encode() + body)
    said = bytearray()
    with contextlib.suppress(ConnectionResetError):  # an abort may be seen as one
        async with asyncio.timeout(PATIENCE_S):
            while part := await reader.read(65536):
                said += part
    writer.close()
    return bytes(said)


def test_a_body_above_the_limit_of_early_bytes_is_read() -> None:
    async def talk(port: int, site: Site) -> None:
        said = await exchange(
            port, f"POST /length HTTP/1.1\r\nContent-Length: {BODY_MAX_BYTES}", bytes(BODY_MAX_BYTES)
        )
        assert said.endswith(f"\r\n\r\n{BODY_MAX_BYTES}".encode())

    serve(talk)


def test_a_long_body_is_read_on_the_loop_of_the_programs() -> None:
    """uvloop reads more at a time than asyncio's loop, and a client may have sent the whole body before."""

    async def talk(port: int, site: Site) -> None:
        for size in (AHEAD_MAX_BYTES * 6 // 10, AHEAD_MAX_BYTES, BODY_MAX_BYTES):
            said = await asyncio.to_thread(sent_at_once, port, size)
            assert said.endswith(f"\r\n\r\n{size}".encode())

    serve(talk, loop_factory=loop_factory())


def sent_at_once(port: int, size: int) -> bytes:
    head = f"POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(head + bytes(size))
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_body_above_its_limit_is_refused() -> None:
    async def talk(port: int, site: Site) -> None:
        size = BODY_MAX_BYTES + 1
        said = await exchange(port, f"POST /length HTTP/1.1\r\nContent-Length: {size}", bytes(size))
        assert said.startswith(b"HTTP/1.1 413 ")
        chunks = b"%x\r\n" % size + bytes(size) + b"\r\n0\r\n\r\n"
        said = await exchange(port, "POST /length HTTP/1.1\r\nTransfer-Encoding: chunked", chunks)
        assert said.startswith(b"HTTP/1.1 413 ")

    serve(talk)


def test_a_client_that_sends_much_more_than_the_limit_reads_the_error() -> None:
    """The rest of the body is more than a client may send ahead, and it is read after the limit."""

    async def talk(port: int, site: Site) -> None:
        size = BODY_MAX_BYTES + 4 * AHEAD_MAX_BYTES
        said = await exchange(port, f"POST /length HTTP/1.1\r\nContent-Length: {size}", bytes(size))
        assert said.startswith(b"HTTP/1.1 413 ")

    serve(talk)


def test_a_body_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "DISCARD_MAX_BYTES", 64 * 1024)

    async def talk(port: int, site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        writer.write(bytes(BODY_MAX_BYTES + 192 * 1024))
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()

    serve(talk)


def test_a_body_that_arrives_too_slowly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_MAX_SECONDS", 0.05)

    async def talk(port: int, site: Site) -> None:
        said = await exchange(port, "POST /length HTTP/1.1\r\nContent-Length: 5", b"abc")
        assert said.startswith(b"HTTP/1.1 408 ")

    serve(talk)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b'{"a": [1]}', 200),
        ("application/json; charset=utf-8", b"{}", 200),
        ("application/json", b"[]", 400),
        ("application/json", b"{", 400),
        ("application/json", b"\xff", 400),
        ("application/json", b"[" * 90, 400),
        ("application/json", b'{"a": "%s"}' % (b"x" * 100), 413),
        ("text/plain", b"{}", 415),
        ("application/json", rb'{"a": "\ud83d\ude00"}', 200),
        ("application/json", rb'{"a": ["\ud800"]}', 400),
        ("application/json", rb'{"\uDfff": 1}', 400),
        ("application/json", b'{"a": "\xed\xa0\x80"}', 400),
        ("application/x-www-form-urlencoded", b"a=b", 415),
    ],
)
def test_only_an_object_of_json_is_accepted(kind: str, body: bytes, status: int) -> None:
    async def talk(port: int, site: Site) -> None:
        head = f"POST /object HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}"
        assert (await exchange(port, head, body)).startswith(f"HTTP/1.1 {status} ".encode())

    serve(talk)


def test_events_cannot_be_forged_by_their_content() -> None:
    async def talk(port: int, site: Site) -> None:
        said = await exchange(port, "GET /events HTTP/1.0")
        assert b"Content-Type: text/event-stream; charset=utf-8\r\n" in said
        assert said.partition(b"\r\n\r\n")[2].split(b"\n\n")[:3] == [
            b'event: message\ndata: {"text":"a\\nb\\r\\nevent: done"}',
            b": alive",
            b"event: done\ndata: null",
        ]

    serve(talk)


def test_a_slow_reader_slows_its_stream_and_is_then_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RESPONSE_MAX_SECONDS", 0.2)

    async def talk(port: int, site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await site.ended.wait()
        assert site.ends == ["ended"]
        assert site.sent < 200, "the kernel's buffers have some megabytes at most"
        writer.close()

    serve(talk)


def test_a_stream_ends_with_its_client() -> None:
    async def talk(port: int, site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            await site.ended.wait()

    serve(talk)


def test_a_stream_that_fails_is_not_ended_as_if_it_were_whole() -> None:
    async def talk(port: int, site: Site) -> None:
        said = await exchange(port, "GET /broken HTTP/1.1")
        assert b"begin" in said and not said.endswith(b"0\r\n\r\n")
        assert said.count(b"HTTP/1.1") == 1, "no second response in the same stream"

    serve(talk)


def test_rules_refuse_requests_and_add_headers() -> None:
    def check(request: Request) -> None:
        if request.path == "/events":
            raise HttpError(HTTPStatus.FORBIDDEN, "not this one")

    def failed(error: HttpError) -> Response:
        return respond(b"our own words", server.TEXT, error.status)

    async def talk(port: int, site: Site) -> None:
        said = await exchange(port, "GET /events HTTP/1.1")
        assert said.startswith(b"HTTP/1.1 403 ") and said.endswith(b"our own words")
        for path in ("/events", "/none", "/broken"):
            assert b"X-Test: yes\r\n" in await exchange(port, f"GET {path} HTTP/1.1")

    serve(talk, Rules(check=check, headers={"X-Test": "yes"}, error_response=failed))


def test_a_client_above_the_number_in_the_rules_is_refused() -> None:
    async def talk(port: int, site: Site) -> None:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.05)
        assert (await exchange(port, "GET /none HTTP/1.1")).startswith(b"HTTP/1.1 503 ")
        first.transport.abort()

    serve(talk, Rules(connections_max=1))
