"""A whole node in this process with real sockets and a real disk, and the requests that most of its tests send."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from kcli.config.broker import BrokerConfig
from kcli.config.start_up import node_config
from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.messages import create_topics, fetch, list_offsets, produce
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from rigs import wire_client
from rigs.loops import PATIENCE_S
from rigs.wire_client import Client


def config_of(directory: Path | str, /, **overrides: str) -> BrokerConfig:
    """The configuration of a node in `directory`. In the names of `overrides`, an underscore stands for a dot."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory),
        "log.index.size.max.bytes": "65536",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    properties |= {name.replace("_", "."): value for name, value in overrides.items()}
    return node_config(properties, {})


class RunningNode(Node):
    """A node, and the clients that its test has connected to it."""

    clients: list[Client]

    def port(self, listener: str = "PLAINTEXT") -> int:
        """The port that this listener was given."""
        return self.sockets.listeners[listener].port


@contextlib.asynccontextmanager
async def running(directory: Path | str, /, **overrides: str) -> AsyncIterator[RunningNode]:
    """A node that serves, until the block ends."""
    async with _serving(config_of(directory, **overrides), clean=True) as node:
        yield node


@contextlib.asynccontextmanager
async def crashing(directory: Path | str, /, **overrides: str) -> AsyncIterator[RunningNode]:
    """A node that serves. At the end of the block, its directory is in the state after a crash."""
    async with _serving(config_of(directory, **overrides), clean=False) as node:
        yield node


@contextlib.asynccontextmanager
async def _serving(config: BrokerConfig, *, clean: bool) -> AsyncIterator[RunningNode]:
    node = RunningNode(
        config,
        clock=SystemClock(),
        disk=SystemDisk(),
        network=SystemNetwork(),
        rng=SystemRng(7),
    )
    await node.start()
    node.clients = []
    try:
        yield node
    finally:
        for client in node.clients:
            client.close()
        await node.stop(clean=clean)


Story = Callable[[RunningNode], Awaitable[None]]


def with_node(directory: Path | str, story: Story, /, **overrides: str) -> None:
    """Runs the function `story` with a new node."""

    async def main() -> None:
        async with running(directory, **overrides) as node:
            await asyncio.wait_for(story(node), PATIENCE_S)

    asyncio.run(main())


async def connect(
    node: RunningNode, listener: str = "PLAINTEXT", tls: ssl.SSLContext | None = None
) -> Client:
    """A client of the node, closed before the node stops."""
    client = await wire_client.connect(node.port(listener), tls)
    node.clients.append(client)
    return client


async def create(client: Client, name: str, partitions: int = 1, **configs: str) -> uuid.UUID:
    """Creates a topic and returns its id. In the names of `configs`, an underscore stands for a dot."""
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=tuple(
            create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )
    request = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)
    response = await client.call(request, ApiKey.CREATE_TOPICS, 7)
    (created,) = response.topics
    assert created.error_code is ErrorCode.NONE, created.error_message
    topic_id: uuid.UUID = created.topic_id
    return topic_id


async def send(
    client: Client, topic: str, records: bytes, partition: int = 0
) -> produce.PartitionProduceResponse:
    """Produces a batch with acks=all."""
    data = produce.PartitionProduceData(index=partition, records=records)
    request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),),
    )
    response: produce.ProduceResponse = await client.call(request, ApiKey.PRODUCE, 9)
    return response.responses[0].partition_responses[0]


async def read(client: Client, topic: str, offset: int = 0, partition: int = 0) -> fetch.PartitionData:
    """Fetches at most a megabyte, without waiting."""
    wants = fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1_000_000)
    request = fetch.FetchRequest(max_wait_ms=0, topics=(fetch.FetchTopic(topic=topic, partitions=(wants,)),))
    response: fetch.FetchResponse = await client.call(request, ApiKey.FETCH, 12)
    return response.responses[0].partitions[0]


def values(row: fetch.PartitionData) -> list[Any]:
    """The values of all records of a partition's response."""
    raw = row.records or b""
    return [
        record.value
        for position, header in iter_batches(raw)
        for record in read_records(raw[position : position + header.size_bytes])
    ]


async def offset_at(
    client: Client,
    topic: str,
    timestamp: int,
    *,
    version: int = 10,
    partition: int = 0,
    isolation: int = 0,
) -> list_offsets.ListOffsetsPartitionResponse:
    """Requests the first offset at or after a time, or the offset for one of Kafka's negative timestamps."""
    part = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(part,)),),
    )
    response: list_offsets.ListOffsetsResponse = await client.call(request, ApiKey.LIST_OFFSETS, version)
    return response.topics[0].partitions[0]
