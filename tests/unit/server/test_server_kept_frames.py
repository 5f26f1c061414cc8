"""Frames whose handlers suspend: no other connection overwrites them until their handlers have ended."""

from __future__ import annotations

import asyncio
import struct

from kcli.runtime.network import SystemNetwork
from kcli.server.network.connection import Connection
from kcli.server.network.frame_buffers import SCRATCH_SIZE_BYTES
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.waiting import Answer, Waiting
from rigs.loops import PATIENCE_S, on_a_loop, until

FIRST, SECOND = b"\x00\x00" + b"1" * 2000, b"\x00\x00" + b"2" * 2000
STRANGER = b"\x00\x01" + b"x" * (SCRATCH_SIZE_BYTES - 100)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)


@on_a_loop
async def test_frames_behind_a_suspended_request_are_not_overwritten() -> None:
    gates: list[asyncio.Future[None]] = []

    def serve(_connection: Connection, request: memoryview) -> Answer | Waiting:
        if request[:2] != FIRST[:2]:
            return frame(b"stranger")

        async def read_later(gate: asyncio.Future[None]) -> Answer:
            await gate
            return frame(bytes(request))

        gates.append(asyncio.get_running_loop().create_future())
        return Waiting(name="Produce", task=asyncio.ensure_future(read_later(gates[-1])), reads_frame=True)

    sockets = SocketServer(
        SystemNetwork(),
        limits=ConnectionLimits(),
        request_size_max_bytes=1_000_000,
        idle_max_seconds=None,
        protected_listener=None,
        now=lambda: 0.0,
    )
    listener = await sockets.listen(ListenerSettings("PLAINTEXT", "127.0.0.1", 0), serve)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        strange_reader, strange_writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(frame(FIRST) + frame(SECOND))
        await until(lambda: len(gates) == 1)
        gates[0].set_result(None)
        assert await read_frame(reader) == FIRST
        await until(lambda: len(gates) == 2)
        # The beginning of a frame is read into a buffer from the pool, to which the first buffer has returned.
        strange_writer.write(frame(STRANGER)[: SCRATCH_SIZE_BYTES // 2])
        await asyncio.sleep(0.02)
        strange_writer.write(frame(STRANGER)[SCRATCH_SIZE_BYTES // 2 :])
        assert await read_frame(strange_reader) == b"stranger"
        gates[1].set_result(None)
        assert await read_frame(reader) == SECOND
        writer.close()
        strange_writer.close()
    finally:
        await sockets.close()
