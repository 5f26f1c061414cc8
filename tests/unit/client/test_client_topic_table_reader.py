"""The reader of a table: it follows leaders, sends one fetch to each of them, and ends with final errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kcli.client.client import Client, Destination
from kcli.client.config import ClientConfig
from kcli.client.topic_table import reader as reader_module
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.reader import LostRecords, TableClosed, TableReader
from kcli.errors import ErrorCode, NetworkException, TimeoutException, TopicAuthorizationException
from kcli.model.addresses import Address
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import EARLIEST
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcli.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from rigs.loops import on_a_loop, some_turns, until

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
        self.cleaned: dict[int, int] = {}
        """The ends of logs whose last records were cleaned away."""
        self.takes_one = False
        """Whether an answer has the records of the first partition that has records only."""
        self.changed = asyncio.Event()

    async def send(
        self, message: Any, key: ApiKey, *, to: int | Destination = Destination.ANY, **_: Any
    ) -> Any:
        await asyncio.sleep(0)
        if key is ApiKey.METADATA:
            return self._metadata()
        assert key is ApiKey.FETCH and isinstance(to, int)
        offsets = {each.partition: each.fetch_offset for each in message.topics[0].partitions}
        self.fetches.append((to, list(offsets)))
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
            if self.takes_one and any(data.records for data in found):
                values = []
            end = max(len(self.logs[number]), self.cleaned.get(number, 0))
            if code is not ErrorCode.NONE or values or end > offset:
                batch = encode_batch([Record(-1, 1, b"k", value) for value in values], base_offset=offset)
                found.append(
                    PartitionData(
                        partition_index=number,
                        error_code=code,
                        records=batch if values else b"",
                        high_watermark=end,
                    )
                )
        return found

    def add(self, number: int, *values: bytes) -> None:
        self.logs[number] += values
        self.changed.set()


class Reading:
    """A reader of some partitions, its task, and the values that it has read."""

    def __init__(self, brokers: Brokers) -> None:
        self.events: list[bytes | str | None] = []
        """The values that were read, and the resets."""
        parts = PARTS[: len(brokers.leader_ids)]
        self.reader = TableReader(
            brokers, brokers, parts, self._take, read_committed=False, on_reset=self._reset
        )
        self.task = asyncio.create_task(self.reader.run())

    def _take(self, change: Change) -> None:
        self.events.append(change.value)

    def _reset(self, partition: TopicPartition) -> Callable[[], None]:
        self.events.append(f"reset {partition}")
        return lambda: self.events.append(f"read {partition} again")

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
    assert it.events == [b"a", b"b"]
    assert brokers.fetches[-1][0] == 2
    await it.end()


@on_a_loop
async def test_a_reader_waits_for_a_partition_without_a_leader() -> None:
    brokers = Brokers([-1, 1])
    it = Reading(brokers)
    brokers.add(0, b"a")
    brokers.add(1, b"b")
    await it.reader.reached({PARTS[1]: 1})
    assert it.events == [b"b"]
    brokers.leader_ids = [3, 1]
    await it.reader.reached({PARTS[0]: 1})
    assert it.events == [b"b", b"a"]
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


def set_bounds(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int, errors: Iterable[Exception] = ()
) -> None:
    """Makes ListOffsets return these bounds for each partition, after some errors."""
    left = iter(errors)

    async def list_offsets(
        _: Client, wanted: dict[TopicPartition, int], **__: object
    ) -> dict[TopicPartition, OffsetAt]:
        for error in left:
            raise error
        return {
            partition: OffsetAt(offset=start if spec == EARLIEST else end)
            for partition, spec in wanted.items()
        }

    monkeypatch.setattr(reader_module, "list_offsets", list_offsets)


@on_a_loop
async def test_a_wait_ends_if_all_records_before_the_end_were_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_bounds(monkeypatch, 5, 5)
    brokers = Brokers([1])
    problems = iter([ErrorCode.OFFSET_OUT_OF_RANGE])
    brokers.problem = lambda _: next(problems, None)
    it = Reading(brokers)
    async with asyncio.timeout(1):
        await it.reader.reached({PARTS[0]: 5})
    assert it.reader.positions == {PARTS[0]: 5}
    await it.end()


@on_a_loop
async def test_a_reset_is_tried_again_after_an_error_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bounds(monkeypatch, 5, 5, [TimeoutException(""), NetworkException(""), TimeoutError()])
    brokers = Brokers([1])
    brokers.problem = lambda _: ErrorCode.OFFSET_OUT_OF_RANGE if len(brokers.fetches) <= 4 else None
    it = Reading(brokers)
    async with asyncio.timeout(10):
        await it.reader.reached({PARTS[0]: 5})
    assert it.reader.error is None
    await it.end()


@on_a_loop
async def test_a_reset_with_a_final_error_ends_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bounds(monkeypatch, 5, 5, [TopicAuthorizationException("no")])
    brokers = Brokers([1])
    brokers.problem = lambda _: ErrorCode.OFFSET_OUT_OF_RANGE
    it = Reading(brokers)
    with pytest.raises(TopicAuthorizationException):
        await it.task


@on_a_loop
async def test_a_reset_ends_when_the_partition_is_read_to_its_end_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers([1])
    it = Reading(brokers)
    brokers.add(0, b"a", b"b", b"c")
    await it.reader.reached({PARTS[0]: 3})
    await some_turns()
    waiting = asyncio.create_task(it.reader.reached({PARTS[0]: 4}))
    # An election that is not clean removes a record, and another record takes its place.
    set_bounds(monkeypatch, 0, 2)
    brokers.logs[0] = [b"a", b"d"]
    problems = iter([ErrorCode.OFFSET_OUT_OF_RANGE])
    brokers.problem = lambda _: next(problems, None)
    brokers.leader_ids = [2]
    brokers.add(0)
    brokers.cleaned[0] = 4  # ends the fetch that waits
    brokers.changed.set()
    await until(lambda: it.events[3:4])
    del brokers.cleaned[0]
    with pytest.raises(LostRecords, match="the records of t-0 from 2 to 4 are lost"):
        await waiting
    assert it.events == [b"a", b"b", b"c", "reset t-0", b"a", b"d", "read t-0 again"]
    await it.reader.read_to_end()
    await it.end()


@on_a_loop
async def test_a_read_to_the_end_skips_records_that_were_cleaned_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_bounds(monkeypatch, 0, 9)
    brokers = Brokers([1, 1])
    brokers.logs = [[b"a"], []]
    brokers.cleaned = {0: 9, 1: 9}
    it = Reading(brokers)
    async with asyncio.timeout(10):
        await it.reader.read_to_end()
    assert it.events == [b"a"]
    assert it.reader.positions == {PARTS[0]: 9, PARTS[1]: 9}
    await it.end()


@on_a_loop
async def test_a_read_to_the_end_ends_with_a_batch_whose_last_records_were_cleaned_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_bounds(monkeypatch, 0, 2)
    brokers = Brokers([1])
    it = Reading(brokers)
    brokers.add(0, b"a", b"b", b"c")  # the batch ends after the end that ListOffsets has returned
    async with asyncio.timeout(10):
        await it.reader.read_to_end()
    assert it.reader.positions == {PARTS[0]: 3}
    await it.end()


@on_a_loop
async def test_a_partition_that_an_answer_had_no_room_for_is_not_skipped() -> None:
    brokers = Brokers([1, 1, 1])
    brokers.takes_one = True
    brokers.logs = [[b"a"], [b"b"], [b"c"]]
    it = Reading(brokers)
    async with asyncio.timeout(10):
        await it.reader.reached(dict.fromkeys(PARTS, 1))
    assert it.events == [b"a", b"b", b"c"]
    assert [numbers for _, numbers in brokers.fetches[:3]] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    await it.end()
