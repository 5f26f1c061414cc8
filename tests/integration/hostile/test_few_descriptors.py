"""Clients that open connections until the process has no more descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

import pytest

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import encode_request
from kcli.runtime import descriptors
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, create, running

FREE = 300
"""The descriptors that the process has left when the flood begins. Each connection takes two of them, because the test
and the node are one process."""
FLOOD = 400


def leave_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the node act as if the limit of the process were near. A real limit would end the test too."""
    probe = os.dup(0)
    os.close(probe)
    monkeypatch.setattr(descriptors, "_limit", lambda: probe + FREE)


async def flood(node: RunningNode, greeting: bytes = b"") -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    opened: list[socket.socket] = []
    for _ in range(FLOOD):
        each = socket.socket()
        each.setblocking(False)
        await loop.sock_connect(each, ("127.0.0.1", node.port()))
        with contextlib.suppress(OSError):  # the node has refused the connection
            await loop.sock_sendall(each, greeting)
        opened.append(each)
    return opened


def request() -> bytes:
    return encode_request(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0, 1, "flood")


@pytest.mark.parametrize("is_silent", [True, False])
@on_a_loop
async def test_a_flood_of_connections_leaves_the_node_and_its_clients_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_silent: bool
) -> None:
    async with running(tmp_path) as node:
        client = await connect(node)
        await create(client, "before")
        leave_few_descriptors(monkeypatch)
        opened = await flood(node, b"" if is_silent else request())
        await until(lambda: len(node.sockets.connections) < FREE)
        await create(client, "during")
        if is_silent:
            # The oldest connections without a request have given way.
            await create(await connect(node), "by-a-new-client")
        assert all(directory.error is None for directory in node.logs.directories)
        lines = [each for each in caplog.messages if "no free descriptor" in each]
        assert 1 <= len(lines) < FLOOD / 10, "there are lines, but not one for each connection"
        for each in opened:
            each.close()
        await until(lambda: len(node.sockets.connections) < 10)
        await create(await connect(node), "after")
