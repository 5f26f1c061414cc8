"""Fetch sessions of many partitions: unchanged partitions are not read again, and no change is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.model.ids import Offset
from kcli.protocol.messages import delete_records, fetch
from kcli.protocol.wire.api import ApiKey
from kcli.server.beans.purgatory_beans import purgatory_beans
from kcli.server.handlers.shared import partition_reads
from kcli.server.partitions.fetch_sessions import WATCHED_FROM, FetchSession
from rigs.data_path import BrokerRig, batch, image_of, topic_image
from rigs.leader_appends import append_batch
from rigs.loops import PATIENCE_S, until
from rigs.replication import refused
from rigs.wire_client import Client

COUNT = WATCHED_FROM + 4
TOPIC = topic_image("t", COUNT, replicas=(1, 2))
MAX_WAIT = 600_000


class Reader:
    """A client with a session of all partitions. It remembers the offsets that it must fetch next."""

    def __init__(
        self, client: Client, *, replica: int = -1, partitions: int = COUNT, leader_epoch: int = -1
    ) -> None:
        self.leader_epoch = leader_epoch
        self.client = client
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.moved = list(self.offsets)
        self.state = fetch.ReplicaState(replica_id=replica)
        self.session_id = self.epoch = 0

    async def fetch(self, max_wait_ms: int = 0) -> dict[int, fetch.PartitionData]:
        """The partitions of the response by number."""
        parts = tuple(
            fetch.FetchPartition(
                partition=index,
                fetch_offset=self.offsets[index],
                log_start_offset=0,
                current_leader_epoch=self.leader_epoch,
                partition_max_bytes=1_000_000,
            )
            for index in self.moved
        )
        request = fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=10_000_000,
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_state=self.state,
            topics=(fetch.FetchTopic(topic_id=TOPIC.topic_id, partitions=parts),) if parts else (),
        )
        response = await self.client.call(request, ApiKey.FETCH, 17)
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        rows = {row.partition_index: row for topic in response.responses for row in topic.partitions}
        self.moved = [index for index, row in rows.items() if row.records]
        for index in self.moved:
            self.offsets[index] += 1  # each batch of these tests has one record
        return rows


def run(directory: Path, scenario: Callable[[BrokerRig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with BrokerRig(directory, TOPIC) as rig:
            await asyncio.wait_for(scenario(rig), 2 * PATIENCE_S)

    asyncio.run(main())


def append(rig: BrokerRig, partition: int, *, committed: bool = True) -> None:
    leader = rig.replicas.get("t", partition)
    append_batch(leader, bytearray(batch(b"v")), acks=1, now_ms=1_700_000_000_000)
    if committed:
        commit(rig, partition)


def commit(rig: BrokerRig, partition: int) -> None:
    leader = rig.replicas.get("t", partition)
    leader.follower_fetched(2, log_start_offset=Offset(0), log_end_offset=leader.log.log_end_offset)


def session_of(rig: BrokerRig, reader: Reader) -> FetchSession:
    return rig.fetch_sessions._sessions[reader.session_id]


async def settled(rig: BrokerRig, **options: Any) -> Reader:
    """A reader whose partitions are all quiet."""
    reader = Reader(await rig.connect(), **options)
    assert len(await reader.fetch()) == COUNT
    assert await reader.fetch() == {}
    assert not session_of(rig, reader).active
    return reader


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the partitions that were read."""
    read_one = partition_reads.read_partition
    numbers: list[int] = []

    def reading(context: Any, scope: Any, target: Any, *limits: Any, **options: Any) -> Any:
        numbers.append(target.wants.partition)
        return read_one(context, scope, target, *limits, **options)

    monkeypatch.setattr(partition_reads, "read_partition", reading)
    return numbers


@pytest.mark.parametrize(("replica", "told"), [(2, [3]), (-1, [])])
def test_a_follower_that_lists_a_partition_hears_of_it(tmp_path: Path, replica: int, told: list[int]) -> None:
    """The follower may have ignored the last answer. Without this, its high watermark could stay behind forever."""

    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig, replica=replica)
        reader.moved = [3]
        assert list(await reader.fetch()) == told

    run(tmp_path, scenario)


def test_only_changed_partitions_are_read(tmp_path: Path, reads: list[int]) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        reads.clear()
        assert await reader.fetch() == {}
        assert reads == []
        append(rig, 3)
        assert list(await reader.fetch()) == [3]
        assert reads == [3]
        assert await reader.fetch() == {}
        assert reads == [3, 3]
        assert await reader.fetch() == {}
        assert reads == [3, 3]

    run(tmp_path, scenario)


