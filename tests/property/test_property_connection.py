"""Connections under random requests: answers and appends keep their order, and no handler loses its frame.

A request is answered at once, or its handler suspends. A handler of Produce that suspends may read its frame until it
only waits, and it may come to this wait late.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Callable

import pytest

from kcli.runtime.network import SystemNetwork
from kcli.server.network.connection import Connection
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.waiting import Answer, Waiting
from rigs.loops import PATIENCE_S, on_a_loop, until

PRODUCE, OTHER = b"\x00\x00", b"\x00\x01"
REQUESTS = 60
CONNECTIONS = 4
SIZES = (10, 3000, 30_000, 66_000, 200_000)
"""The sizes of requests. The larger ones need a buffer of their own."""
PAUSES_S = (0, 0, 0.0005, 0.002)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Handlers:
    """Serves requests in random ways, and checks what the connection promises to each of them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._reading: Counter[Connection] = Counter()
        self._waiting: Counter[Connection] = Counter()

    def serve(self, connection: Connection, request: memoryview) -> Answer | Waiting:
        body = bytes(request)
        is_produce = body[:2] == PRODUCE
        assert not self._reading[connection], "a handler that works holds back the next request"
        assert is_produce or not self._waiting[connection], "only a Produce overlaps with a wait"
        match self._rng.choice(("at once", "no answer", "wait", "read", "read, then wait")):
            case "at once":
                return frame(body)
            case "no answer":
                return None if is_produce else frame(body)
            case "wait" if is_produce:
                return self._suspended(connection, request, body, reads=False, waits=True)
            case "read, then wait" if is_produce:
                return self._suspended(connection, request, body, reads=True, waits=True)
            case _:
                return self._suspended(connection, request, body, reads=True, waits=False)

    def _suspended(
        self, connection: Connection, request: memoryview, body: bytes, *, reads: bool, waits: bool
    ) -> Waiting:
        self._reading[connection] += reads
        self._waiting[connection] += 1

        async def rest() -> Answer:
            if reads:
                await self._pause()
                assert body[:2] != PRODUCE or request == body, "another frame overwrites this one"
                self._reading[connection] -= 1
                if waits:
                    waiting.begin_to_wait()
            if waits:
                await self._pause()
            self._waiting[connection] -= 1
            return frame(body)

        waiting = Waiting(
            name="a request",
            task=asyncio.ensure_future(rest()),
            only_waits=not reads,
            may_be_dropped=not reads,
            reads_frame=reads and body[:2] == PRODUCE,
        )
        return waiting

    async def _pause(self) -> None:
        for _ in range(self._rng.randrange(3)):
            await asyncio.sleep(self._rng.choice(PAUSES_S))


async def client(port: int, name: int, rng: random.Random, has_answer: Callable[[bytes], None]) -> None:
    """Sends requests, some of them together, and checks the order of their answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    bodies = [
        rng.choice((PRODUCE, PRODUCE, OTHER))
        + struct.pack(">ii", name, number)
        + bytes((rng.randrange(256),)) * rng.choice(SIZES)
        for number in range(REQUESTS)
    ]

    async def send() -> None:
        for body in (*bodies, OTHER + b"last"):
            writer.write(frame(body))
            if rng.random() < 0.3:
                await writer.drain()

    sending = asyncio.ensure_future(send())
    answered = iter(bodies)
    while (answer := await read_frame(reader)) != OTHER + b"last":
        assert answer in answered, "some Produce requests have no answer, and all others are in order"
        has_answer(answer)
    await sending
    writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)


@pytest.mark.parametrize("seed", range(6))
@on_a_loop
async def test_answers_keep_their_order_and_frames_their_bytes(seed: int) -> None:
    rng = random.Random(seed)
    sockets = SocketServer(
        SystemNetwork(),
        limits=ConnectionLimits(),
        request_size_max_bytes=1_000_000,
        idle_max_seconds=None,
        protected_listener=None,
        now=lambda: 0.0,
    )
    listener = await sockets.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), Handlers(rng).serve)
    answers: list[bytes] = []
    await asyncio.gather(*(client(listener.port, name, rng, answers.append) for name in range(CONNECTIONS)))
    assert len(answers) > REQUESTS
    await until(lambda: not sockets.connections)
    assert not sockets.shared.frames.held_bytes, "all buffers are given back"
    await sockets.close()
