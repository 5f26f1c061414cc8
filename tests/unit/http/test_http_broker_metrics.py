"""Asking a metrics endpoint: the formats that are read, and the error if another server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from kcli.http import broker_metrics
from kcli.http.broker_metrics import MetricsAccess, MetricsUnavailable, fetch_beans, fetch_slow_requests
from kcli.model.addresses import Address

T = TypeVar("T")


def asked(answer: bytes, ask: Callable[[Address], Awaitable[T]]) -> tuple[T, bytes]:
    """What `ask` makes of a server that answers so, and what it sent."""

    async def story() -> tuple[T, bytes]:
        sent = bytearray()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sent.extend(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            found = await ask(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
        return found, bytes(sent)

    return asyncio.run(story())


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body


def test_beans_with_the_parts_of_their_names() -> None:
    body = rb'{"beans": [{"name": "d:type=T,path=\"/a,b\"", "Value": 1.5, "Text": "x"}]}'
    (bean,), sent = asked(ok(body), lambda at: fetch_beans(at, ["d:*", "e:a=b c"], MetricsAccess("me:pw")))
    assert (bean.name, bean.type, bean.properties["path"]) == ('d:type=T,path="/a,b"', "T", "/a,b")
    assert bean.attributes == {"Value": 1.5, "Text": "x"}
    assert sent.startswith(b"GET /jmx?qry=d%3A%2A&qry=e%3Aa%3Db+c HTTP/1.1\r\n")
    assert b"Authorization: Basic bWU6cHc=\r\n" in sent


def test_slow_requests_are_read_from_the_broker() -> None:
    found, sent = asked(ok(b'{"requests": [{"api": "Fetch"}]}'), fetch_slow_requests)
    assert (found, sent.split(b"\r\n")[0]) == ([{"api": "Fetch"}], b"GET /requests HTTP/1.1")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\x00\x00\x00\x05hello", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
        (ok(b"<html>"), "does not answer in JSON"),
        (ok(b"[]"), "does not answer in JSON"),
        (ok(b"{}"), "has no beans at /jmx"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nno such page", "answered 404: no such page"),
    ],
)
def test_an_answer_that_is_not_metrics_is_named(answer: bytes, why: str) -> None:
    with pytest.raises(MetricsUnavailable, match=why):
        asked(answer, fetch_beans)


def test_too_much_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_metrics, "ANSWER_SIZE_MAX_BYTES", 1000)
    with pytest.raises(MetricsUnavailable, match="more than 1000 bytes"):
        asked(ok(bytes(5000)), fetch_beans)


def test_no_endpoint_at_all() -> None:
    with pytest.raises(MetricsUnavailable, match="refused"):
        asyncio.run(fetch_beans(Address("127.0.0.1", 1)))
