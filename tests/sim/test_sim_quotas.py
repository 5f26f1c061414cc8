"""Clients with quotas, on a simulated clock: each takes about as long as its quota says, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.config import ClientConfig
from kcli.client.connection import Connection
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import metadata as md
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BROKER_PORT, SimCluster

TOPIC = "t"
RATE = 100_000
BATCH_SIZE = 20_000
# The average is over ten whole windows of a second and a part of the next: as much goes through before a client is
# held back.
BURST_SECONDS = 10
USERS: Mapping[str, str | None] = {"user": None}
# Of the network, and of the requests themselves.
SLACK_SECONDS = 2.0


class Rig:
    def __init__(self, cluster: SimCluster, admin: AdminClient) -> None:
        self.cluster = cluster
        self.admin = admin

    async def connect(self, client_id: str = "client") -> Connection:
        host = self.cluster.network.host(client_id)
        return await Connection.open(host, Address(self.cluster.node.name, BROKER_PORT), client_id, 15)

    async def limit(self, entity: Mapping[str, str | None], **quotas: float | None) -> None:
        results = await self.admin.alter_client_quotas([(entity, quotas)])
        assert list(results.values()) == [None]

    @property
    def now(self) -> float:
        return self.cluster.loop.time()


def play(story: Callable[[Rig], Awaitable[None]], **overrides: str) -> None:
    async def main(loop: SimLoop) -> None:
        async with SimCluster(
            1, overrides={name.replace("_", "."): value for name, value in overrides.items()}
        ) as cluster:
            assert await cluster.node.start()
            servers = (Address(cluster.node.name, BROKER_PORT),)
            config = ClientConfig(servers=servers, request_timeout_ms=30_000, default_api_timeout_ms=60_000)
            async with AdminClient(config, cluster.network.host("admin")) as admin:
                await admin.create_topics([NewTopic(name=TOPIC, partitions=1, replication_factor=1)])
                await story(Rig(cluster, admin))

    simulate(1, main)


def batch() -> bytes:
    return encode_batch([Record(value=bytes(BATCH_SIZE))], codec=Codec.NONE)


async def produce(connection: Connection, *, acks: int = -1) -> Any:
    data = p.PartitionProduceData(index=0, records=batch())
    request = p.ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=(p.TopicProduceData(name=TOPIC, partition_data=(data,)),)
    )
    response = await connection.request(request, ApiKey.PRODUCE, version=9, timeout=600)
    (topic,) = response.responses
    assert topic.partition_responses[0].error_code is ErrorCode.NONE
    return response


async def write(connection: Connection, total: int) -> list[int]:
    """Sends that many bytes; the throttle times it was told."""
    return [(await produce(connection)).throttle_time_ms for _ in range(total // BATCH_SIZE)]


async def read(connection: Connection, size_max: int = RATE) -> list[tuple[int, int]]:
    """Everything there is: (bytes, throttle time) of each answer."""
    answers, offset, session_epoch, session_id = [], 0, 0, 0
    while True:
        wanted = f.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size_max)
        request = f.FetchRequest(
            replica_id=-1, max_wait_ms=10, min_bytes=1, max_bytes=10**9, session_id=session_id,
            session_epoch=session_epoch, topics=(f.FetchTopic(topic=TOPIC, partitions=(wanted,)),),
        )  # fmt: skip
        response = await connection.request(request, ApiKey.FETCH, version=11, timeout=600)
        assert response.error_code is ErrorCode.NONE
        session_id = response.session_id
        session_epoch = session_epoch + 1 if session_id else 0
        records = b"".join(part.records or b"" for topic in response.responses for part in topic.partitions)
        answers.append((len(records), response.throttle_time_ms))
        for _, header in iter_batches(records):
            offset = header.next_offset
        if not records and not response.throttle_time_ms:
            return answers


def test_a_producer_takes_as_long_as_its_quota_says() -> None:
    async def story(rig: Rig) -> None:
        connection = await rig.connect()
        began = rig.now
        assert set(await write(connection, 20 * RATE)) == {0}
        assert rig.now - began < SLACK_SECONDS
        await rig.limit(USERS, producer_byte_rate=RATE)
        began = rig.now
        throttled = await write(connection, 60 * RATE)
        assert 60 - BURST_SECONDS - SLACK_SECONDS < rig.now - began < 60
        assert throttled[0] == 0
        assert sum(throttled) / 1000 == pytest.approx(rig.now - began, abs=SLACK_SECONDS)
        await rig.limit(USERS, producer_byte_rate=None)
        began = rig.now
        assert set(await write(await rig.connect(), 20 * RATE)) == {0}
        assert rig.now - began < SLACK_SECONDS

    play(story)


def test_without_acks_the_connection_is_held_back_all_the_same() -> None:
    async def story(rig: Rig) -> None:
        await rig.limit(USERS, producer_byte_rate=RATE)
        connection = await rig.connect()
        sent = [asyncio.ensure_future(produce(connection, acks=0)) for _ in range(30 * RATE // BATCH_SIZE)]
        await asyncio.sleep(0)
        began = rig.now
        await connection.request(md.MetadataRequest(topics=()), ApiKey.METADATA, version=9, timeout=600)
        assert 30 - BURST_SECONDS - SLACK_SECONDS < rig.now - began < 30
        for each in sent:
            each.cancel()

    play(story)


def test_a_consumer_takes_as_long_as_its_quota_says() -> None:
    async def story(rig: Rig) -> None:
        await write(await rig.connect(), 30 * RATE)
        await rig.limit({"client-id": "reader"}, consumer_byte_rate=RATE)
        connection = await rig.connect("reader")
        began = rig.now
        answers = await read(connection)
        assert sum(size for size, _ in answers) >= 30 * RATE
        # A throttled answer has no records.
        assert all(not size for size, throttle_ms in answers if throttle_ms)
        assert 30 - BURST_SECONDS - SLACK_SECONDS < rig.now - began < 30 + SLACK_SECONDS
        # However much is asked for: no answer has more than the quota of all windows, but one batch.
        assert max(size for size, _ in await read(connection, 10**9)) <= BURST_SECONDS * RATE
        began = rig.now
        await read(await rig.connect("somebody else"))
        assert rig.now - began < SLACK_SECONDS

    play(story)


def test_clients_of_one_user_share_its_quota_and_clients_of_a_default_do_not() -> None:
    async def both(rig: Rig) -> float:
        began = rig.now
        for name in ("one", "two"):
            await write(await rig.connect(name), 9 * RATE)
        return rig.now - began

    async def story(rig: Rig) -> None:
        await rig.limit({"user": "ANONYMOUS"}, producer_byte_rate=RATE)
        assert 2 * 9 - BURST_SECONDS - SLACK_SECONDS < await both(rig) < 2 * 9
        await rig.limit({"user": "ANONYMOUS"}, producer_byte_rate=None)
        await rig.limit({"client-id": None}, producer_byte_rate=RATE)
        assert await both(rig) < SLACK_SECONDS

    play(story)


def test_windows_are_those_of_the_configuration() -> None:
    async def story(rig: Rig) -> None:
        await rig.limit(USERS, producer_byte_rate=RATE)
        began = rig.now
        await write(await rig.connect(), 20 * RATE)
        assert 20 - 4 - SLACK_SECONDS < rig.now - began < 20

    play(story, quota_window_num="3", quota_window_size_seconds="2")


def creation(name: str, partitions: int) -> ct.CreateTopicsRequest:
    topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return ct.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)


def test_partitions_are_paid_for() -> None:
    async def story(rig: Rig) -> None:
        await rig.limit(USERS, controller_mutation_rate=1)
        connection = await rig.connect()

        async def ask(message: object, key: ApiKey, version: int) -> Any:
            return await connection.request(message, key, version=version, timeout=600)

        # Eleven are in the bucket, and what is taken at once may be more.
        response = await ask(creation("a", 15), ApiKey.CREATE_TOPICS, 7)
        assert response.topics[0].error_code is ErrorCode.NONE
        assert response.throttle_time_ms == 0
        response = await ask(creation("b", 1), ApiKey.CREATE_TOPICS, 7)
        assert response.topics[0].error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 3_000 < response.throttle_time_ms <= 4_000
        # Held back for so long, it is let in again.
        began = rig.now
        response = await ask(creation("b", 3), ApiKey.CREATE_TOPICS, 7)
        assert response.topics[0].error_code is ErrorCode.NONE
        assert 3 < rig.now - began < 3 + SLACK_SECONDS
        growing = cp.CreatePartitionsTopic(name="b", count=4, assignments=None)
        request = cp.CreatePartitionsRequest(topics=(growing,), timeout_ms=30_000)
        refused = (await ask(request, ApiKey.CREATE_PARTITIONS, 3)).results[0]
        assert refused.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="a"),), timeout_ms=30_000)
        deleted = await ask(request, ApiKey.DELETE_TOPICS, 6)
        assert deleted.responses[0].error_code is ErrorCode.NONE
        refused = (await ask(request, ApiKey.DELETE_TOPICS, 6)).responses[0]
        assert refused.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # A version that does not know the error is served, and waits.
        response = await ask(creation("c", 5), ApiKey.CREATE_TOPICS, 5)
        assert response.topics[0].error_code is ErrorCode.NONE
        assert response.throttle_time_ms > 15_000
        began = rig.now
        await ask(md.MetadataRequest(topics=()), ApiKey.METADATA, 9)
        assert rig.now - began > 15

    play(story)


def test_a_client_pays_for_topics_that_its_metadata_requests_create() -> None:
    async def story(rig: Rig) -> None:
        await rig.limit(USERS, controller_mutation_rate=1)
        connection = await rig.connect()
        wanted = md.MetadataRequest(
            topics=(md.MetadataRequestTopic(name="auto"),), allow_auto_topic_creation=True
        )
        for _ in range(2):  # the second time it is there
            response = await connection.request(wanted, ApiKey.METADATA, version=9, timeout=600)
            await asyncio.sleep(1)
        assert response.topics[0].error_code is ErrorCode.NONE
        refused = await connection.request(creation("a", 1), ApiKey.CREATE_TOPICS, version=7, timeout=600)
        assert refused.topics[0].error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED

    play(story, num_partitions="15")


def test_quotas_outlive_a_restart() -> None:
    async def story(rig: Rig) -> None:
        await rig.limit(USERS, producer_byte_rate=RATE)
        await rig.cluster.node.stop()
        assert await rig.cluster.node.start()
        began = rig.now
        await write(await rig.connect(), 20 * RATE)
        assert 20 - BURST_SECONDS - SLACK_SECONDS < rig.now - began < 20

    play(story)


def test_request_time_is_charged_to_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a simulated clock no work takes time, so here every look at the clock does: 10 ms."""

    async def story(rig: Rig) -> None:
        node = rig.cluster.node.running
        assert node is not None
        connection = await rig.connect()

        async def ask() -> Any:
            return await connection.request(
                md.MetadataRequest(topics=()), ApiKey.METADATA, version=9, timeout=600
            )

        await rig.limit(USERS, request_percentage=1)
        spent = 0.0

        def monotonic() -> float:
            nonlocal spent
            spent += 0.01
            return rig.now + spent

        monkeypatch.setattr(node.listeners.quotas.clock, "monotonic", monotonic)
        throttled = [(await ask()).throttle_time_ms for _ in range(30)]
        assert throttled[0] == 0
        # However much was used, a client is not held back for more than a window.
        assert throttled[-1] == 1_000

    play(story)
