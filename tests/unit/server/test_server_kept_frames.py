"""Frames whose handlers suspend: no other connection overwrites them until their handlers have ended."""

from __future__ import annotations

import asyncio
import struct
from typing import Self

import pytest

from kcli.runtime.network import SystemNetwork
from kcli.server.network.connection import Connection
from kcli.server.network.frame_buffers import SCRATCH_SIZE_BYTES, FrameBuffers
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.waiting import Answer, Waiting
from rigs.loops import PATIENCE_S, on_a_loop, until

PRODUCE = b"\x00\x00"


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)


class Rig:
    """A server whose requests of Produce suspend until their gate opens, and then answer with their bytes."""

    def __init__(self) -> None:
        self.gates: list[asyncio.Future[None]] = []
        self.connections: list[Connection] = []

    def _serve(self, connection: Connection, request: memoryview) -> Answer | Waiting:
        if request[:2] != PRODUCE:
            return frame(b"stranger")

        async def read_later(gate: asyncio.Future[None]) -> Answer:
            await gate
            return frame(bytes(request))

        self.connections.append(connection)
        self.gates.append(asyncio.get_running_loop().create_future())
        task = asyncio.ensure_future(read_later(self.gates[-1]))
        return Waiting(name="Produce", task=task, reads_frame=True)

    async def __aenter__(self) -> Self:
        self._sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=1_000_000,
            idle_max_seconds=None,
            protected_listener=None,
            now=lambda: 0.0,
        )
        self._listener = await self._sockets.listen(
            ListenerSettings("PLAINTEXT", "127.0.0.1", 0), self._serve
        )
        self.reader, self.writer = await self._connect()
        self._strange_reader, self._strange_writer = await self._connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.writer.close()
        self._strange_writer.close()
        await self._sockets.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._listener.port)

    async def serve_stranger(self, size_bytes: int) -> None:
        """Another client sends a frame in two parts, so that its beginning is read into the buffer for whole frames,
        and the rest into a buffer of its own."""
        whole = frame(b"\x00\x01" + b"x" * size_bytes)
        self._strange_writer.write(whole[: size_bytes // 2])
        await asyncio.sleep(0.02)
        self._strange_writer.write(whole[size_bytes // 2 :])
        assert await read_frame(self._strange_reader) == b"stranger"


@pytest.mark.parametrize("size_bytes", [2_000, 100_000])
@on_a_loop
async def test_the_frame_of_a_suspended_request_is_not_overwritten(size_bytes: int) -> None:
    async with Rig() as rig:
        request = PRODUCE + b"1" * size_bytes
        rig.writer.write(frame(request))
        await until(lambda: rig.gates)
        await rig.serve_stranger(size_bytes)
        await rig.serve_stranger(SCRATCH_SIZE_BYTES - 100)
        rig.gates[0].set_result(None)
        assert await read_frame(rig.reader) == request


@on_a_loop
async def test_frames_behind_a_suspended_request_are_not_overwritten() -> None:
    first, second = PRODUCE + b"1" * 2000, PRODUCE + b"2" * 2000
    async with Rig() as rig:
        rig.writer.write(frame(first) + frame(second))
        await until(lambda: len(rig.gates) == 1)
        rig.gates[0].set_result(None)
        assert await read_frame(rig.reader) == first
        await until(lambda: len(rig.gates) == 2)
        # The buffer of the first frame is used for this frame.
        await rig.serve_stranger(SCRATCH_SIZE_BYTES - 100)
        rig.gates[1].set_result(None)
        assert await read_frame(rig.reader) == second


@on_a_loop
async def test_the_frame_of_a_lost_connection_counts_until_its_handler_ends() -> None:
    async with Rig() as rig:
        rig.writer.write(frame(PRODUCE + b"1" * 100_000))
        await until(lambda: rig.gates)
        connection = rig.connections[0]
        frames: FrameBuffers = connection._frames
        rig.writer.close()
        await until(lambda: connection.transport is None)
        assert frames.held_bytes == 100_002
        rig.gates[0].set_result(None)
        await until(lambda: not frames.held_bytes)


@on_a_loop
async def test_the_buffer_of_a_suspended_small_request_counts_too() -> None:
    async with Rig() as rig:
        rig.writer.write(frame(PRODUCE + b"1"))
        await until(lambda: rig.gates)
        frames: FrameBuffers = rig.connections[0]._frames
        assert frames.held_bytes == SCRATCH_SIZE_BYTES
        rig.gates[0].set_result(None)
        assert await read_frame(rig.reader) == PRODUCE + b"1"
        assert not frames.held_bytes


@on_a_loop
async def test_a_handler_that_only_waits_gives_the_frame_back() -> None:
    """A client chooses how long the commit of its records may take, and other clients need the memory meanwhile."""
    async with Rig() as rig:
        rig.writer.write(frame(PRODUCE + b"1" * 100_000))
        await until(lambda: rig.gates)
        frames: FrameBuffers = rig.connections[0]._frames
        assert frames.held_bytes == 100_002
        waiting = rig.connections[0]._pending[0]
        assert isinstance(waiting, Waiting)
        waiting.begin_to_wait()
        assert not frames.held_bytes
        rig.gates[0].set_result(None)
        assert len(await read_frame(rig.reader)) == 100_002
        assert not frames.held_bytes
