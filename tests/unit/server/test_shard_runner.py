"""The shell of a coordinator on a real log: lingering, batching, waiting for replicas, failing, waking up, loading."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from kcli.config.topic import LogConfig
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.records import encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.types import decode
from kcli.coordinator.runtime import Answer, Ready
from kcli.errors import (
    CoordinatorNotAvailableException,
    ErrorCode,
    NotCoordinatorException,
    UnknownServerException,
)
from kcli.protocol.batches.batch import BatchHeader, encode_batch, iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.protocol.batches.legacy import Record
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kcli.runtime.rng import SystemRng
from kcli.server.coordinators.loader import COLUMNS_FROM_BYTES, load
from kcli.server.coordinators.shard_log import RunnerSettings
from kcli.server.coordinators.shard_runner import REPLIES_AT_ONCE, ShardRunner
from kcli.server.partitions.leader_partition import LeaderPartition
from rigs.data_path import NODE, BrokerRig, topic_image
from rigs.group_calls import join_group
from rigs.loops import on_a_loop, until
from simulation.runtime.loop import SimLoop, simulate

TOPIC = "__consumer_offsets"


def unexpected() -> None:
    raise AssertionError("the shard could apply its records")


class Rig:
    """One shard, its runner and the partition it writes to; time is the loop's."""

    def __init__(
        self,
        directory: Path,
        *,
        replicas: tuple[int, ...] = (NODE,),
        min_isr: int = 1,
        segment_bytes: int = 1 << 30,
        initial_rebalance_delay_ms: int = 0,
        **settings: Any,
    ) -> None:
        config = LogConfig(
            min_insync_replicas=min_isr, segment_index_bytes=65536, segment_bytes=segment_bytes
        )
        self.broker = BrokerRig(directory, topic_image(TOPIC, replicas=replicas), config=config)
        self.leader = self.broker.replicas.get(TOPIC, 0)
        settings = {"linger_ms": 0, "commit_timeout_ms": 5000, "max_batch_bytes": 1_000_000} | settings
        self.config = GroupConfig(
            initial_rebalance_delay_ms=initial_rebalance_delay_ms, min_session_timeout_ms=10
        )
        self.shard = GroupShard(self.config, SystemRng(1))
        self.sent = []
        self.runner = ShardRunner(
            self.shard,
            self.leader,
            RunnerSettings(**settings),
            encode=encode,
            now_ms=self.now_ms,
            send=self.sent.append,
            broken=unexpected,
        )
        self.runner.run(lambda shard, now_ms: shard.start(now_ms))

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def commit(
        self, *offsets: int, group: str = "g", metadata: str = "", last_metadata: str | None = None
    ) -> Any:
        texts = [metadata] * len(offsets)
        if last_metadata is not None:
            texts[-1] = last_metadata
        partitions = tuple(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=text
            )
            for index, (offset, text) in enumerate(zip(offsets, texts, strict=True))
        )
        request = OffsetCommitRequest(
            group_id=group, topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),)
        )
        return self.runner.call(lambda shard, token, now_ms: shard.commit_offsets(request, 9, token, now_ms))

    def offset(self, partition: int = 0, group: str = "g") -> int:
        (topic,) = self.shard.fetch_offsets(group, (("t", (partition,)),)).topics
        return topic.partitions[0].committed_offset

    def replicate(self) -> None:
        """The other replica has caught up."""
        end = self.leader.log.log_end_offset
        self.leader.follower_fetched(2, log_start_offset=0, log_end_offset=end)

    def batches(self) -> list[BatchHeader]:
        raw = self.raw()
        return [header for _, header in iter_batches(raw)]

    def raw(self) -> bytes:
        log = self.leader.log
        return log.read(0, 10_000_000, end_offset=log.log_end_offset).read()


@contextlib.asynccontextmanager
async def rig(directory: Path, **settings: Any) -> AsyncIterator[Any]:
    made = Rig(directory, **settings)
    try:
        yield made
    finally:
        made.runner.stop()
        await asyncio.sleep(0)
        made.broker.logs.close()


def codes(response: OffsetCommitResponse) -> list[ErrorCode]:
    return [each.error_code for topic in response.topics for each in topic.partitions]


@on_a_loop
async def test_without_linger_and_replicas_the_answer_is_there_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        assert codes(await it.commit(5, 6)) == [ErrorCode.NONE, ErrorCode.NONE]
        assert it.offset(1) == 6
        (batch,) = it.batches()
        assert (batch.records_count, batch.base_sequence, batch.producer_id) == (2, 0, -1)