def test_an_append_to_a_quiet_partition_ends_the_wait(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        for partition in (7, 7, 2):
            waiting = asyncio.ensure_future(reader.fetch(MAX_WAIT))
            await until(lambda: parked(rig, reader))
            append(rig, partition)
            rows = await asyncio.wait_for(waiting, PATIENCE_S)
            assert [index for index, row in rows.items() if row.records] == [partition]

    run(tmp_path, scenario)


def parked(rig: BrokerRig, reader: Reader) -> bool:
    waiting = session_of(rig, reader).parked
    return waiting is not None and not waiting.finished


def test_a_commit_wakes_a_consumer_of_a_quiet_partition(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        waiting = asyncio.ensure_future(reader.fetch(MAX_WAIT))
        await until(lambda: parked(rig, reader))
        append(rig, 5, committed=False)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        commit(rig, 5)
        rows = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (list(rows), rows[5].high_watermark) == ([5], 1)

    run(tmp_path, scenario)


def test_a_follower_learns_of_a_commit_by_its_next_fetch_and_does_not_wake(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig, replica=2)
        append(rig, 5, committed=False)
        rows = await reader.fetch(MAX_WAIT)
        assert (bool(rows[5].records), rows[5].high_watermark) == (True, 0)
        waiting = asyncio.ensure_future(reader.fetch(200))
        await until(lambda: parked(rig, reader))
        assert rig.replicas.get("t", 5).log.high_watermark == 1, "this fetch commits the record"
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await waiting
        waiting = asyncio.ensure_future(reader.fetch(200))
        rows = await waiting
        assert session_of(rig, reader).targets[TOPIC.topic_id, 5].told_high_watermark == 1

    run(tmp_path, scenario)


def test_the_end_of_a_leadership_wakes_and_is_reported(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        waiting = asyncio.ensure_future(reader.fetch(MAX_WAIT))
        await until(lambda: parked(rig, reader))
        rig.replicas._stop_leading(("t", 4))
        rows = await asyncio.wait_for(waiting, PATIENCE_S)
        assert list(rows) == [4]
        assert len(session_of(rig, reader).quiet) == COUNT - 1

    run(tmp_path, scenario)


def test_a_quiet_partition_is_read_again_from_time_to_time(tmp_path: Path, reads: list[int]) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        session = session_of(rig, reader)
        leader = rig.replicas.get("t", 6)
        append(rig, 6)
        assert list(await reader.fetch()) == [6]
        await reader.fetch()
        leader.log.delete_records_before(Offset(1))
        reads.clear()
        assert await reader.fetch() == {}
        long_ago = {target: quiet._replace(read_ms=0) for target, quiet in session.quiet.items()}
        session.quiet.update(long_ago)
        rows = await reader.fetch()
        assert (list(rows), rows[6].log_start_offset) == ([6], 1)
        assert sorted(reads) == list(range(COUNT))

    run(tmp_path, scenario)


def test_a_fetch_that_its_session_watches_for_counts_as_parked(tmp_path: Path) -> None:
    def parked_count(rig: Any) -> object:
        (size,) = [
            found.attributes["Value"]
            for found in purgatory_beans(rig)
            if found is not None
            and found.properties.get("delayedOperation") == "Fetch"
            and found.properties["name"] == "NumDelayedOperations"
        ]
        return size

    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        assert parked_count(rig) == 0
        waiting = asyncio.ensure_future(reader.fetch(MAX_WAIT))
        await until(lambda: parked(rig, reader))
        assert parked_count(rig) == 1
        append(rig, 0)
        await asyncio.wait_for(waiting, PATIENCE_S)
        assert parked_count(rig) == 0

    run(tmp_path, scenario)


def test_deleted_records_are_reported_by_the_next_fetch(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = Reader(await rig.connect(), replica=2)
        append(rig, 6)
        while reader.offsets[6] == 0 or session_of(rig, reader).active:
            await reader.fetch()
        part = delete_records.DeleteRecordsPartition(partition_index=6, offset=1)
        topic = delete_records.DeleteRecordsTopic(name="t", partitions=(part,))
        request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=50)
        await (await rig.connect()).call(request, ApiKey.DELETE_RECORDS, 2)
        rows = await reader.fetch()
        assert (list(rows), rows[6].log_start_offset) == ([6], 1)

    run(tmp_path, scenario)


def test_a_new_epoch_of_the_same_leader_ends_the_wait(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = Reader(await rig.connect(), replica=2, leader_epoch=0)
        await reader.fetch()
        await reader.fetch()
        waiting = asyncio.ensure_future(reader.fetch(MAX_WAIT))
        await until(lambda: parked(rig, reader))
        rig.publish(image_of(topic_image("t", COUNT, replicas=(1, 2), leader_epoch=1)))
        rows = await asyncio.wait_for(waiting, PATIENCE_S)
        assert {row.error_code for row in rows.values()} == {ErrorCode.FENCED_LEADER_EPOCH}
        assert len(rows) == COUNT

    run(tmp_path, scenario)


def test_a_follower_outside_the_isr_is_counted_at_each_fetch(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        rig.controller.answer = refused(ErrorCode.INELIGIBLE_REPLICA)
        reader = Reader(await rig.connect(), replica=2)
        leader = rig.replicas.get("t", 0)
        leader.commit_partition((1, 2), (1,), partition_epoch=1)
        for count in range(1, 4):
            await reader.fetch()
            await until(lambda: len(rig.controller.proposals()) == count and leader.state.change is None)  # noqa: B023
        assert [target.wants.partition for target in session_of(rig, reader).active] == [0]

    run(tmp_path, scenario)


def test_a_session_that_ends_leaves_no_trace_in_the_partitions(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = await settled(rig)
        assert all(rig.replicas.get("t", index).parked_fetches for index in range(COUNT))
        reader.epoch = -1
        await reader.fetch()
        assert not any(rig.replicas.get("t", index).parked_fetches for index in range(COUNT))

    run(tmp_path, scenario)


def test_small_sessions_are_not_watched(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        reader = Reader(await rig.connect(), partitions=WATCHED_FROM - 1)
        for _ in range(3):
            await reader.fetch()
        assert len(session_of(rig, reader).active) == WATCHED_FROM - 1
        assert not session_of(rig, reader).quiet

    run(tmp_path, scenario)
