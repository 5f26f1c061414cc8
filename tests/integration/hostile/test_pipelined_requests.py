"""Clients that send thousands of requests in one write: the others are served in between."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from kcli.protocol.messages import api_versions, fetch, metadata, produce
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.server.network.request_line import BYTES_PER_REQUEST_MIN, BYTES_PER_TURN
from rigs.data_path import BrokerRig, batch, topic_image
from rigs.loops import PATIENCE_S, until
from rigs.wire_client import Client

TOPIC = topic_image("t", 1)
REQUESTS_PER_TURN = BYTES_PER_TURN // BYTES_PER_REQUEST_MIN


def run(directory: Path, scenario: Callable[[BrokerRig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with BrokerRig(directory, TOPIC, topic_image("wide", 500)) as rig:
            await scenario(rig)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def produce_one(correlation_id: int) -> bytes:
    data = produce.PartitionProduceData(index=0, records=batch(b"x"))
    topics = (produce.TopicProduceData(name="t", topic_id=TOPIC.topic_id, partition_data=(data,)),)
    request = produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
    return codec.encode_request(request, ApiKey.PRODUCE, 12, correlation_id, "test")


async def next_frame(client: Client) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(client.reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(client.reader.readexactly(size), PATIENCE_S)


def test_a_parked_fetch_is_answered_after_a_few_of_many_produces(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        wants = (fetch.FetchPartition(partition=0, partition_max_bytes=1_000_000),)
        topics = (fetch.FetchTopic(topic="t", topic_id=TOPIC.topic_id, partitions=wants),)
        waits = fetch.FetchRequest(
            max_wait_ms=60_000, min_bytes=1, max_bytes=10_000_000, session_epoch=-1, topics=topics
        )
        consumer = await rig.connect()
        answer = asyncio.ensure_future(consumer.call(waits, ApiKey.FETCH, 12))
        leader = rig.replicas.get("t", 0)
        await until(lambda: leader.parked_fetches)
        producer = await rig.connect()
        producer.writer.write(b"".join(map(produce_one, range(1200))))
        response = await asyncio.wait_for(answer, PATIENCE_S)
        records = len(response.responses[0].partitions[0].records) // len(batch(b"x"))
        assert 1 <= records <= 2 * REQUESTS_PER_TURN
        numbers = [int.from_bytes((await next_frame(producer))[:4], "big") for _ in range(1200)]
        assert numbers == list(range(1200))

    run(tmp_path, scenario)


def test_a_neighbour_is_answered_before_the_pipelines_of_others(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        neighbour = await rig.connect()
        hello = api_versions.ApiVersionsRequest(client_software_name="n", client_software_version="1")
        all_topics = codec.encode_request(
            metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12, 7, "test"
        )
        await neighbour.call(hello, ApiKey.API_VERSIONS, 3)
        answered = 0
        clients = [await rig.connect() for _ in range(10)]

        async def read_all(client: Client) -> None:
            nonlocal answered
            for _ in range(300):
                await next_frame(client)
                answered += 1

        readers = [asyncio.ensure_future(read_all(client)) for client in clients]
        for client in clients:
            client.writer.write(all_topics * 300)
        await until(lambda: answered)
        pings = 0
        worst = 0
        while not all(reader.done() for reader in readers):
            before = answered
            await neighbour.call(hello, ApiKey.API_VERSIONS, 3)
            worst = max(worst, answered - before)
            pings += 1
        # A ping takes a few iterations of the event loop, because the neighbour runs on it too.
        assert worst <= 5 * REQUESTS_PER_TURN
        assert pings > 10
        await asyncio.gather(*readers)

    run(tmp_path, scenario)


def test_a_connection_keeps_no_more_than_one_read_of_unserved_requests(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        wants = (fetch.FetchPartition(partition=0, partition_max_bytes=1_000_000),)
        topics = (fetch.FetchTopic(topic="t", topic_id=TOPIC.topic_id, partitions=wants),)
        waits = fetch.FetchRequest(
            max_wait_ms=600_000, min_bytes=1, max_bytes=10_000_000, session_epoch=-1, topics=topics
        )
        client.post(waits, ApiKey.FETCH, 12)
        hello = codec.encode_request(
            api_versions.ApiVersionsRequest(client_software_name="n", client_software_version="1"),
            ApiKey.API_VERSIONS, 3, 7, "test",
        )  # fmt: skip
        client.writer.write(hello * 20_000)
        (connection,) = rig.sockets.connections
        await until(lambda: connection.held_back_count)
        assert 0 < connection.held_back_count <= len(rig.sockets.shared.frames.scratch) // len(hello)
        leader = rig.replicas.get("t", 0)
        leader.wake_all()
        for _ in range(20_001):
            await next_frame(client)
        assert connection.held_back_count == 0

    run(tmp_path, scenario)