@on_a_loop
async def test_writes_of_the_linger_time_are_one_batch(tmp_path: Path) -> None:
    async with rig(tmp_path, linger_ms=20) as it:
        first, second = it.commit(5), it.commit(6, group="h")
        assert it.offset() == -1
        barrier = it.runner.when_written()
        assert codes(await first) == codes(await second) == [ErrorCode.NONE]
        await barrier
        assert it.runner.when_written() is None
        assert [batch.records_count for batch in it.batches()] == [2]


@on_a_loop
async def test_unlimited_linger_gathers_one_turn_of_the_loop(tmp_path: Path) -> None:
    async with rig(tmp_path, linger_ms=-1) as it:
        answers = [it.commit(offset) for offset in range(10)]
        await asyncio.gather(*answers)
        assert [batch.records_count for batch in it.batches()] == [10]
        assert it.offset() == 9


@on_a_loop
async def test_a_full_batch_does_not_wait_for_the_linger(tmp_path: Path) -> None:
    async with rig(tmp_path, linger_ms=60_000, max_batch_bytes=2000) as it:
        commits = [it.commit(offset, metadata="m" * 1200) for offset in range(2)]
        assert len(it.batches()) == 1
        assert codes(await commits[0]) == [ErrorCode.NONE]
        assert not commits[1].done()


@on_a_loop
async def test_a_batch_does_not_outgrow_the_topics_limit(tmp_path: Path) -> None:
    async with rig(tmp_path, linger_ms=20, max_batch_bytes=2000) as it:
        await asyncio.gather(*(it.commit(offset, metadata="m" * 400) for offset in range(10)))
        assert sum(batch.records_count for batch in it.batches()) == 10
        assert len(it.batches()) > 2
        assert all(batch.size_bytes <= 2000 for batch in it.batches())
        # One write that is too large by itself is cut, and its records keep their offsets in the log.
        assert codes(await it.commit(*range(100))) == [ErrorCode.NONE] * 100
        assert it.offset(99) == 99


@on_a_loop
async def test_a_write_of_several_batches_is_in_the_log_whole_or_not_at_all(tmp_path: Path) -> None:
    async with rig(tmp_path, max_batch_bytes=1000, segment_bytes=4000) as it:
        with pytest.raises(UnknownServerException):
            await it.commit(*range(20), last_metadata="m" * 4000)
        assert it.leader.log.log_end_offset == 0, "the batches before the refused one are not there"
        assert codes(await it.commit(*range(100), metadata="m" * 40)) == [ErrorCode.NONE] * 100
        assert it.leader.log.size_bytes > 4000, "a write may be larger than a segment if its batches are not"
        assert it.offset(99) == 99


@on_a_loop
async def test_a_deadline_that_fails_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        sent = []
        runner = ShardRunner(
            cast(Any, Deadlines("first", "broken", "last")),
            it.leader,
            RunnerSettings(linger_ms=0, commit_timeout_ms=5000, max_batch_bytes=1000),
            encode=encode,
            now_ms=it.now_ms,
            send=sent.append,
            broken=unexpected,
        )
        runner.run(lambda shard, now_ms: shard.start(now_ms))
        await until(lambda: sent == ["first", "last"])
        (failure,) = failures
        assert isinstance(failure["exception"], AssertionError)
        runner.stop()


