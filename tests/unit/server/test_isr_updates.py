"""Changes of ISRs between the leaders of a broker and the controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.errors import ErrorCode, NotLeaderOrFollowerException, StaleBrokerEpochException
from kcli.metadata.image import BrokerRegistration, MetadataImage, TopicImage, Topics
from kcli.model.ids import BrokerId
from kcli.runtime.clock import SystemClock
from kcli.server.partitions import isr_updates
from kcli.server.partitions.isr_updates import NAMED_MAX
from kcli.server.partitions.leader_partition import LeaderPartition
from rigs.data_path import BROKER_EPOCH, LAG_TIME_MAX_MS, NODE, BrokerRig, batch, topic_image
from rigs.leader_appends import append_batch
from rigs.loops import until
from rigs.replication import committed, refused

pytestmark = pytest.mark.usefixtures("short_pause")


@pytest.fixture
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_updates, "RETRY_PAUSE_S", 0.001)


class SteppedClock(SystemClock):
    """A clock whose monotonic time moves only in `wait`."""

    def __init__(self) -> None:
        self.elapsed_ms = 0

    def monotonic(self) -> float:
        return self.elapsed_ms / 1000

    def wait(self, elapsed_ms: int) -> None:
        self.elapsed_ms += elapsed_ms


class Rig(BrokerRig):
    clock: SteppedClock

    def __init__(self, directory: Path, *topics: TopicImage) -> None:
        super().__init__(directory)
        self.clock = SteppedClock()
        self.replicas = self.make_replicas(lambda work: work())
        image = self.metadata
        with_third = {**image.brokers, 3: replace(image.brokers[2], id=3)}
        self.set_metadata(
            replace(
                image,
                brokers=with_third,
                topics=Topics({t.topic_id: t for t in topics}, {t.name: t.topic_id for t in topics}),
            )
        )

    def leader(self, topic: str = "t") -> LeaderPartition:
        return self.replicas.get(topic, 0)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            append_batch(self.leader(), batch(b"a"), acks=1, now_ms=self.clock.now_ms())

    def fetch(self, replica: int, end: int | None = None, epoch: int = BROKER_EPOCH) -> None:
        end = self.leader().log.log_end_offset if end is None else end
        self.leader().follower_fetched(replica, log_start_offset=0, log_end_offset=end, broker_epoch=epoch)

    def shrink(self) -> None:
        for _ in self.replicas.shrink_isrs():
            pass

    async def answered(self) -> None:
        await until(lambda: all(leader.state.change is None for leader in self.replicas))

    def register(self, broker: int, **changes: object) -> None:
        brokers: dict[int, BrokerRegistration] = dict(self.metadata.brokers)
        brokers[broker] = replace(brokers[broker], **changes)
        self.publish(replace(self.metadata, brokers=brokers))

    def change(self, **changes: object) -> None:
        """Publishes another state of partition 0 of `t`."""
        self.publish(changed(self.metadata, "t", **changes))


def changed(image: MetadataImage, name: str, **changes: object) -> MetadataImage:
    topic = image.topics.topic(name)
    assert topic is not None
    partition = replace(topic.partitions[0], **changes)
    topic = replace(topic, partitions={**topic.partitions, 0: partition})
    return replace(image, topics=image.topics.with_partitions({**image.topics.by_id, topic.topic_id: topic}))


ALL = (1, 2, 3)


def on_a_rig(scenario: Callable[[Rig], Awaitable[None]], tmp_path: Path, isr: tuple[int, ...] = ALL) -> None:
    async def main() -> None:
        async with Rig(tmp_path, topic_image("t", replicas=ALL, isr=isr)) as rig:
            await scenario(rig)

    asyncio.run(main())


def test_a_follower_that_has_everything_joins(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.append(2)
        rig.fetch(2, 1)
        assert rig.leader().state.change is None
        rig.fetch(2, 2)
        assert rig.leader().state.maximal_isr == (1, 2)
        await rig.answered()
        assert rig.leader().state.isr.members == (1, 2)
        (request,) = rig.controller.requests
        assert (request.broker_id, request.broker_epoch) == (NODE, BROKER_EPOCH)
        (row,) = request.topics[0].partitions
        assert [(each.broker_id, each.broker_epoch) for each in row.new_isr_with_epochs] == [
            (1, BROKER_EPOCH),
            (2, BROKER_EPOCH),
        ]
        assert (row.leader_epoch, row.partition_epoch, row.leader_recovery_state) == (0, 0, 0)
        assert rig.leader().traffic.isr_expands == 1

    on_a_rig(scenario, tmp_path, isr=(1,))


@pytest.mark.parametrize(
    ("registered", "epoch", "joins"),
    [
        ({}, BROKER_EPOCH, True),
        ({}, -1, True),  # a fetch before v15
        ({"fenced": True}, BROKER_EPOCH, False),
        ({"in_controlled_shutdown": True}, BROKER_EPOCH, False),
        ({}, BROKER_EPOCH + 1, False),  # the metadata does not have this run of the broker yet
    ],
)
def test_only_a_live_broker_joins(
    tmp_path: Path, registered: dict[str, object], epoch: int, joins: bool
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.register(2, **registered)
        rig.fetch(2, epoch=epoch)
        assert (rig.leader().state.change is not None) is joins

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_a_fetch_of_an_older_run_of_the_broker_is_refused(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        with pytest.raises(NotLeaderOrFollowerException, match="older run"):
            rig.fetch(2, 1, epoch=BROKER_EPOCH - 1)
        assert rig.leader().followers[BrokerId(2)].log_end_offset == -1
        with pytest.raises(NotLeaderOrFollowerException, match="no replica on broker 9"):
            rig.fetch(9)

    on_a_rig(scenario, tmp_path)


def test_changes_of_many_isrs_are_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kcli")
    topics = [topic_image(f"t{number:02}", replicas=ALL) for number in range(NAMED_MAX + 2)]

    async def main() -> None:
        async with Rig(tmp_path, *topics) as rig:
            for leader in rig.replicas:
                append_batch(leader, batch(b"a"), acks=1, now_ms=rig.clock.now_ms())
            rig.clock.wait(LAG_TIME_MAX_MS + 1)
            rig.shrink()
            await rig.answered()

    asyncio.run(main())
    lines = [each.getMessage() for each in caplog.records if "state.change" not in each.name]
    named = ", ".join(f"t{number:02}-0 to [1]" for number in range(NAMED_MAX))
    assert lines == [f"{NAMED_MAX + 2} ISR(s) updated: {named} and 2 more"]


def test_laggards_leave_together_after_the_lag_time(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        rig.clock.wait(LAG_TIME_MAX_MS)
        rig.shrink()
        assert rig.leader().state.change is None
        rig.clock.wait(1)
        rig.shrink()
        assert rig.leader().log.high_watermark == 0
        await rig.answered()
        assert rig.leader().log.high_watermark == 1
        assert rig.controller.proposals() == [(1,)]
        assert rig.leader().traffic.isr_shrinks == 1

    on_a_rig(scenario, tmp_path)


def test_changes_of_a_turn_are_one_request_and_later_ones_wait_for_its_answer(tmp_path: Path) -> None:
    topics = [topic_image(name, replicas=ALL, isr=(1,)) for name in ("a", "b", "c")]

    async def scenario() -> None:
        async with Rig(tmp_path, *topics) as rig:
            rig.controller.is_open.clear()

            def joins(topic: str) -> None:
                rig.leader(topic).follower_fetched(2, log_start_offset=0, log_end_offset=0)

            joins("a")
            joins("b")
            await until(lambda: rig.controller.requests)
            joins("c")
            await asyncio.sleep(0.01)
            assert len(rig.controller.requests) == 1
            rig.controller.is_open.set()
            await rig.answered()
            assert [len(request.topics) for request in rig.controller.requests] == [2, 1]

    asyncio.run(scenario())


def test_a_failed_request_is_sent_again(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.failures = [StaleBrokerEpochException(), StaleBrokerEpochException()]
        rig.fetch(2)
        await rig.answered()
        assert rig.controller.proposals() == [(1, 2)] * 3

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_an_unexpected_error_does_not_end_later_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.failures = [AssertionError("of a decider")]
        rig.fetch(2)
        await rig.answered()
        assert rig.controller.proposals() == [(1, 2)] * 2

    on_a_rig(scenario, tmp_path, isr=(1,))
    assert "1 changes of ISRs could not be sent" in caplog.text


def test_a_callback_for_a_committed_offset_is_called_at_once(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        called: list[str] = []
        leader = rig.leader()
        rig.append()
        leader.when_committed(leader.log.log_end_offset, lambda: called.append("committed"))
        assert called == ["committed"]
        leader.when_committed(leader.log.log_end_offset + 1, lambda: called.append("later"))
        assert called == ["committed"]
        leader.resign()
        leader.when_committed(leader.log.log_end_offset + 1, lambda: called.append("ended"))
        assert called[1:] == ["later", "ended"]

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_a_change_without_an_answer_is_sent_again(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        answers = [lambda _asked: None, refused(ErrorCode.UNKNOWN_SERVER_ERROR), committed]
        rig.controller.answer = lambda asked: answers.pop(0)(asked)
        rig.fetch(2)
        await rig.answered()
        assert rig.leader().state.isr.members == (1, 2)
        assert not answers

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_a_refused_replica_may_try_again(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.answer = refused(ErrorCode.INELIGIBLE_REPLICA)
        rig.fetch(2)
        await rig.answered()
        assert rig.leader().state.maximal_isr == (1,)
        assert rig.leader().traffic.failed_isr_updates == 1
        rig.controller.answer = committed
        rig.fetch(2)
        await rig.answered()
        assert rig.leader().state.isr.members == (1, 2)

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_after_a_refusal_for_an_old_state_the_change_waits_for_the_metadata(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.answer = refused(ErrorCode.INVALID_UPDATE_VERSION)
        rig.fetch(2)
        await until(lambda: rig.leader().traffic.failed_isr_updates)
        assert rig.leader().state.maximal_isr == (1, 2)
        rig.fetch(3)  # one change at a time
        assert rig.leader().state.maximal_isr == (1, 2)
        rig.change(isr=(1, 3), partition_epoch=4)
        assert rig.leader().state.maximal_isr == (1, 3)
        assert rig.leader().state.partition_epoch == 4

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_the_metadata_may_commit_a_change_before_its_answer(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.is_open.clear()
        rig.fetch(2)
        await until(lambda: rig.controller.requests)
        rig.change(isr=(1, 2), partition_epoch=1)
        assert (rig.leader().state.isr.members, rig.leader().traffic.isr_expands) == ((1, 2), 1)
        rig.fetch(3)
        rig.controller.is_open.set()
        await rig.answered()
        assert rig.leader().state.isr.members == (1, 2, 3)
        assert rig.leader().state.partition_epoch == 2

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_a_state_that_an_answer_had_already_does_not_forget_a_change(tmp_path: Path) -> None:
    """If it did, the controller could add a replica for which the high watermark does not wait."""

    async def scenario(rig: Rig) -> None:
        rig.fetch(2)
        await rig.answered()
        rig.controller.is_open.clear()
        rig.fetch(3)
        rig.change(isr=(1, 2), partition_epoch=1)
        assert rig.leader().state.maximal_isr == (1, 2, 3)

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_an_older_state_of_the_metadata_is_skipped(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.fetch(2)
        await rig.answered()
        rig.fetch(3)
        await rig.answered()
        assert rig.leader().state.partition_epoch == 2
        rig.change(isr=(1, 2), partition_epoch=1)
        assert rig.leader().state.isr.members == (1, 2, 3)

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_the_end_of_the_leadership_drops_its_change(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.failures = [StaleBrokerEpochException()]
        leader = rig.leader()
        rig.fetch(2)
        await until(lambda: not rig.controller.failures)
        rig.change(leader=2, leader_epoch=1, partition_epoch=1)
        await asyncio.sleep(0.05)
        assert len(rig.controller.requests) == 1
        assert leader.state.isr.members == (1,)

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_a_replica_about_to_join_holds_back_commits_until_its_lag_is_too_long(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.answer = refused(ErrorCode.INELIGIBLE_REPLICA)
        rig.append()
        rig.fetch(2)
        await rig.answered()
        assert rig.leader().log.high_watermark == 1
        rig.append()
        assert rig.leader().log.high_watermark == 1
        rig.clock.wait(LAG_TIME_MAX_MS + 1)
        rig.shrink()
        assert rig.leader().log.high_watermark == 2

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_the_low_watermark_is_the_smallest_log_start_of_live_replicas(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        leader, done = rig.leader(), []
        rig.append(5)
        for replica in (2, 3):
            leader.follower_fetched(replica, log_start_offset=0, log_end_offset=5)
        leader.log.delete_records_before(3)
        assert leader.low_watermark == 0
        leader.deletions.wait_for(3, lambda: done.append(leader.low_watermark))
        leader.follower_fetched(2, log_start_offset=3, log_end_offset=5)
        assert not done
        rig.register(3, fenced=True)
        leader.follower_fetched(2, log_start_offset=4, log_end_offset=5)
        assert done == [3]

    on_a_rig(scenario, tmp_path)


@pytest.mark.parametrize(("epoch", "high_watermark", "kept"), [(1, 5, 5), (2, 0, -1)])
def test_followers_keep_their_ends_unless_another_broker_may_have_led(
    tmp_path: Path, epoch: int, high_watermark: int, kept: int
) -> None:
    """A follower may have truncated its log for a leader of which this broker has never heard."""

    async def scenario(rig: Rig) -> None:
        leader = rig.leader()
        rig.append(5)
        rig.fetch(2)  # broker 3 is in the ISR and has not fetched
        rig.change(leader_epoch=epoch, partition_epoch=1, isr=(1, 2))
        assert rig.leader() is leader
        assert leader.followers[BrokerId(2)].log_end_offset == kept
        assert leader.log.high_watermark == high_watermark

    on_a_rig(scenario, tmp_path)


def test_min_insync_replicas_freezes_commits(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.config_of[""] = replace(rig.config_of[""], min_insync_replicas=2)
        rig.replicas.reconfigure(None)
        rig.append()
        assert rig.leader().log.high_watermark == 0
        rig.controller.is_open.clear()
        rig.fetch(2)
        assert rig.leader().log.high_watermark == 0
        rig.controller.is_open.set()
        await rig.answered()
        assert rig.leader().log.high_watermark == 1

    on_a_rig(scenario, tmp_path, isr=(1,))


def test_a_large_number_of_changes_takes_several_requests(tmp_path: Path) -> None:
    count = 2 * isr_updates.MAX_CHANGES_PER_REQUEST + 1
    topic = topic_image("t", count, replicas=ALL, isr=(1,))

    async def scenario() -> None:
        async with Rig(tmp_path, topic) as rig:
            await rig.replicas.applied()
            for leader in rig.replicas:
                leader.follower_fetched(2, log_start_offset=0, log_end_offset=0)
            await rig.answered()
            sizes = [len(request.topics[0].partitions) for request in rig.controller.requests]
            assert sizes == [isr_updates.MAX_CHANGES_PER_REQUEST] * 2 + [1]

    asyncio.run(scenario())


def test_after_the_stop_no_change_is_sent(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.isr_updates.stop()
        rig.fetch(2)
        await asyncio.sleep(0.01)
        assert rig.controller.requests == []

    on_a_rig(scenario, tmp_path, isr=(1,))
