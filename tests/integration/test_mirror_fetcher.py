"""The fetches of a copying task, and its offset syncs, with a real broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.config import ClientConfig
from kcli.client.topic_table.writers import IdempotentWriter
from kcli.connectors.mirror.copying import source_partition, source_records
from kcli.connectors.mirror.fetcher import Fetcher, FetchSettings
from kcli.connectors.mirror.internal_topics import create_internal_topic
from kcli.connectors.mirror.offset_syncs import OffsetSyncQueue
from kcli.connectors.mirror.records import OffsetSync
from kcli.connectors.mirror.sync_writer import OffsetSyncWriter
from kcli.formats.connect.errors import ConnectException
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from rigs import node
from rigs.loops import PATIENCE_S, on_a_loop

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NO_WAIT = {"fetch.max.wait.ms": "5"}


class World:
    def __init__(self, port: int, stack: contextlib.AsyncExitStack) -> None:
        self._port = port
        self._stack = stack

    async def client(self) -> AdminClient:
        config = ClientConfig(
            servers=(Address("127.0.0.1", self._port),), retry_backoff_ms=5, retry_backoff_max_ms=20
        )
        return await self._stack.enter_async_context(AdminClient(config))

    async def fetcher(self, positions: Mapping[TopicPartition, int | None], **properties: str) -> Fetcher:
        settings = FetchSettings.of(
            {**NO_WAIT, **{key.replace("_", "."): text for key, text in properties.items()}}
        )
        fetcher = Fetcher(await self.client(), await self.client(), positions, settings)
        self._stack.push_async_callback(fetcher.close)
        return fetcher

    async def create(self, *topics: str) -> None:
        new = [NewTopic(name=topic, partitions=2, replication_factor=1) for topic in topics]
        errors = await (await self.client()).create_topics(new)
        assert not any(errors.values()), errors

    async def delete(self, topic: str) -> None:
        await (await self.client()).delete_topics([topic])

    async def produce(self, partition: TopicPartition, *values: str) -> None:
        writer = IdempotentWriter(await self.client())
        await writer.write({partition: [Record(timestamp_ms=7, value=value.encode()) for value in values]})


@contextlib.asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(node.running(directory))
        it = World(broker.port(), stack)
        await it.create("t")
        yield it


async def values(fetcher: Fetcher, count: int) -> list[str]:
    """The values of the next `count` records, each with its partition and offset."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            for part in await fetcher.next(0.5):
                for record in source_records(part, source_partition("A", part.partition), "A.t"):
                    assert isinstance(record.value, bytes)
                    offset = record.source_offset["offset"]
                    found.append(f"{record.partition}:{offset}:{record.value.decode()}")
    return sorted(found)


@on_a_loop
async def test_partitions_are_read_from_their_positions(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.produce(T0, "a", "b", "c")
        await it.produce(T1, "x")
        fetcher = await it.fetcher({T0: 1, T1: None, TopicPartition("missing", 0): None})
        assert await values(fetcher, 3) == ["0:1:b", "0:2:c", "1:0:x"]
        await it.produce(T1, "y")
        assert await values(fetcher, 1) == ["1:1:y"]
        assert await fetcher.next(0.01) == []


@on_a_loop
async def test_a_position_out_of_range_is_reset(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.produce(T0, "a", "b", "c")
        await (await it.client()).delete_records({T0: 1})
        assert await values(await it.fetcher({T0: 0}), 2) == ["0:1:b", "0:2:c"]
        latest = await it.fetcher({T0: 0}, auto_offset_reset="latest")
        assert await latest.next(0.1) == []
        await it.produce(T0, "d")
        assert await values(latest, 1) == ["0:3:d"]
        strict = await it.fetcher({T0: 0}, auto_offset_reset="none")
        with pytest.raises(ConnectException, match="The position in t-0 is missing or out of range"):
            await values(strict, 1)


@on_a_loop
async def test_a_topic_that_is_created_again_is_read_from_its_start(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.produce(T0, "a")
        fetcher = await it.fetcher({T0: None, T1: None})
        assert await values(fetcher, 1) == ["0:0:a"]
        await it.delete("t")
        await it.create("t")
        await it.produce(T0, "b", "c", "d")  # the old position is inside the new topic
        assert await values(fetcher, 3) == ["0:0:b", "0:1:c", "0:2:d"]


@on_a_loop
async def test_offset_syncs_are_written_in_their_order(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        client = await it.client()
        for _ in range(2):  # the second time, the topic exists
            await create_internal_topic(client, "syncs", 1)
        with pytest.raises(ConnectException, match="create/find topic 'other'"):
            await create_internal_topic(client, "other", 5)
        writer = OffsetSyncWriter(client, "syncs", OffsetSyncQueue(lag_max=100))
        running = asyncio.create_task(writer.run())
        try:
            writer.copied([(T0, 0, 10), (T0, 1, 11), (T1, 0, 0)], is_commit=False)
            writer.copied([(T0, 2, 12)], is_commit=True)
            fetcher = await it.fetcher({TopicPartition("syncs", 0): None})
            syncs: list[OffsetSync] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(syncs) < 3:
                    for part in await fetcher.next(0.5):
                        records = source_records(part, source_partition("A", part.partition), "")
                        syncs += [OffsetSync.parse(record.key, record.value) for record in records]
        finally:
            running.cancel()
        assert syncs == [OffsetSync(T0, 0, 10), OffsetSync(T1, 0, 0), OffsetSync(T0, 2, 12)]


@pytest.mark.parametrize(
    ("key", "value"),
    [("isolation.level", "none"), ("auto.offset.reset", "middle"), ("max.poll.records", "many")],
)
def test_invalid_keys_of_the_consumer_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConnectException, match=f"Invalid value {value} for configuration"):
        FetchSettings.of({key: value})
