"""Clients that update their TLS keys: some updates are normal, a flood closes the connection before it costs much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from kcli.server.network.tls_transport import (
    FIRST_READS_SIZE_BYTES,
    KEY_UPDATE_ANSWERS_MAX_BYTES,
    PLAIN_BYTES_PER_ANSWER_BYTE,
    ServerTls,
)
from rigs.certificates import Certificates
from rigs.data_path import BrokerRig, topic_image
from rigs.key_updates import UpdatingClient
from rigs.loops import PATIENCE_S, until
from rigs.tls import context_of, server_context_of

UPDATE_BYTES = 27
FREE_COUNT = KEY_UPDATE_ANSWERS_MAX_BYTES // UPDATE_BYTES
# ApiVersions version 0 with correlation id 7 and an empty client id.
REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, 0)


def run(
    directory: Path, certificates: Certificates, play: Callable[[UpdatingClient, socket.socket], None]
) -> None:
    """Plays a client in a thread. Returns when the broker has closed all connections."""

    def client(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as opened:
            play(UpdatingClient(opened, context_of(certificates), directory / "keys"), opened)

    async def main() -> None:
        rig = BrokerRig(directory, topic_image("t", 1))
        rig.tls, rig.client_tls = ServerTls(server_context_of(certificates)), context_of(certificates)
        async with rig:
            await asyncio.wait_for(asyncio.to_thread(client, rig.listener.port), 2 * PATIENCE_S)
            await until(lambda: not rig.sockets.connections)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def ask(client: UpdatingClient, opened: socket.socket) -> None:
    opened.sendall(client.data(REQUEST))
    (size,) = struct.unpack(">i", client.read(4))
    assert client.read(size)[:4] == struct.pack(">i", 7)


def received_until_closed(opened: socket.socket) -> int:
    """The number of bytes that the broker sends before it closes the connection."""
    count = 0
    try:
        while received := opened.recv(65536):
            count += len(received)
    except ConnectionResetError:
        pass
    return count


def test_some_key_updates_are_answered_and_change_nothing(tmp_path: Path, certificates: Certificates) -> None:
    def play(client: UpdatingClient, opened: socket.socket) -> None:
        ask(client, opened)
        opened.sendall(client.updates(FREE_COUNT))
        ask(client, opened)
        # Enough plain bytes pay for the same number of key updates again: a request with a long client id.
        length = 30_000
        for _ in range(PLAIN_BYTES_PER_ANSWER_BYTE * KEY_UPDATE_ANSWERS_MAX_BYTES // length + 1):
            request = struct.pack(">ihhih", 10 + length, 18, 0, 7, length) + b"c" * length
            for at in range(0, len(request), 16_000):
                opened.sendall(client.data(request[at : at + 16_000]))
            (size,) = struct.unpack(">i", client.read(4))
            client.read(size)
        opened.sendall(client.updates(FREE_COUNT))
        ask(client, opened)

    run(tmp_path, certificates, play)


def test_a_flood_of_key_updates_closes_the_connection(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    def play(client: UpdatingClient, opened: socket.socket) -> None:
        flood = client.updates(20_000)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            opened.sendall(flood)
        assert received_until_closed(opened) <= FIRST_READS_SIZE_BYTES

    with caplog.at_level(logging.WARNING):
        run(tmp_path, certificates, play)
    assert ["too many key updates" in each for each in caplog.messages] == [True]
