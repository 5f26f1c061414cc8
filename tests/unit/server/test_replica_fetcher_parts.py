"""Parts of the fetchers: the connection to a leader, the versions of requests, and the fetcher of a partition."""

from __future__ import annotations

import asyncio
import struct
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from kcli.config.features import metadata_version_of_release
from kcli.errors import NetworkException, ProtocolError
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.replica.follower import FollowedState, Phase
from kcli.server.partitions.fetchers.fetcher import ReplicaFetcher
from kcli.server.partitions.fetchers.following import Following
from kcli.server.partitions.fetchers.leader_connection import (
    BUFFER_BYTES,
    FRAME_MAX_BYTES,
    SMALL_RESPONSES_MAX,
    LeaderConnection,
)
from kcli.server.partitions.fetchers.replica_fetchers import fetcher_number
from kcli.server.partitions.fetchers.wire import fetch_version, list_offsets_version
from rigs.loops import on_a_loop


class Wire:
    """The transport of a connection. `receive` plays the event loop, which reads into the connection's buffer."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_aborted = False
        self.connection = LeaderConnection(Address("leader", 9092))
        self.connection.connection_made(self)

    def write(self, frame: bytes) -> None:
        self.sent.append(frame)

    def abort(self) -> None:
        self.is_aborted = True

    def receive(self, content: bytes, *, piece_bytes: int = 1 << 30) -> None:
        while content:
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(content), piece_bytes)
            assert size, "an event loop refuses an empty buffer"
            buffer[:size] = content[:size]
            self.connection.buffer_updated(size)
            content = content[size:]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def asked(wire: Wire, content: bytes, **how: Any) -> bytes:
    task = asyncio.ensure_future(wire.connection.exchange(b"request"))
    await asyncio.sleep(0)
    wire.receive(content, **how)
    return bytes(await task)


@on_a_loop
async def test_answers_come_in_any_pieces_and_sizes() -> None:
    wire = Wire()
    for size in (4, 100, BUFFER_BYTES - 4, BUFFER_BYTES, 3 * BUFFER_BYTES, 10):
        body = bytes(nth % 251 for nth in range(size))
        for piece_bytes in (1 << 30, 7):
            assert await asked(wire, frame(body), piece_bytes=piece_bytes) == body
        assert len(wire.connection.get_buffer(-1)), "the end of the stream must have room to be noticed"
    assert wire.sent == [b"request"] * 12


@on_a_loop
async def test_a_large_buffer_is_used_again_and_given_back_after_many_small_answers() -> None:
    wire = Wire()
    large, small = frame(bytes(5 * BUFFER_BYTES)), frame(bytes(10))
    await asked(wire, large)
    buffer = wire.connection._buffer
    for answers in ([small] * (SMALL_RESPONSES_MAX - 1), [large], [small] * (SMALL_RESPONSES_MAX - 1)):
        for answer in answers:
            await asked(wire, answer)
            assert wire.connection._buffer is buffer
    await asked(wire, small)
    assert len(wire.connection._buffer) == BUFFER_BYTES


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_MAX_BYTES + 1])
def test_an_impossible_size_closes_the_connection(size: int) -> None:
    async def story() -> None:
        wire = Wire()
        with pytest.raises(ProtocolError, match=f"response of {size} bytes"):
            await asked(wire, struct.pack(">i", size))
        assert wire.is_aborted
        assert wire.connection.is_closed
        with pytest.raises(ProtocolError):
            await wire.connection.exchange(b"request")

    asyncio.run(story())


@on_a_loop
async def test_bytes_without_a_request_close_the_connection() -> None:
    wire = Wire()
    wire.receive(frame(b"body"))
    assert wire.connection.is_closed
    wire = Wire()
    with pytest.raises(ProtocolError, match="without a request"):
        await asked(wire, frame(b"body") + b"more")


@on_a_loop
async def test_a_closed_connection_ends_the_wait() -> None:
    wire = Wire()
    task = asyncio.ensure_future(wire.connection.exchange(b"request"))
    await asyncio.sleep(0)
    assert not wire.connection.eof_received()
    wire.connection.connection_lost(None)
    with pytest.raises(NetworkException, match="closed the connection"):
        await task
    assert wire.connection.is_closed


@pytest.mark.parametrize(
    ("release", "fetch", "list_offsets"),
    [
        ("3.3-IV3", 13, 7),
        ("3.5-IV0", 14, 8),
        ("3.5-IV1", 15, 8),
        ("3.7-IV3", 15, 8),
        ("3.7-IV4", 16, 8),
        ("3.9-IV0", 17, 9),
        ("4.0-IV3", 17, 10),
        ("4.1-IV0", 17, 10),
        ("4.1-IV1", 18, 10),
    ],
)
def test_the_versions_of_requests_by_metadata_version(release: str, fetch: int, list_offsets: int) -> None:
    level = metadata_version_of_release(release).level
    assert (fetch_version(level), list_offsets_version(level)) == (fetch, list_offsets)


@pytest.mark.parametrize(
    ("topic", "partition", "count", "number"),
    [
        ("t", 0, 1, 0),
        ("t", 0, 5, 1),  # 31 · 116 = 3596
        ("t", 3, 5, 4),
        ("orders", 0, 7, 6),  # 31 · −1008770331 overflows an int32: it is −1207109189 in Java
        ("orders", 1, 7, 5),
    ],
)
def test_the_fetcher_of_a_partition_is_kafkas(topic: str, partition: int, count: int, number: int) -> None:
    assert fetcher_number(TopicPartition(topic, partition), count) == number


def test_every_fetcher_number_is_used() -> None:
    numbers = {fetcher_number(TopicPartition(f"topic-{nth}", nth), 4) for nth in range(200)}
    assert numbers == {0, 1, 2, 3}


@on_a_loop
async def test_a_lost_request_for_the_ends_of_a_log_is_no_error_of_the_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The connection is lost, which the fetcher reports in one line for all partitions."""
    given = MagicMock()
    given.clock.monotonic.return_value = 1.0
    given.config.current.integer.return_value = 1000
    given.image.return_value.metadata_version = metadata_version_of_release("4.1").level
    fetcher = ReplicaFetcher(given, leader=2, number=0, address=Address("leader", 9092))
    await fetcher.stop()  # the test does one step of its loop
    waiting = Following(MagicMock(topic="t", partition=0))
    waiting.state = FollowedState(3, 100, 3, 0).during(Phase.ASKING)
    fetcher.followings[waiting.key] = waiting
    fetcher._asking.append(waiting)
    fetcher._exchange = AsyncMock(side_effect=ConnectionResetError("lost"))
    with pytest.raises(ConnectionResetError):
        await fetcher._ask_offsets()
    assert waiting.state.phase is Phase.FETCHING and waiting.state.delayed_until_ms > 1000
    assert not caplog.records