@on_a_loop
async def test_work_in_slices_leaves_the_loop_to_others_between_two_slices(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        clock = SlowClock()
        shard: Any = Slices(clock, 5)
        runner = ShardRunner(
            shard,
            it.leader,
            RunnerSettings(linger_ms=0, commit_timeout_ms=5000, max_batch_bytes=1000),
            encode=encode,
            now_ms=lambda: clock.now_ms,
            send=it.sent.append,
            broken=unexpected,
        )
        runner.run(lambda shard, now_ms: shard.start(now_ms))
        left = []
        while shard.left:
            await asyncio.sleep(0)
            left.append(shard.left)
        assert set(left) == {5, 4, 3, 2, 1, 0}
        runner.stop()


@on_a_loop
async def test_the_answers_to_a_large_group_are_sent_in_turns(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        tokens = [asyncio.get_running_loop().create_future() for _ in range(5 * REPLIES_AT_ONCE)]
        replies = tuple(Answer(token, nth) for nth, token in enumerate(tokens))
        it.runner.run(lambda shard, now_ms: Ready(replies=replies))
        # The runner may stop meanwhile: these answers are the result of a committed step.
        it.runner.stop()
        sent = [0]
        while sent[-1] < len(tokens):
            sent.append(sum(token.done() for token in tokens))
            await asyncio.sleep(0)
        steps = [later - earlier for earlier, later in itertools.pairwise(sent)]
        assert 0 < max(steps) <= REPLIES_AT_ONCE
        assert [token.result() for token in tokens] == list(range(len(tokens)))


class SlowClock:
    now_ms = 0


class Slices:
    """A shard with work in slices; each takes longer than the pause after it."""

    def __init__(self, clock: SlowClock, slices: int) -> None:
        self.clock = clock
        self.left = slices
        self.next_deadline_ms = 0

    def start(self, now_ms: int) -> Ready:
        return Ready()

    def resign(self, now_ms: int) -> Ready:
        return Ready()

    def tick(self, now_ms: int) -> Ready | None:
        if not self.left or now_ms < self.next_deadline_ms:
            return None
        self.left -= 1
        self.next_deadline_ms = now_ms + 1
        self.clock.now_ms += 5
        return Ready()


class Deadlines:
    """A shard with nothing but deadlines that have passed."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    @property
    def next_deadline_ms(self) -> int:
        return 0 if self.names else None

    def start(self, now_ms: int) -> Ready:
        return Ready()

    def resign(self, now_ms: int) -> Ready:
        return Ready()

    def tick(self, now_ms: int) -> Ready | None:
        if not self.names:
            return None
        name = self.names.pop(0)
        assert name != "broken"
        return Ready(sends=(name,))


@on_a_loop
async def test_the_answer_waits_for_the_other_replicas(tmp_path: Path) -> None:
    async with rig(tmp_path, replicas=(NODE, 2)) as it:
        first = it.commit(5)
        second = it.commit(6)
        await asyncio.sleep(0.01)
        assert not first.done()
        assert it.offset() == -1, "an offset is seen when it is committed"
        it.replicate()
        assert codes(await first) == codes(await second) == [ErrorCode.NONE]
        assert it.offset() == 6


@on_a_loop
async def test_a_write_fails_if_the_replicas_are_too_slow(tmp_path: Path) -> None:
    async with rig(tmp_path, replicas=(NODE, 2), commit_timeout_ms=30) as it:
        answer = it.commit(5)
        with pytest.raises(CoordinatorNotAvailableException):
            await answer
        assert it.offset() == -1
        # What is in the log is in the log: committed later, it counts.
        it.replicate()
        await until(lambda: it.offset() == 5)
        later = it.commit(6)
        it.replicate()
        assert codes(await later) == [ErrorCode.NONE]


@on_a_loop
async def test_too_few_replicas_refuse_the_write(tmp_path: Path) -> None:
    async with rig(tmp_path, min_isr=2, replicas=(NODE, 2)) as it:
        it.leader.state = it.leader.state.with_partition(replicas=(NODE, 2), isr=(NODE,), partition_epoch=1)
        with pytest.raises(CoordinatorNotAvailableException):
            await it.commit(5)
        with pytest.raises(CoordinatorNotAvailableException):
            await it.runner.call(
                lambda shard, token, now_ms: join_group(
                    shard,
                    JoinGroupRequest(
                        group_id="g",
                        session_timeout_ms=1000,
                        protocol_type="consumer",
                        protocols=(JoinGroupRequestProtocol(name="range"),),
                    ),
                    Caller(api_version=9, client_id="c", client_host="/h"),
                    token,
                    now_ms,
                )
            )


@on_a_loop
async def test_the_end_of_leadership_sends_everybody_elsewhere(tmp_path: Path) -> None:
    async with rig(tmp_path, replicas=(NODE, 2)) as it:
        in_log = it.commit(5)
        await asyncio.sleep(0.01)
        barrier = it.runner.when_written()
        it.leader.resign()
        it.runner.stop()
        for waiting in (in_log, barrier):
            with pytest.raises(NotCoordinatorException):
                await waiting


@on_a_loop
async def test_a_coordinator_that_lost_its_leader_appends_nothing(tmp_path: Path) -> None:
    """The log may already be the log of a follower, and a record would get an old leader epoch."""
    async with rig(tmp_path) as it:
        end = it.leader.log.log_end_offset
        it.leader.resign()
        with pytest.raises(NotCoordinatorException):
            await it.commit(5)
        assert it.leader.log.log_end_offset == end


@on_a_loop
async def test_a_caller_that_went_away_is_no_trouble(tmp_path: Path) -> None:
    async with rig(tmp_path, linger_ms=5) as it:
        it.commit(5).cancel()
        await it.runner.drain(5.0)
        assert it.offset() == 5


@on_a_loop
async def test_the_shard_is_woken_at_its_deadlines(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=40,
            rebalance_timeout_ms=40,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range"),),
        )
        caller = Caller(api_version=3, client_id="c", client_host="/h")
        began = it.now_ms()
        joined = it.runner.call(
            lambda shard, token, now_ms: join_group(shard, request, caller, token, now_ms)
        )
        assert (await joined).generation_id == 1
        # It never syncs nor beats: its session ends, the group is empty, and that is written.
        while next(it.shard.list_groups()).group_state != "Empty":
            await asyncio.sleep(0.005)
            assert it.now_ms() - began < 60_000
        assert it.now_ms() - began >= 40
        records = [decode(record.key, record.value) for record in all_records(it.raw())]
        last = records[-1]
        assert isinstance(last, GroupRecord)
        assert last.metadata is not None
        assert last.metadata.generation == 2


def test_members_that_ask_while_the_loop_is_held_up_are_in_the_first_generation(tmp_path: Path) -> None:
    """The join phase ends during the pause, but the second member asked before the end of the pause."""

    async def main(loop: SimLoop) -> None:
        async with rig(tmp_path, initial_rebalance_delay_ms=100) as it:
            first = join(it, "a")
            loop.call_at(0.05, loop.stall, 0.3)
            loop.call_at(0.2, lambda: others.append(join(it, "b")))
            others: list[Any] = []
            assert (await first).generation_id == 1
            (second,) = others
            assert (await second).generation_id == 1

    simulate(0, main)


def join(it: Rig, client_id: str) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range"),),
    )
    caller = Caller(api_version=3, client_id=client_id, client_host="/h")
    return it.runner.call(lambda shard, token, now_ms: join_group(shard, request, caller, token, now_ms))


def all_records(raw: bytes) -> list[Record]:
    return [record for position, _ in iter_batches(raw) for record in read_records(raw, position)]


@on_a_loop
async def test_a_new_shard_loads_the_records_that_were_written(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.commit(1, 2, 3)
        it.commit(4)
        it.commit(9, group="gone")
        await_me = it.runner.call(
            lambda shard, token, _: shard.delete_groups(DeleteGroupsRequest(groups_names=("gone",)), token, 0)
        )
        assert (await await_me).results[0].error_code is ErrorCode.NONE
        append_transaction(it.leader, producer_id=7, offset=50, committed=True)
        append_transaction(it.leader, producer_id=8, offset=60, committed=False)
        again = GroupShard(it.config, SystemRng(2))

        def replay(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
            again.replay(decode(key, value), offset, producer_id)

        for buffer_bytes in (1, 200, 1_000_000):
            count = await load(
                it.leader,
                replay=replay,
                end_transaction=lambda producer_id, committed: again.end_transaction(
                    producer_id, committed=committed
                ),
                buffer_bytes=buffer_bytes,
            )
            assert count == it.leader.log.log_end_offset - 2  # the markers are no records
        assert {group.group_id for group in again.list_groups()} == {"g"}
        (topic,) = again.fetch_offsets("g", None).topics
        found = {each.partition_index: each.committed_offset for each in topic.partitions}
        assert found == {0: 50, 1: 2, 2: 3}


@on_a_loop
async def test_a_large_log_is_loaded_as_a_small_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        for turn in range(300):
            it.commit(*range(turn, turn + 100))
        assert len(it.raw()) > COLUMNS_FROM_BYTES
        replayed: list[tuple[int, Any]] = []

        def replay(key: bytes, value: bytes, offset: int, producer_id: int) -> None:
            replayed.append((offset, decode(key, value)))

        for buffer_bytes in (10_000_000, 2_000):
            replayed.clear()
            count = await load(
                it.leader,
                replay=replay,
                end_transaction=lambda producer_id, committed: None,
                buffer_bytes=buffer_bytes,
            )
            assert count == 30_000
            last = {record.partition: (offset, record.committed.offset) for offset, record in replayed}
            assert last == {index: (29_900 + index, 299 + index) for index in range(100)}
            assert [offset for offset, _ in replayed] == sorted(offset for offset, _ in replayed)
            # The last record of each key is all there is to see of a piece.
            assert len(replayed) == (100 if buffer_bytes > len(it.raw()) else 30_000)


def append_transaction(leader: LeaderPartition, *, producer_id: int, offset: int, committed: bool) -> None:
    """What a transaction leaves in the log of a group."""
    from kcli.coordinator.group.records import OffsetRecord
    from kcli.protocol.batches.batch import Record
    from kcli.protocol.records.consumer_offsets import OffsetCommitValue

    key, value = encode(OffsetRecord("g", "t", 0, OffsetCommitValue(offset=offset, commit_timestamp=1)))
    now_ms = 1_700_000_000_000
    for raw in (
        encode_batch(
            [Record(-1, now_ms, key, value)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        ),
        encode_marker_batch(
            EndTransactionMarker(committed=committed, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=now_ms,
        ),
    ):
        leader.append(raw, acks=-1, now_ms=now_ms)
