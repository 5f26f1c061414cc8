"""The messages of a large request are freed in turns. Memory blocks are counted, not seconds."""

from __future__ import annotations

import asyncio
import gc
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.protocol.messages import fetch, list_offsets, metadata
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from rigs.loops import on_a_loop
from rigs.node import connect, create, running

PARTS = 30_000
BLOCKS_PER_TURN_MAX = 12_500
"""Blocks that one turn may free. A large message has 30,000 parts with several blocks each."""

LIST_OFFSETS = list_offsets.ListOffsetsRequest(
    replica_id=-1,
    topics=(
        list_offsets.ListOffsetsTopic(
            name="t",
            partitions=tuple(
                list_offsets.ListOffsetsPartition(partition_index=number, timestamp=-1)
                for number in range(PARTS)
            ),
        ),
    ),
)
FETCH = fetch.FetchRequest(
    max_wait_ms=0,
    min_bytes=1,
    max_bytes=1_000_000,
    session_epoch=-1,
    topics=tuple(
        fetch.FetchTopic(topic=f"unknown-{number}", partitions=(fetch.FetchPartition(partition=0),))
        for number in range(PARTS)
    ),
)
METADATA = metadata.MetadataRequest(
    topics=tuple(metadata.MetadataRequestTopic(name=f"unknown-{number}") for number in range(PARTS)),
    allow_auto_topic_creation=False,
)


class FreedBlocks:
    """The most memory blocks that one iteration of the event loop has freed."""

    def __init__(self) -> None:
        self.most = 0
        self._blocks = sys.getallocatedblocks()
        self._is_over = False
        self._turn()

    def _turn(self) -> None:
        blocks = sys.getallocatedblocks()
        self.most = max(self.most, self._blocks - blocks)
        self._blocks = blocks
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._is_over = True


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Keeps the garbage collector out of the test, because garbage of earlier tests would count as freed blocks."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    ("request_", "key", "version"),
    [
        (LIST_OFFSETS, ApiKey.LIST_OFFSETS, 7),
        (FETCH, ApiKey.FETCH, 12),
        (METADATA, ApiKey.METADATA, 12),
    ],
    ids=["list offsets", "fetch", "metadata"],
)
@on_a_loop
async def test_no_turn_frees_a_large_message(
    tmp_path: Path, request_: Message, key: ApiKey, version: int
) -> None:
    async with running(tmp_path) as node:
        client = await connect(node)
        await create(client, "t")
        blocks = FreedBlocks()
        client.post(request_, key, version)
        (size,) = struct.unpack(">i", await client.reader.readexactly(4))
        await client.reader.readexactly(size)
        for _ in range(1000):
            await asyncio.sleep(0)
        blocks.stop()
        assert blocks.most <= BLOCKS_PER_TURN_MAX
