"""The accept of connections: errors are logged and the port stays open."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from kcli.runtime import accepting
from kcli.runtime.accepting import AcceptingServer, listening_sockets
from kcli.runtime.hosts import InvalidHost
from kcli.runtime.network import SystemNetwork
from rigs.loops import on_a_loop, until

Greeting = Callable[[], asyncio.Protocol]


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


class ShortSocket(socket.socket):
    """A socket whose first accepts fail."""

    errors: list[int]

    def accept(self) -> Any:
        if self.errors:
            raise OSError(self.errors.pop(0), "no more")
        return super().accept()


async def greeted(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = await reader.read()
    writer.close()
    return found


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EPERM])
@on_a_loop
async def test_an_accept_that_fails_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    monkeypatch.setattr(accepting, "RETRY_SECONDS", 0.001)
    listening = ShortSocket(socket.AF_INET, socket.SOCK_STREAM)
    listening.errors = [number, number]
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    listening.setblocking(False)
    server = AcceptingServer([listening], Greeter, None, None)
    assert await greeted(listening.getsockname()[1]) == b"hello"
    assert len(caplog.records) == 1 and "no connection can be accepted" in caplog.text
    server.close()


@on_a_loop
async def test_a_connection_is_closed_with_a_line_if_the_last_descriptors_are_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "is_last_reserved", lambda _number: True)
    server = await SystemNetwork().create_server(Greeter, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    assert await greeted(port) == b""
    assert "too few descriptors are free" in caplog.text
    monkeypatch.setattr(accepting, "is_last_reserved", lambda _number: False)
    assert await greeted(port) == b"hello"
    server.close()


@on_a_loop
async def test_a_closed_server_accepts_no_connection_and_frees_its_port() -> None:
    server = await SystemNetwork().create_server(Greeter, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    server.close()
    assert not server.is_serving()
    with pytest.raises(ConnectionRefusedError):
        await greeted(port)
    (again,) = await listening_sockets("127.0.0.1", port, 8)
    again.close()


@on_a_loop
async def test_a_port_that_is_in_use_is_named() -> None:
    (taken,) = await listening_sockets("127.0.0.1", 0, 8)
    with pytest.raises(OSError, match="address already in use"):
        await listening_sockets("127.0.0.1", taken.getsockname()[1], 8)
    taken.close()


@on_a_loop
async def test_a_server_without_a_host_listens_on_each_interface() -> None:
    server = await SystemNetwork().create_server(Greeter, None, 0)
    (port,) = (
        each.getsockname()[1]
        for each in server.sockets  # type: ignore[attr-defined]
        if each.family == socket.AF_INET
    )
    assert await greeted(port) == b"hello"
    server.close()
    await until(lambda: not server.is_serving())


@on_a_loop
async def test_a_text_that_cannot_be_a_host_is_an_error_of_the_system() -> None:
    with pytest.raises(InvalidHost, match=r"^a\.\.b cannot be the name of a host$"):
        await listening_sockets("a..b", 0, 1)
    with pytest.raises(InvalidHost):
        await SystemNetwork().create_connection(asyncio.Protocol, "a..b", 1)
