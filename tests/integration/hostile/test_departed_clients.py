"""Clients that leave before their large request is answered: the node stops the work, unless it has an effect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.protocol.messages import create_topics, fetch, list_offsets
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, create, running

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


def working() -> set[str]:
    """The names of the coroutines that serve large requests at the moment."""
    names = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}
    return names & {"Dispatch._serve_decoded", "_answer_later", "_flat", "_encoded_later"}


async def leave_during(node: RunningNode, request: Message, key: ApiKey, version: int, phase: str) -> None:
    """Sends a request, and closes the connection when `phase` of its work has begun."""
    client = await connect(node)
    before = set(node.sockets.connections)
    client.post(request, key, version)
    await until(lambda: phase in working())
    client.writer.transport.abort()
    await until(lambda: len(node.sockets.connections) < len(before))


@pytest.mark.parametrize(
    ("request_", "key", "version", "phase"),
    [
        (LIST_OFFSETS, ApiKey.LIST_OFFSETS, 7, "Dispatch._serve_decoded"),
        (LIST_OFFSETS, ApiKey.LIST_OFFSETS, 7, "_answer_later"),
        (LIST_OFFSETS, ApiKey.LIST_OFFSETS, 7, "_encoded_later"),
        (FETCH, ApiKey.FETCH, 12, "_flat"),
        (FETCH, ApiKey.FETCH, 12, "_encoded_later"),
    ],
)
@on_a_loop
async def test_work_for_a_client_that_has_left_ends_at_the_next_turn(
    tmp_path: Path, request_: Message, key: ApiKey, version: int, phase: str
) -> None:
    async with running(tmp_path) as node:
        await create(await connect(node), "t")
        await leave_during(node, request_, key, version, phase)
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
        assert not working()


@on_a_loop
async def test_work_with_an_effect_runs_to_its_end(tmp_path: Path) -> None:
    topics = tuple(
        create_topics.CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)
        for number in range(TOPICS)
    )
    request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    async with running(tmp_path) as node:
        await leave_during(node, request, ApiKey.CREATE_TOPICS, 7, "Dispatch._serve_decoded")
        await until(lambda: len(node.metadata.topics) == TOPICS)
