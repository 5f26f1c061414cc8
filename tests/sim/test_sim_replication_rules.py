"""Single rules of replication that a story with random faults may hide, because its calm phase corrects it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from kcli.model.ids import NO_LEADER_EPOCH, LeaderEpoch
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.wire.api import ApiKey
from kcli.replica.leader import LeaderState
from kcli.server.partitions import followed_partition, leader_partition
from kcli.storage.log.log import AppendResult, PartitionLog
from simulation.actors.administrator import Administrator, Topic
from simulation.actors.client import Client, World, eventually
from simulation.actors.consumer import Consumer
from simulation.actors.producer import Producer, check_values
from simulation.checks.partition import Partition
from simulation.checks.replication_watch import ReplicationWatch
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import SimCluster, SimNode

CONTROLLERS, BROKERS = (1, 2, 3), (4, 5, 6)
LAG_S, SESSION_S = 3.0, 9.0
SLACK_S = 1.0
"""The time for a request to the controller and for the publication of its result."""
PARTITION = TopicPartition("replicated", 0)
PATIENCE_S = 60.0


class Replicated:
    """Three controllers, three brokers, one partition with three replicas, and a producer."""

    def __init__(self, loop: SimLoop, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.watch = ReplicationWatch(cluster)
        self.world = World(cluster, self.watch, random.Random(1))
        self.producer = Producer(self.world, "producer", PARTITION)
        self.stopping: tuple[asyncio.Future[None], SimNode] | None = None
        """A broker that stops, and its stop. It starts again at the end of the story."""
        loop.on_turn.append(self.watch.check)

    @property
    def partition(self) -> Partition:
        return self.watch.partitions[PARTITION]

    @property
    def isr(self) -> tuple[int, ...]:
        assert self.partition.image is not None
        return self.partition.image.isr

    @property
    def leader(self) -> SimNode:
        assert self.partition.image is not None
        return self.cluster.nodes[self.partition.image.leader]

    @property
    def followers(self) -> list[SimNode]:
        return [node for node in self.cluster.brokers if node is not self.leader]

    def cut(self, one: SimNode, *others: SimNode) -> None:
        """Cuts the links between a node and the others, in both directions."""
        for other in others:
            self.cluster.network.cut_link(one.name, other.name)
            self.cluster.network.cut_link(other.name, one.name)

    async def goes_on(self, within_s: float, count: int = 5) -> None:
        """Waits until more records are acknowledged."""
        before = len(self.producer.acknowledged)
        await eventually(
            lambda: len(self.producer.acknowledged) >= before + count, within_s, "acknowledgements"
        )


def on_replicated(story: Callable[[Replicated], Awaitable[None]], seed: int = 1) -> None:
    """Runs a story. At its end all replicas must become equal, and have everything that was acknowledged."""

    async def main(loop: SimLoop) -> None:
        overrides = {
            "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
            "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
            "broker.heartbeat.interval.ms": "500",
        }
        roles = dict.fromkeys(CONTROLLERS, "controller") | dict.fromkeys(BROKERS, "broker")
        async with SimCluster(seed, overrides=overrides, roles=roles) as cluster:
            replicated = Replicated(loop, cluster)
            await cluster.start()
            topic = Topic(PARTITION.topic, 1, 3, {"min.insync.replicas": "2"})
            await Administrator(replicated.world, [topic]).create_topics()
            await eventually(lambda: len(replicated.isr) == 3, PATIENCE_S, "all replicas are in sync")
            async with asyncio.TaskGroup() as group:
                group.create_task(replicated.producer.run())
                await replicated.goes_on(PATIENCE_S)
                await story(replicated)
                cluster.network.mend_links()
                if replicated.stopping is not None:
                    await replicated.stopping[0]
                    await replicated.stopping[1].start()
                replicated.world.ending = True
            await eventually(replicated.watch.is_settled, PATIENCE_S, "all replicas are equal")
            replicated.world.written = True
            consumer = Consumer(replicated.world, "consumer", [PARTITION], from_followers=False)
            await consumer.run()
            check_values(replicated.producer, consumer.values[PARTITION])
            assert replicated.watch.files.check_equal() > 0

    simulate(seed, main)


def test_a_follower_that_lags_leaves_the_isr_and_comes_back() -> None:
    async def story(replicated: Replicated) -> None:
        slow = replicated.followers[0]
        replicated.cut(slow, replicated.leader)
        await asyncio.sleep(1.5 * LAG_S + SLACK_S)
        assert slow.node_id not in replicated.isr, "its session is alive, so only the leader can remove it"
        assert len(replicated.isr) == 2
        await replicated.goes_on(SLACK_S)
        replicated.cluster.network.mend_links()
        await eventually(lambda: len(replicated.isr) == 3, PATIENCE_S, "the follower is in the ISR again")

    on_replicated(story)


def test_a_leader_without_followers_acknowledges_nothing() -> None:
    async def story(replicated: Replicated) -> None:
        replicated.cut(replicated.leader, *replicated.followers)
        await asyncio.sleep(1.5 * LAG_S + SLACK_S)
        before, end = len(replicated.producer.acknowledged), replicated.partition.end
        assert len(replicated.isr) == 1
        await asyncio.sleep(LAG_S)
        assert (len(replicated.producer.acknowledged), replicated.partition.end) == (before, end)
        replicated.cluster.network.mend_links()
        await eventually(lambda: len(replicated.isr) == 3, PATIENCE_S, "the followers are in the ISR again")
        await replicated.goes_on(PATIENCE_S)

    on_replicated(story)


def test_a_leader_without_a_controller_is_replaced_and_truncates() -> None:
    async def story(replicated: Replicated) -> None:
        old = replicated.leader
        replicated.cut(old, *replicated.cluster.controllers)
        await asyncio.sleep(SESSION_S + 4.0)
        assert replicated.leader is not old
        await replicated.goes_on(PATIENCE_S)
        replicated.cluster.network.mend_links()
        await eventually(lambda: len(replicated.isr) == 3, PATIENCE_S, "the old leader is in the ISR again")

    on_replicated(story)


def test_a_killed_leader_is_replaced_after_its_session() -> None:
    async def story(replicated: Replicated) -> None:
        old = replicated.leader
        replicated.watch.check()
        old.kill()
        replicated.watch.died(old)
        await eventually(lambda: replicated.leader is not old, SESSION_S + 4.0, "another broker leads")
        await replicated.goes_on(3 * SLACK_S, count=1)
        await old.start()
        await eventually(lambda: len(replicated.isr) == 3, PATIENCE_S, "the old leader is in the ISR again")

    on_replicated(story)


def test_a_controlled_shutdown_moves_the_leader_within_moments() -> None:
    async def story(replicated: Replicated) -> None:
        old = replicated.leader
        stopping = asyncio.ensure_future(old.stop())
        await replicated.goes_on(2.0, count=1)
        await eventually(lambda: replicated.leader is not old, 2.0, "another broker leads")
        await replicated.goes_on(2.0, count=1)
        await stopping
        await old.start()
        await eventually(lambda: len(replicated.isr) == 3, PATIENCE_S, "the old leader is in the ISR again")

    on_replicated(story)


async def lead_elsewhere_and_back(replicated: Replicated) -> None:
    """Moves the leadership to the first follower, and back by a controlled shutdown of that follower."""
    leader, between, follower = replicated.leader, *replicated.followers
    client = Client(replicated.world, "administrator")
    order = (between.node_id, leader.node_id, follower.node_id)
    moved = ar.ReassignablePartition(partition_index=0, replicas=order)
    topic = ar.ReassignableTopic(name=PARTITION.topic, partitions=(moved,))
    reassignment = ar.AlterPartitionReassignmentsRequest(topics=(topic,), timeout_ms=5_000)
    await client.ask(between.node_id, reassignment, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    preferred = el.TopicPartitions(topic=PARTITION.topic, partitions=(0,))
    election = el.ElectLeadersRequest(election_type=0, topic_partitions=(preferred,), timeout_ms=5_000)
    await client.ask(between.node_id, election, ApiKey.ELECT_LEADERS)
    await eventually(lambda: replicated.leader is between, SLACK_S, "the preferred broker leads")
    await asyncio.sleep(SLACK_S)
    stopping = asyncio.ensure_future(between.stop())
    await eventually(lambda: replicated.leader is leader, SLACK_S, "the first leader leads again")
    client.close()
    replicated.stopping = stopping, between


def test_a_leader_that_heard_late_of_another_leader_leads_again() -> None:
    """Its followers have cut their logs meanwhile, so it must not trust their old progress."""

    async def story(replicated: Replicated) -> None:
        leader, between = replicated.leader, replicated.followers[0]
        replicated.cut(leader, between)  # one follower has records that the next leader does not have
        await asyncio.sleep(SLACK_S)
        replicated.cut(leader, *replicated.cluster.controllers)
        await lead_elsewhere_and_back(replicated)
        assert len(replicated.isr) == 2, "the first leader and a follower that knew the other leader"
        replicated.cluster.network.mend_links()
        await replicated.goes_on(PATIENCE_S)

    on_replicated(story)


def test_a_follower_with_old_metadata_is_fenced() -> None:
    async def story(replicated: Replicated) -> None:
        follower = replicated.followers[1]
        replicated.cut(follower, *replicated.cluster.controllers)
        await lead_elsewhere_and_back(replicated)
        assert follower.node_id in replicated.isr
        before = len(replicated.producer.acknowledged)
        await asyncio.sleep(LAG_S)
        assert len(replicated.producer.acknowledged) == before, "no fetch of the follower counts"
        replicated.cluster.network.mend_links()
        await replicated.goes_on(PATIENCE_S)

    on_replicated(story)


# These rules are broken on purpose. A story with random faults seldom notices them, and these stories do.


def no_fencing_by_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """A leader answers followers of any leader epoch."""
    patch.setattr(leader_partition, "check_known_epoch", lambda *_: None)
    patch.setattr(followed_partition, "check_known_epoch", lambda *_: None)


def laggards_stay_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    """A leader never proposes that a replica leaves the ISR."""
    patch.setattr(LeaderState, "laggards", lambda *_: ())


def appends_beyond_the_epoch_of_the_fetch(patch: pytest.MonkeyPatch) -> None:
    """A follower takes records of a newer leader epoch than that of its fetch, and its leader sends them."""
    no_fencing_by_leader_epoch(patch)
    replicate = PartitionLog.replicate

    def unlimited(
        log: PartitionLog, records: Any, *, leader_epoch: LeaderEpoch, now_ms: int
    ) -> Generator[AppendResult, None, None]:
        return replicate(log, records, leader_epoch=NO_LEADER_EPOCH, now_ms=now_ms)

    patch.setattr(PartitionLog, "replicate", unlimited)


@pytest.mark.parametrize(
    ("break_rule", "story"),
    [
        (laggards_stay_in_the_isr, test_a_follower_that_lags_leaves_the_isr_and_comes_back),
        (no_fencing_by_leader_epoch, test_a_follower_with_old_metadata_is_fenced),
        (appends_beyond_the_epoch_of_the_fetch, test_a_follower_with_old_metadata_is_fenced),
    ],
)
def test_a_broken_rule_is_noticed(
    break_rule: Callable[[pytest.MonkeyPatch], None],
    story: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_rule(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)) as error:
        story()
    assert error.group_contains(AssertionError) if isinstance(error.value, ExceptionGroup) else True
