"""The reader of a table: it follows leaders, sends one fetch to each of them, and ends with final errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kcli.client.client import Client, Destination
from kcli.client.config import ClientConfig
from kcli.client.topic_table import reader as reader_module
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.reader import TableClosed, TableReader
from kcli.errors import ErrorCode, NetworkException, TopicAuthorizationException
from kcli.model.addresses import Address
from kcli.model.offset_at import OffsetAt
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcli.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from rigs.loops import on_a_loop, some_turns

PARTS = [TopicPartition("t", number) for number in range(3)]


class Brokers(Client):
    """Brokers whose logs are lists of values. A fetch at the end of a log waits until a record is added."""

    def __init__(self, leaders: list[int]) -> None:
        super().__init__(ClientConfig(servers=(Address("h", 1),), retry_backoff_ms=1, retry_backoff_max_ms=1))
        self.leader_ids = leaders
        self.logs: list[list[bytes]] = [[] for _ in leaders]
        self.fetches: list[tuple[int, list[int]]] = []
        """The broker and the partitions of each fetch."""
        self.problem: Callable[[int], ErrorCode | Exception | None] = lambda _: None
        self.changed = asyncio.Event()

    async def send(
        self, message: Any, key: ApiKey, *, to: int | Destination = Destination.ANY, **_: Any
    ) -> Any:
        await asyncio.sleep(0)
        if key is ApiKey.METADATA:
            return self._metadata()
        assert key is ApiKey.FETCH and isinstance(to, int)
        offsets = {each.partition: each.fetch_offset for each in message.topics[0].partitions}
        self.fetches.append((to, sorted(offsets)))
        problem = self.problem(to)
        if isinstance(problem, Exception):
            raise problem
        while not (data := self._data(to, offsets, problem)):
            self.changed.clear()
            await self.changed.wait()
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=tuple(data)),))

    def _metadata(self) -> MetadataResponse:
        parts = (
            MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in enumerate(self.leader_ids)
        )
        return MetadataResponse(topics=(MetadataResponseTopic(name="t", partitions=tuple(parts)),))

    def _data(self, to: int, offsets: dict[int, int], problem: ErrorCode | None) -> list[PartitionData]:
        found = []
        for number, offset in offsets.items():
            code = problem or (
                ErrorCode.NONE if self.leader_ids[number] == to else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            values = self.logs[number][offset:]
            if code is not ErrorCode.NONE or values:
                batch = encode_batch([Record(-1, 1, b"k", value) for value in values], base_offset=offset)
                found.append(PartitionData(partition_index=number, error_code=code, records=batch))
        return found

    def add(self, number: int, *values: bytes) -> None:
        self.logs[number] += values
        self.changed.set()


class Reading:
    """A reader of some partitions, its task, and the values that it has read."""

    def __init__(self, brokers: Brokers) -> None:
        self.values: list[bytes | None] = []
        parts = PARTS[: len(brokers.leader_ids)]
        self.reader = TableReader(brokers, brokers, parts, self._take, read_committed=False)
        self.task = asyncio.create_task(self.reader.run())

    def _take(self, change: Change) -> None:
        self.values.append(change.value)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@on_a_loop
async def test_a_slow_leader_does_not_delay_the_others() -> None:
    brokers = Brokers([1, 1, 2])
    it = Reading(brokers)
    await some_turns()
    assert sorted(brokers.fetches) == [(1, [0, 1]), (2, [2])]
    brokers.add(2, b"a")
    await it.reader.reached({PARTS[2]: 1})
    await some_turns()
    assert sorted(brokers.fetches[2:]) == [(2, [2])], "the fetch at broker 1 still waits"
    await it.end()


@on_a_loop
async def test_a_reader_follows_a_partition_to_its_new_leader() -> None:
    brokers = Brokers([1])
    it = Reading(brokers)
    brokers.add(0, b"a")
    await it.reader.reached({PARTS[0]: 1})
    await some_turns()
    brokers.leader_ids = [2]
    brokers.add(0, b"b")
    await it.reader.reached({PARTS[0]: 2})
    assert it.values == [b"a", b"b"]
    assert brokers.fetches[-1][0] == 2
    await it.end()


@on_a_loop
async def test_a_reader_waits_for_a_partition_without_a_leader() -> None:
    brokers = Brokers([-1, 1])
    it = Reading(brokers)
    brokers.add(0, b"a")
    brokers.add(1, b"b")
    await it.reader.reached({PARTS[1]: 1})
    assert it.values == [b"b"]
    brokers.leader_ids = [3, 1]
    await it.reader.reached({PARTS[0]: 1})
    assert it.values == [b"b", b"a"]
    await it.end()


@pytest.mark.parametrize("problem", [NetworkException("gone"), ErrorCode.KAFKA_STORAGE_ERROR, TimeoutError()])
def test_a_reader_continues_after_an_error_that_may_pass(problem: ErrorCode | Exception) -> None:
    problems = iter([problem, problem])

    async def main() -> None:
        brokers = Brokers([1])
        brokers.problem = lambda _: next(problems, None)
        it = Reading(brokers)
        brokers.add(0, b"a")
        await it.reader.reached({PARTS[0]: 1})
        assert len(brokers.fetches) >= 3
        await it.end()

    asyncio.run(main())


@on_a_loop
async def test_a_final_error_ends_the_reader_and_all_that_wait_for_it() -> None:
    brokers = Brokers([1])
    it = Reading(brokers)
    waiting = asyncio.create_task(it.reader.reached({PARTS[0]: 1}))
    brokers.problem = lambda _: ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await asyncio.wait([it.task])
    for wait in (waiting, it.reader.reached({PARTS[0]: 1}), it.task):
        with pytest.raises(TopicAuthorizationException, match="reading t-0 at offset 0"):
            await wait
    assert isinstance(it.reader.error, TopicAuthorizationException)


@on_a_loop
async def test_a_wait_for_a_reader_that_is_closed_ends() -> None:
    it = Reading(Brokers([1]))
    waiting = asyncio.create_task(it.reader.reached({PARTS[0]: 1}))
    await some_turns()
    await it.end()
    with pytest.raises(TableClosed):
        await waiting


@on_a_loop
async def test_a_wait_ends_if_all_records_before_the_end_were_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def starts(*_: object, **__: object) -> dict[TopicPartition, OffsetAt]:
        return {PARTS[0]: OffsetAt(offset=5)}

    monkeypatch.setattr(reader_module, "list_offsets", starts)
    brokers = Brokers([1])
    problems = iter([ErrorCode.OFFSET_OUT_OF_RANGE])
    brokers.problem = lambda _: next(problems, None)
    it = Reading(brokers)
    async with asyncio.timeout(1):
        await it.reader.reached({PARTS[0]: 5})
    assert it.reader.positions == {PARTS[0]: 5}
    await it.end()
