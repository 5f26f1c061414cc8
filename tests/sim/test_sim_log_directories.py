"""A log directory of one broker in a cluster fails, and the broker continues with its other directory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcli.metadata.image import PartitionImage
from kcli.model.topic_partition import TopicPartition
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.storage.meta_properties import read_meta_properties
from simulation.actors.administrator import Administrator, Topic
from simulation.actors.client import World, eventually
from simulation.actors.consumer import Consumer
from simulation.actors.producer import Producer, check_values
from simulation.checks.partition import directory_of
from simulation.checks.replication_watch import ReplicationWatch
from simulation.runtime.disk import FaultKind
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import DATA, SimCluster, SimNode

MORE = "/more"
"""The second directory of each broker. The first one also has the metadata log, so its failure would end the broker."""
CONTROLLERS, BROKERS = (1, 2, 3), (4, 5, 6)
PARTITIONS = [TopicPartition("replicated", index) for index in range(4)]
SESSION_S = 9.0
SOON_S = 4.0
"""The time in which the controller must move the leaders, and all producers must continue. It is much less than a
session and replica.lag.time.max.ms."""
PATIENCE_S = 60.0


class Directories:
    """Three controllers, three brokers with two directories, partitions with three replicas, and their producers."""

    def __init__(self, loop: SimLoop, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.watch = ReplicationWatch(cluster)
        self.world = World(cluster, self.watch, random.Random(1))
        self.producers = [Producer(self.world, f"producer-{each}", each) for each in PARTITIONS]
        loop.on_turn.append(self.watch.check)

    def image(self, partition: TopicPartition) -> PartitionImage:
        found = self.watch.partitions[partition].image
        assert found is not None
        return found

    def are_in_sync(self) -> bool:
        partitions = self.watch.partitions
        return all(each in partitions and len(self.image(each).isr) == 3 for each in PARTITIONS)

    def are_assigned(self) -> bool:
        """Whether the controller knows the directory of each replica."""
        return all(
            self.image(partition).directory(broker) == directory_id(self.cluster.nodes[broker], partition)
            for partition in PARTITIONS
            for broker in BROKERS
        )

    def leader_in_second_directory(self) -> tuple[SimNode, list[TopicPartition]]:
        """A broker that leads a partition in its second directory, and all its partitions in this directory."""
        found = (
            self.cluster.nodes[self.image(each).leader]
            for each in PARTITIONS
            if directory_of(self.cluster.nodes[self.image(each).leader], each) == MORE
        )
        broker = next(found)
        return broker, [each for each in PARTITIONS if directory_of(broker, each) == MORE]

    async def go_on(self, within_s: float, count: int = 5) -> None:
        """Waits until each producer has more acknowledgements."""
        before = [len(each.acknowledged) for each in self.producers]
        await eventually(
            lambda: all(
                len(each.acknowledged) >= known + count
                for each, known in zip(self.producers, before, strict=True)
            ),
            within_s,
            "acknowledgements",
        )

    async def check_end(self) -> None:
        """Checks that all replicas become equal, and have everything that was acknowledged."""
        await eventually(self.watch.is_settled, PATIENCE_S, "all replicas are equal")
        self.world.written = True
        consumer = Consumer(self.world, "consumer", PARTITIONS, from_followers=False)
        await consumer.run()
        for producer in self.producers:
            check_values(producer, consumer.values[producer.partition])
        assert self.watch.files.check_equal() > 0


def directory_id(node: SimNode, partition: TopicPartition) -> object:
    properties = read_meta_properties(node.disk, directory_of(node, partition))
    assert properties is not None
    return properties.directory_id


def on_two_directories(story: Callable[[Directories], Awaitable[None]], seed: int = 1) -> None:
    """Runs a story while records are produced, and checks the records at its end."""

    async def main(loop: SimLoop) -> None:
        overrides = {
            "log.dirs": f"{DATA},{MORE}",
            "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
            "broker.heartbeat.interval.ms": "500",
            "auto.leader.rebalance.enable": "false",
        }
        roles = dict.fromkeys(CONTROLLERS, "controller") | dict.fromkeys(BROKERS, "broker")
        async with SimCluster(seed, overrides=overrides, roles=roles) as cluster:
            directories = Directories(loop, cluster)
            await cluster.start()
            topic = Topic("replicated", len(PARTITIONS), 3, {"min.insync.replicas": "2"})
            await Administrator(directories.world, [topic]).create_topics()
            await eventually(directories.are_in_sync, PATIENCE_S, "all replicas are in sync")
            async with asyncio.TaskGroup() as group:
                for producer in directories.producers:
                    group.create_task(producer.run())
                await directories.go_on(PATIENCE_S)
                await story(directories)
                directories.world.ending = True
            await directories.check_end()

    simulate(seed, main)


@pytest.mark.parametrize(
    ("operation", "kind"), [("write", FaultKind.ERROR), ("write", FaultKind.FULL), ("sync", FaultKind.ERROR)]
)
def test_the_leaders_of_a_failed_directory_move_and_the_broker_continues(
    operation: str, kind: FaultKind
) -> None:
    async def story(directories: Directories) -> None:
        await eventually(directories.are_assigned, SOON_S, "the controller knows all directories")
        broker, lost = directories.leader_in_second_directory()
        kept = [each for each in PARTITIONS if each not in lost]
        before = {each: directories.image(each) for each in PARTITIONS}
        assert kept
        await fail_second_directory(directories, broker, operation, kind)
        await eventually(
            lambda: all(broker.node_id not in directories.image(each).isr for each in lost),
            SOON_S,
            "the controller moves the leaders of the directory, and removes its replicas from the ISR",
        )
        assert all(directories.image(each).leader in BROKERS for each in lost)
        await directories.go_on(SOON_S)
        assert all(directories.image(each) == before[each] for each in kept), "the other directory serves"
        assert directories.watch.image.brokers[broker.node_id].active
        assert broker.life == 1 and broker.is_up
        await repair(directories, broker)

    on_two_directories(story)


async def fail_second_directory(
    directories: Directories, broker: SimNode, operation: str, kind: FaultKind
) -> None:
    """Lets a call to the second directory of a broker fail. Returns when the broker has noticed it."""
    directories.cluster.error_watch.tolerates = True
    broker.disk.fail(operation, f"{MORE}/", kind=kind)
    assert broker.running is not None
    logs = broker.running.logs
    failed = next(each for each in logs.directories if each.path == MORE)
    await eventually(lambda: failed.error is not None, PATIENCE_S, "the directory fails")


async def repair(directories: Directories, broker: SimNode) -> None:
    """Stops the broker, repairs its disk and starts it again. Its replicas must be in sync again."""
    broker.disk.heal()
    directories.watch.check()
    await broker.stop()
    directories.watch.died(broker)
    directories.cluster.error_watch.tolerates = False
    await broker.start()
    await eventually(directories.are_in_sync, PATIENCE_S, "all replicas are in sync again")
    await directories.go_on(SOON_S)


# These rules are broken on purpose.


def no_report_of_directories(patch: pytest.MonkeyPatch) -> None:
    """A broker does not report which directory it has chosen for a replica."""
    patch.setattr(DirectoryAssignments, "_send_soon", lambda _: None)


def no_report_of_failures(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat does not name the directories that have failed."""
    make = BrokerLifecycle.__init__

    def without_failures(lifecycle: BrokerLifecycle, *args: Any, **named: Any) -> None:
        make(lifecycle, *args, **named)
        lifecycle._offline_directories = tuple

    patch.setattr(BrokerLifecycle, "__init__", without_failures)


@pytest.mark.parametrize("break_rule", [no_report_of_directories, no_report_of_failures])
def test_a_broken_rule_is_noticed(
    break_rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)) as error:
        test_the_leaders_of_a_failed_directory_move_and_the_broker_continues("write", FaultKind.ERROR)
    assert error.group_contains(AssertionError) if isinstance(error.value, ExceptionGroup) else True
