"""The sender of large answers: partial sends, order, errors in the middle, transports without a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, cast

import pytest

from kcli.errors import StorageError
from kcli.server.network import answer_sender
from kcli.server.network.answer_sender import (
    PART_SIZE_MIN_BYTES,
    PIECE_SIZE_BYTES,
    SENT_PER_TURN_BYTES,
    AnswerSender,
    SharedSending,
)
from rigs.loops import on_a_loop, until

PATTERN = bytes(range(251))


def content(size: int, start: int = 0) -> bytes:
    return (PATTERN * (size // len(PATTERN) + 2))[start % len(PATTERN) :][:size]


class Range:
    """A range of a file in memory. `cached` says whether the page cache has the bytes from a position."""

    def __init__(self, bytes_: bytes, cached: Callable[[int], bool] = lambda _at: True) -> None:
        self.content = bytes_
        self.claimed = len(bytes_)
        self.cached = cached
        self.device_reads = 0
        self.error_at: int | None = None

    def __len__(self) -> int:
        return self.claimed

    def read_cached_into(self, at: int, buffer: memoryview) -> int | None:
        self._fail(at)
        if not self.cached(at):
            return None
        piece = self.content[at : at + len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)

    def read_piece(self, at: int, size: int) -> bytes:
        self._fail(at)
        self.device_reads += 1
        return self.content[at : at + size]

    def _fail(self, at: int) -> None:
        if self.error_at is not None and at >= self.error_at:
            raise StorageError("the device fails")


class Wire:
    """A transport whose client reads only in `read`. It has a socket, or keeps all bytes until then."""

    def __init__(self, *, has_socket: bool = True) -> None:
        self.ours, self.theirs = socket.socketpair()
        for end in (self.ours, self.theirs):
            end.setblocking(False)
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        self.has_socket = has_socket
        self.unsent = b""
        self.copied = 0
        self.high: int | None = None
        self.is_paused = False
        self.is_aborted = False
        self.received = b""
        self.sender: AnswerSender

    # The transport.

    def get_extra_info(self, name: str) -> Any:
        return self.ours if name == "socket" and self.has_socket else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return self.is_aborted

    def write(self, piece: bytes) -> None:
        self.copied += len(piece)
        self.unsent += piece

    def abort(self) -> None:
        self.is_aborted = True

    # The client.

    async def read(self, size: int) -> None:
        """Reads `size` bytes, and lets the transport send what it has."""
        target = len(self.received) + size
        while len(self.received) < target:
            if self.unsent:
                with suppress(BlockingIOError):
                    self.unsent = self.unsent[self.ours.send(self.unsent) :]
                if not self.unsent:
                    self.sender.go_on()
            try:
                self.received += self.theirs.recv(min(100_000, target - len(self.received)))
            except BlockingIOError:
                await asyncio.sleep(0)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


class Rig:
    def __init__(self, *, has_socket: bool = True, shared: SharedSending | None = None) -> None:
        self.wire = Wire(has_socket=has_socket)
        self.shared = shared or SharedSending()
        self.sent_all = 0
        self.failures: list[str] = []
        self.progress = 0

    def __enter__(self) -> Self:
        self.sender = self.wire.sender = AnswerSender(
            cast(asyncio.Transport, self.wire),
            self.shared,
            progressed=self._progressed,
            sent_all=self._sent_all,
            failed=self.failures.append,
        )
        return self

    def _progressed(self) -> None:
        self.progress += 1

    def _sent_all(self) -> None:
        self.sent_all += 1

    def __exit__(self, *_exc: object) -> None:
        self.wire.close()


@pytest.mark.parametrize("has_socket", [True, False])
@on_a_loop
async def test_parts_arrive_whole_and_in_order(has_socket: bool) -> None:
    with Rig(has_socket=has_socket) as rig:
        first, second = content(3 * PIECE_SIZE_BYTES + 17), content(500_000, 7)
        rig.sender.send([b"head", Range(first), b"", b"middle", Range(second), b"tail"])
        rig.sender.send([b"the next answer"])
        expected = b"head" + first + b"middle" + second + b"tail" + b"the next answer"
        await rig.wire.read(len(expected))
        assert rig.wire.received == expected
        await until(lambda: not rig.sender.is_busy)
        assert rig.sent_all == 1
        assert rig.shared.unsent_bytes == 0
        assert not rig.shared.senders
        assert rig.wire.high == answer_sender.WRITE_HIGH_WATER_BYTES


@on_a_loop
async def test_a_client_that_does_not_read_costs_one_piece() -> None:
    with Rig() as rig:
        rig.sender.send([Range(content(10_000_000))])
        await asyncio.sleep(0.01)
        assert len(rig.wire.unsent) <= PIECE_SIZE_BYTES
        assert rig.wire.copied <= PIECE_SIZE_BYTES
        assert rig.sender.is_busy
        assert rig.sent_all == 0


@on_a_loop
async def test_a_turn_sends_a_limited_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    with Rig() as rig:
        written = 0

        def swallow(_fd: int, piece: memoryview) -> int:
            nonlocal written
            written += len(piece)
            return len(piece)

        monkeypatch.setattr("kcli.server.network.answer_sender.os.write", swallow)
        rig.sender.send([Range(bytes(10 * SENT_PER_TURN_BYTES))])
        assert SENT_PER_TURN_BYTES <= written < SENT_PER_TURN_BYTES + PIECE_SIZE_BYTES
        await until(lambda: rig.sent_all)
        assert written == 10 * SENT_PER_TURN_BYTES
        assert rig.progress >= 10


@on_a_loop
async def test_a_turn_sends_a_limited_number_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    with Rig() as rig:
        pieces: list[int] = []

        def swallow(_fd: int, piece: memoryview) -> int:
            pieces.append(len(piece))
            return len(piece)

        monkeypatch.setattr("kcli.server.network.answer_sender.os.write", swallow)
        rig.sender.send([Range(b"xy")] * 10_000)
        parts_per_turn = SENT_PER_TURN_BYTES // PART_SIZE_MIN_BYTES
        assert parts_per_turn <= sum(pieces) // 2 < 1.2 * parts_per_turn
        await until(lambda: rig.sent_all)
        assert sum(pieces) == 20_000


@on_a_loop
async def test_pieces_outside_the_page_cache_are_read_in_a_thread() -> None:
    with Rig() as rig:
        cold = Range(content(1_000_000), cached=lambda at: at > 600_000)
        rig.sender.send([b"head", cold])
        await rig.wire.read(4 + 1_000_000)
        assert rig.wire.received == b"head" + cold.content
        assert 5 <= cold.device_reads <= 6


@pytest.mark.parametrize("is_cached", [True, False])
@on_a_loop
async def test_a_disk_error_in_the_middle_fails_the_connection(is_cached: bool) -> None:
    with Rig() as rig:
        broken = Range(content(1_000_000), cached=lambda _at: is_cached)
        broken.error_at = 2 * PIECE_SIZE_BYTES
        rig.sender.send([broken, b"never sent"])
        await rig.wire.read(2 * PIECE_SIZE_BYTES)
        await until(lambda: rig.failures)
        assert rig.failures == ["the device fails"]
        assert not rig.sender.is_busy
        assert rig.shared.unsent_bytes == 0


@pytest.mark.parametrize("is_cached", [True, False])
@on_a_loop
async def test_a_file_that_lost_its_end_fails_the_connection(is_cached: bool) -> None:
    with Rig() as rig:
        short = Range(content(50_000), cached=lambda _at: is_cached)
        short.claimed = 80_000
        rig.sender.send([short])
        await until(lambda: rig.failures)
        assert "30000 bytes are missing" in rig.failures[0]


@on_a_loop
async def test_a_client_that_is_gone_aborts_the_transport() -> None:
    with Rig() as rig:
        rig.wire.theirs.close()
        rig.sender.send([Range(content(1_000_000))])
        assert rig.wire.is_aborted
        assert not rig.sender.is_busy
        assert not rig.failures


@on_a_loop
async def test_clear_stops_the_read_of_a_lost_connection() -> None:
    with Rig() as rig:
        cold = Range(content(1_000_000), cached=lambda _at: False)
        rig.sender.send([cold, b"more"])
        rig.sender.clear()
        await asyncio.sleep(0.01)
        assert not rig.sender.is_busy
        assert rig.shared.unsent_bytes == 0
        assert not rig.wire.copied


@on_a_loop
async def test_answers_above_the_limit_close_the_sender_without_progress_for_the_longest_time() -> None:
    shared = SharedSending(unsent_max_bytes=1_000_000)
    with Rig(shared=shared) as oldest, Rig(shared=shared) as newer, Rig(shared=shared) as newest:
        in_a_file = Rig(shared=shared)
        with in_a_file:
            in_a_file.sender.send([Range(content(2_000_000))])
            for rig in (oldest, newer, newest):
                rig.sender.send([content(600_000)])
            assert [len(rig.failures) for rig in (in_a_file, oldest, newer, newest)] == [0, 1, 1, 0]
            assert shared.unsent_bytes == 600_000
