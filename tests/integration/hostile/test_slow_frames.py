"""Clients that send large requests slowly: the memory of all requests is limited, and other clients continue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import uvloop

from kcli.runtime.network import SystemNetwork
from kcli.server.network.connection import Connection
from kcli.server.network.frame_buffers import FRAME_GRACE_SECONDS, POOLED_FRAME_SIZE_MAX_BYTES
from kcli.server.network.listener import Acceptor, SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.loop_shared import LoopShared
from kcli.server.network.tls_transport import ServerTls
from rigs.certificates import Certificates
from rigs.loops import until
from rigs.tls import context_of, server_context_of
from rigs.wire_client import Client, connect

FRAME_BYTES = 8_000_000
LIMIT_BYTES = 40_000_000


def echo_size(_connection: Connection, frame: memoryview) -> bytes:
    return (4).to_bytes(4, "big") + len(frame).to_bytes(4, "big")


Connect = Callable[[Acceptor], Awaitable[Client]]
Scenario = Callable[[SocketServer, Acceptor, Connect], Awaitable[None]]


@pytest.fixture(params=["plain", "tls"])
def run(request: pytest.FixtureRequest, certificates: Certificates) -> Callable[[Scenario], None]:
    """Runs a scenario with a listener, with and without TLS."""
    with_tls = request.param == "tls"
    tls = ServerTls(server_context_of(certificates)) if with_tls else None
    client_tls = context_of(certificates) if with_tls else None
    return partial(serve, tls, lambda listener: connect(listener.port, client_tls))


def serve(tls: ServerTls | None, connects: Connect, scenario: Scenario) -> None:
    async def main() -> None:
        sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=104_857_600,
            idle_max_seconds=None,
            protected_listener=None,
            now=asyncio.get_running_loop().time,
            shared=LoopShared(queued_bytes_max=LIMIT_BYTES),
        )
        settings = ListenerSettings("PLAINTEXT", "127.0.0.1", 0)
        listener = await sockets.listen(settings, echo_size, tls=tls)
        await scenario(sockets, listener, connects)
        await sockets.close()
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def answer(client: Client) -> int:
    assert await client.reader.readexactly(4) == (4).to_bytes(4, "big")
    return int.from_bytes(await client.reader.readexactly(4), "big")


def test_slow_frames_hold_no_more_than_their_limit(run: Callable[[Scenario], None]) -> None:
    async def scenario(sockets: SocketServer, listener: Acceptor, connects: Connect) -> None:
        frames = sockets.shared.frames
        slow = [await connects(listener) for _ in range(20)]
        for client in slow:
            client.writer.write(FRAME_BYTES.to_bytes(4, "big") + bytes(1000))
        await until(lambda: frames.held_bytes)
        await asyncio.sleep(0.1)
        assert frames.held_bytes <= LIMIT_BYTES
        small = await connects(listener)
        for size in (10, 200_000, POOLED_FRAME_SIZE_MAX_BYTES):
            small.writer.write(size.to_bytes(4, "big") + bytes(size))
            assert await answer(small) == size
        for client in [*slow, small]:
            client.close()
        await until(lambda: not sockets.connections)
        assert frames.held_bytes == 0

    run(scenario)


def test_frames_beyond_the_limit_wait_and_are_all_served(run: Callable[[Scenario], None]) -> None:
    async def scenario(sockets: SocketServer, listener: Acceptor, connects: Connect) -> None:
        clients = [await connects(listener) for _ in range(12)]
        for client in clients:
            client.writer.write(FRAME_BYTES.to_bytes(4, "big") + bytes(FRAME_BYTES))
        assert await asyncio.gather(*map(answer, clients)) == [FRAME_BYTES] * 12
        assert sockets.shared.frames.held_bytes == 0
        for client in clients:
            client.close()

    run(scenario)


def test_a_frame_larger_than_the_limit_is_served_alone(run: Callable[[Scenario], None]) -> None:
    async def scenario(sockets: SocketServer, listener: Acceptor, connects: Connect) -> None:
        client = await connects(listener)
        client.writer.write((50_000_000).to_bytes(4, "big") + bytes(50_000_000))
        assert await answer(client) == 50_000_000
        client.close()

    run(scenario)


def test_a_slow_frame_gives_way_when_another_one_waits(run: Callable[[Scenario], None]) -> None:
    async def scenario(sockets: SocketServer, listener: Acceptor, connects: Connect) -> None:
        slow = [await connects(listener) for _ in range(2)]
        for client in slow:
            client.writer.write(FRAME_BYTES.to_bytes(4, "big") + bytes(1000))
        await until(lambda: sockets.shared.frames.held_bytes == 2 * FRAME_BYTES)
        fast = await connects(listener)
        fast.writer.write(FRAME_BYTES.to_bytes(4, "big") + bytes(FRAME_BYTES))
        began = asyncio.get_running_loop().time()
        assert await answer(fast) == FRAME_BYTES
        assert asyncio.get_running_loop().time() - began >= FRAME_GRACE_SECONDS
        assert 1 <= len(listener.served) <= 2
        for client in [*slow, fast]:
            client.close()

    run(scenario)
