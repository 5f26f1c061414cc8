"""Shards that come and go with the leadership of their partition, on a real log with a second replica."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.runtime import Answer, Ready
from kcli.errors import (
    CoordinatorLoadInProgressException,
    CoordinatorNotAvailableException,
    CorruptRecordError,
    NotCoordinatorException,
)
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.records.consumer_offsets import OffsetCommitValue
from kcli.protocol.records.metadata import RemoveTopicRecord
from kcli.runtime.rng import SystemRng
from kcli.server.coordinators import groups as coordinators
from kcli.server.coordinators import loader, shards
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.partitions.leader_partition import LeaderPartition
from rigs.data_path import NODE, BrokerRig, image_of, topic_image
from rigs.loops import on_a_loop, until
from rigs.quorum import broker_config

TOPIC = "__consumer_offsets"
OTHER = 2


class Rig:
    def __init__(self, directory: Path, replicas: tuple[int, ...], **config: Any) -> None:
        topics = (topic_image(TOPIC, replicas=replicas), topic_image("t"), topic_image("u"))
        self.broker = BrokerRig(directory, *topics, config=LogConfig(segment_index_bytes=65536))
        self.leader: LeaderPartition = self.broker.replicas.get(TOPIC, 0)
        self.groups = GroupCoordinator(broker_config(**config), self.broker.clock, SystemRng(1))
        self.image = image_of(*topics)
        self.groups.load(self.image)

    def lead(self, led: bool = True) -> None:
        self.groups.leadership_changed(self.leader, led)

    async def loaded(self) -> None:
        await until(lambda: not self.groups.shards.is_loading)

    def write(self, offset: int, topic: str = "t") -> None:
        """Writes a commit to the log, as a coordinator before this one has done."""
        value = OffsetCommitValue(offset=offset, commit_timestamp=self.groups.shards.now_ms())
        key, encoded = encode(OffsetRecord("g", topic, 0, value))
        batch = encode_batch([Record(-1, self.groups.shards.now_ms(), key, encoded)])
        self.leader.append(batch, acks=-1, now_ms=self.groups.shards.now_ms())

    def replicate(self) -> None:
        """The other replica has caught up."""
        end_offset = self.leader.log.log_end_offset
        self.leader.follower_fetched(OTHER, log_start_offset=0, log_end_offset=end_offset)

    def commit(self, offset: int) -> Any:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
        request = OffsetCommitRequest(group_id="g", topics=topics)
        return self.groups.shards.runner("g").call(
            lambda shard, token, now_ms: shard.commit_offsets(request, 9, token, now_ms)
        )

    def offset(self, topic: str = "t") -> int:
        found = self.groups.shards.runner("g").ask(
            lambda shard, _: shard.fetch_offsets("g", ((topic, (0,)),))
        )
        return found.topics[0].partitions[0].committed_offset


async def answered(answer: Any) -> Any:
    return await answer


@contextlib.asynccontextmanager
async def rig(
    directory: Path, replicas: tuple[int, ...] = (NODE, OTHER), **config: Any
) -> AsyncIterator[Rig]:
    made = Rig(directory, replicas, **config)
    try:
        yield made
    finally:
        made.lead(False)
        await asyncio.sleep(0)
        made.broker.logs.close()


@on_a_loop
async def test_a_shard_serves_when_everything_it_has_read_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loader, "COMMIT_WARNING_SECONDS", 0.005)
    async with rig(tmp_path) as it:
        it.write(5)
        it.replicate()
        it.write(6)
        it.lead()
        await until(lambda: "waits until offset 2 is committed" in caplog.text)
        with pytest.raises(CoordinatorLoadInProgressException):
            it.commit(7)
        assert it.leader.log.high_watermark == 1
        it.replicate()
        await it.loaded()
        assert it.offset() == 6


@on_a_loop
async def test_a_shard_of_another_broker_is_dropped_while_it_is_being_loaded(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.write(5)
        it.lead()
        await asyncio.sleep(0.01)
        assert it.groups.shards.is_loading, "nothing is committed yet"
        it.lead(False)
        with pytest.raises(NotCoordinatorException):
            it.commit(6)
        it.replicate()
        await asyncio.sleep(0.01)
        with pytest.raises(NotCoordinatorException):
            it.commit(6)


@on_a_loop
async def test_a_new_epoch_of_the_same_leader_keeps_the_shard_and_its_writes(tmp_path: Path) -> None:
    async with rig(tmp_path, (NODE, OTHER)) as it:
        it.lead()
        await it.loaded()
        runner = it.groups.shards.runner("g")
        waiting = it.commit(5)
        await asyncio.sleep(0.02)
        it.lead()
        assert it.groups.shards.runner("g") is runner
        it.replicate()
        await waiting
        assert it.offset() == 5


@on_a_loop
async def test_a_new_epoch_of_the_same_leader_continues_with_the_load(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.write(5)
        it.lead()
        await asyncio.sleep(0.01)
        it.lead()
        it.replicate()
        await it.loaded()
        assert it.offset() == 5


@on_a_loop
async def test_a_load_that_failed_is_tried_again_in_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_key: bytes, _value: bytes | None) -> None:
        raise CorruptRecordError("a torn record")

    with monkeypatch.context() as patch:
        patch.setattr(coordinators, "decode", broken)
        failing = Rig(tmp_path / "a", (NODE,))
    failing.write(5)
    failing.lead()
    await failing.loaded()
    with pytest.raises(NotCoordinatorException):
        failing.commit(6)
    assert caplog.text.count("Loading __consumer_offsets-0 failed: a torn record") == 1
    failing.lead()
    await failing.loaded()
    assert caplog.text.count("Loading __consumer_offsets-0 failed: a torn record") == 2
    failing.broker.logs.close()


@on_a_loop
async def test_a_write_whose_commit_is_lost_is_answered_and_never_applied(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.lead()
        await it.loaded()
        runner = it.groups.shards.runner("g")
        waiting = it.commit(5)
        await asyncio.sleep(0.02)
        it.leader.resign()
        it.lead(False)
        with pytest.raises(NotCoordinatorException):
            await waiting
        it.replicate()
        await asyncio.sleep(0.01)
        found = runner.ask(lambda shard, _: shard.fetch_offsets("g", (("t", (0,)),)))
        assert found.topics[0].partitions[0].committed_offset == -1
        end_offset = it.leader.log.log_end_offset
        with pytest.raises(NotCoordinatorException):
            runner.call(lambda shard, token, now_ms: shard.delete_topics(("t",), now_ms))
        runner.run(lambda shard, now_ms: shard.delete_topics(("t",), now_ms))
        assert it.leader.log.log_end_offset == end_offset, "a shard that was dropped writes nothing"


@on_a_loop
async def test_a_shard_that_cannot_apply_a_record_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig(tmp_path, (NODE,)) as it:
        it.lead()
        await it.loaded()
        assert await answered(it.commit(5))
        first = it.groups.shards.runner("g")

        def fail(*_: object) -> None:
            raise RuntimeError("this code has a defect")

        with monkeypatch.context() as patch:
            patch.setattr(GroupShard, "replay", fail)
            refused = [it.commit(6), it.commit(7)]
            for waiting in refused:
                with pytest.raises((NotCoordinatorException, CoordinatorLoadInProgressException)):
                    await waiting
        await it.loaded()
        assert "could not be applied" in caplog.text
        assert it.groups.shards.runner("g") is not first
        assert it.offset() == 7, "the log has both records"
        assert await answered(it.commit(8))
        assert it.offset() == 8


@on_a_loop
async def test_tasks_of_a_shard_end_with_it(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.lead()
        await it.loaded()
        ended = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        it.groups.shards.runner("g").spawn(work(), "work")
        await asyncio.sleep(0)
        it.lead(False)
        await asyncio.wait_for(ended.wait(), 10)


@on_a_loop
async def test_offsets_of_topics_deleted_during_the_load_are_deleted(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.write(5)
        it.write(6, topic="u")
        it.lead()
        await asyncio.sleep(0.01)
        delta = MetadataDelta(it.image)
        topic = it.image.topics.topic("t")
        assert topic is not None
        delta.replay(RemoveTopicRecord(topic_id=topic.topic_id))
        image: MetadataImage = delta.apply(43, 1, 0)
        it.groups.apply(delta, image)
        it.replicate()
        await it.loaded()
        assert (it.offset("t"), it.offset("u")) == (5, 6), "the tombstone is not committed yet"
        await asyncio.sleep(0.02)
        it.replicate()
        await until(lambda: it.offset("t") == -1)
        assert it.offset("u") == 6


@on_a_loop
async def test_an_answer_that_shows_writes_waits_for_the_writes_before_it_only(tmp_path: Path) -> None:
    def nothing(_shard: object, token: Any, _now_ms: int) -> Ready[Any, Any]:
        return Ready(replies=(Answer(token, "answer"),))

    async with rig(tmp_path) as it:
        it.lead()
        await it.loaded()
        runner = it.groups.shards.runner("g")
        assert await runner.call(nothing, shows_writes=True) == "answer"
        first = it.commit(5)
        shows: Any = runner.call(nothing, shows_writes=True)
        stable = runner.when_written()
        assert await runner.call(nothing) == "answer"
        assert stable is not None
        await asyncio.sleep(0.02)
        end_offset = it.leader.log.log_end_offset
        second = it.commit(6)
        await asyncio.sleep(0.02)
        assert not shows.done() and not stable.done()
        it.leader.follower_fetched(OTHER, log_start_offset=0, log_end_offset=end_offset)
        assert await shows == "answer"
        await stable
        await first
        assert not second.done(), "a later write does not count"
        it.replicate()
        await second


@on_a_loop
async def test_an_answer_that_shows_a_write_fails_with_it(tmp_path: Path) -> None:
    async with rig(tmp_path, **{"offsets.commit.timeout.ms": "20"}) as it:
        it.lead()
        await it.loaded()
        runner = it.groups.shards.runner("g")
        write, stable = it.commit(5), runner.when_written()
        assert stable is not None
        for waiting in (write, stable):
            with pytest.raises(CoordinatorNotAvailableException):
                await waiting


@on_a_loop
async def test_a_stop_does_not_wait_for_replicas_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shards, "DRAIN_SECONDS", 0.02)
    async with rig(tmp_path) as it:
        it.lead()
        await it.loaded()
        waiting = it.commit(5)
        await asyncio.wait_for(it.groups.stop(), 3)
        with pytest.raises(NotCoordinatorException):
            await waiting
        with pytest.raises(CoordinatorNotAvailableException):
            it.commit(6)
        assert "Writes to __consumer_offsets-0 were not committed before the stop" in caplog.text


@on_a_loop
async def test_a_shard_of_another_broker_is_dropped_during_a_stop(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.lead()
        await it.loaded()
        runner = it.groups.shards.runner("g")
        waiting = it.commit(5)
        stopping = asyncio.ensure_future(it.groups.stop())
        await asyncio.sleep(0.02)
        assert not stopping.done(), "the commit of the write is missing"
        it.leader.resign()
        it.lead(False)
        await asyncio.wait_for(stopping, 3)
        with pytest.raises(NotCoordinatorException):
            await waiting
        with pytest.raises(NotCoordinatorException):
            runner.call(lambda shard, token, now_ms: shard.delete_topics(("t",), now_ms))


@on_a_loop
async def test_a_broker_that_stops_loads_no_shard(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.groups.stop()
        it.lead()
        assert not it.groups.shards.is_loading
