"""Clients that leave before their large request is answered: the node stops the work, unless it has an effect."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from kcli.protocol.messages import create_topics, fetch, list_offsets
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import Message
from kcli.runtime.turns import turns_given
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, create, running
from rigs.wire_client import Client

PARTS = 40_000
TURNS_MAX = 5
"""Turns of the loop from the loss of the connection to the end of the work. The whole work takes hundreds."""
TOPICS = 600

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


def is_served(key: ApiKey) -> bool:
    """Whether a task serves a request of this API at the moment."""
    return any(task.get_name() == API[key].name for task in asyncio.all_tasks())


async def leave_during(
    node: RunningNode, request: Message, key: ApiKey, version: int, *, turns: int = 1
) -> None:
    """Sends a request, and closes the connection when the work on it has had `turns` turns."""
    client = await connect(node)
    before = set(node.sockets.connections)
    begin = turns_given()
    client.post(request, key, version)
    await until(lambda: is_served(key) and turns_given() >= begin + turns)
    client.writer.transport.abort()
    await until(lambda: len(node.sockets.connections) < len(before))


async def turns_of(client: Client, request: Message, key: ApiKey, version: int) -> int:
    """Returns the turns in which a request is decoded, handled and answered."""
    begin = turns_given()
    client.post(request, key, version)
    await until(lambda: is_served(key))
    await until(lambda: not is_served(key))
    turns = turns_given() - begin
    (size,) = struct.unpack(">i", await client.reader.readexactly(4))
    await client.reader.readexactly(size)
    return turns


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize(
    ("request_", "key", "version"), [(LIST_OFFSETS, ApiKey.LIST_OFFSETS, 7), (FETCH, ApiKey.FETCH, 12)]
)
@on_a_loop
async def test_work_for_a_client_that_has_left_ends_at_the_next_turn(
    tmp_path: Path, request_: Message, key: ApiKey, version: int, share: float
) -> None:
    async with running(tmp_path) as node:
        client = await connect(node)
        await create(client, "t")
        whole = await turns_of(client, request_, key, version)
        assert whole > 10 * TURNS_MAX
        await leave_during(node, request_, key, version, turns=int(whole * share))
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
        assert not is_served(key)


@on_a_loop
async def test_work_with_an_effect_runs_to_its_end(tmp_path: Path) -> None:
    topics = tuple(
        create_topics.CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)
        for number in range(TOPICS)
    )
    request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    async with running(tmp_path) as node:
        await leave_during(node, request, ApiKey.CREATE_TOPICS, 7)
        await until(lambda: len(node.metadata.topics) == TOPICS)
