"""One simulated run of a cluster of one to seven nodes. A seed decides its nodes, topics, settings and faults.

In the first phase, idempotent producers with acks=all, consumers and a committer of offsets work. In some stories, the
members of a consumer group read topics (`GroupPart`), producers run transactions, or a copier copies records exactly
once. Meanwhile nodes and networks fail, disks fail, fill or are replaced, nodes are paused, clocks jump and drift, and
brokers are restarted one by one. Brokers join and leave. An administrator moves replicas and changes configs. Some
topics have retention or compaction, and some are deleted and created again. In the second phase, all links are repaired
and all nodes run. Within a time limit, every partition must have a leader, and all replicas must be equal and in sync.
No transaction may be open, and no directory of a deleted topic may be left. Consumers must have read every acknowledged
record exactly once and in order. Then all nodes start again, and nothing may be missing. After every iteration of the
event loop, `ReplicationWatch`, `QuorumWatch` and `CoordinatorWatch` check the promises of the cluster.

A cluster of one is no exception: it has one voter, and each of its partitions has one replica. Only in such a cluster
may a loss of power remove acknowledged records (`Failing.LOSSES`). Then all checks begin again with the rest.
"""

from __future__ import annotations

import asyncio
import random
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from kcli.model.topic_partition import TopicPartition
from kcli.server.node import Node
from kcli.storage.directory import STRAY_SUFFIX
from simulation.actors.administrator import Administrator
from simulation.actors.broker_changes import BrokerChanges
from simulation.actors.client import COMPACTED, RETAINED, UNCLEAN, World, eventually
from simulation.actors.consumer import OLD_VERSIONS, Consumer
from simulation.actors.exactly_once import ExactlyOnce
from simulation.actors.offset_committer import OffsetCommitter
from simulation.actors.producer import Producer, check_latest, check_values
from simulation.actors.topic_owner import PREFIX, TopicOwner
from simulation.actors.transactions import TransactionalProducer, check_atomic
from simulation.actors.voter_changes import VoterChanges
from simulation.checks.coordinator_watch import CoordinatorWatch
from simulation.checks.quorum_watch import QuorumWatch
from simulation.checks.replication_watch import ReplicationWatch
from simulation.runtime.loop import SimLoop, simulate_noted
from simulation.world.cluster import SimCluster, SimNode
from simulation.world.faults import Faults
from simulation.world.group_part import GroupPart
from simulation.world.settings import TOPIC, TROUBLE_S, Failing, Kind, Settings

CALM_S = 240.0
STORY_S = 3000.0
SUPERVISOR_PAUSE_S = 1.0
"""The pause between two searches for nodes whose start has failed."""


@dataclass(slots=True)
class Outcome:
    """The result of a story (one simulated run). The figures show that the run did real work."""

    trace: str = ""
    turns: int = 0
    lives: int = 0
    epochs: int = 0
    """The number of epochs of the quorum that had a leader."""
    compared_images: int = 0
    created_topics: int = 0
    """The number of acknowledged creations, except those before the faults."""
    acknowledged: int = 0
    committed_offsets: int = 0
    coordinator_loads: int = 0
    """The number of coordinator shards that began to serve after they had read records."""
    leader_changes: int = 0
    isr_changes: int = 0
    losses: int = 0
    """The number of unclean elections and losses of power that lost records, for each partition."""
    from_followers: int = 0
    compared_batches: int = 0
    deleted_topics: int = 0
    deleted_records: int = 0
    """The largest log start of a topic with retention."""
    moved_trimmed: int = 0
    """The number of partitions that were moved after their first records had been deleted."""
    emptied_partitions: int = 0
    """The number of partitions that were moved away from brokers that left."""
    compacted_batches: int = 0
    """The number of batches that compaction has removed from one replica."""
    transactions_committed: int = 0
    transactions_aborted: int = 0
    takeovers: int = 0
    """The number of copiers that took over from another one."""
    generations: int = 0
    """The last generation or epoch of the group with members. 0 if there is no such group."""
    coordinator_changes: int = 0
    """The number of changes of the coordinator while members owned partitions."""
    read_by_members: int = 0
    committed_by_members: int = 0
    faults: dict[str, int] = field(default_factory=dict)


def run_seed(seed: int) -> Outcome:
    """Runs the story of a seed. Raises AssertionError, or its subclass Deadlock, if a promise is broken."""
    return simulate_noted(
        seed,
        lambda loop: Story(loop, seed).run(),
        f"pytest tests/sim/test_sim_stories.py --sim-seed {seed}",
    )


class Finishing(Protocol):
    """A client that ends when its work is done."""

    @property
    def is_done(self) -> bool: ...


class Story:
    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop = loop
        self.rng = random.Random(seed)
        self.settings = settings = Settings.of(seed, self.rng)
        self.cluster = SimCluster(
            seed,
            overrides=settings.overrides,
            weather=settings.weather,
            roles=settings.roles,
            dynamic=settings.dynamic,
            spares=settings.spares,
        )
        self.seed = seed
        self.quorum_watch = QuorumWatch()
        self.coordinator_watch = CoordinatorWatch()
        self.watch = ReplicationWatch(
            self.cluster,
            loses_on_unclean_election=(UNCLEAN,),
            loses_by_retention=(RETAINED,),
            compacted=settings.compacted,
            rewrites=settings.rewrites,
        )
        self.world = World(self.cluster, self.watch, self.rng)
        copying = settings.copying
        copies = () if copying is None else (copying.topic(settings.replication_factor),)
        self.administrator = Administrator(self.world, (*settings.topics, *copies))
        replaces_voters = settings.dynamic and settings.failing is Failing.WIPES
        self.broker_changes = BrokerChanges(self.world) if settings.spares else None
        self.faults = Faults(
            self.cluster,
            self.watch,
            self.rng,
            settings.kind,
            settings.failing,
            VoterChanges(self.world) if replaces_voters else None,
            self.broker_changes,
        )
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.owners = [
            TopicOwner(
                self.world,
                nth,
                3 if settings.kind is Kind.ONE_NODE else 1,
                replication_factor=settings.replication_factor,
                keeps=settings.kind is not Kind.REPLICAS,
            )
            for nth in range(settings.owners)
        ]
        self.committer = OffsetCommitter(self.world, "group", TopicPartition(TOPIC, 0))
        self.transactional: list[TransactionalProducer] = []
        self.copier: ExactlyOnce | None = None
        self.group: GroupPart | None = None
        if settings.group is not None:
            # The only node serves a group of all topics.
            topics = settings.topics if settings.kind is Kind.ONE_NODE else settings.topics[:1]
            counts = {topic.name: topic.partitions for topic in topics}
            sparse = (RETAINED, *settings.compacted)
            self.group = GroupPart(self.world, settings.group, counts, seed, sparse=sparse)

    async def run(self) -> Outcome:
        loop, cluster = self.loop, self.cluster
        async with cluster, asyncio.timeout(STORY_S):
            loop.on_turn.append(self._check)
            await cluster.start()
            loop.note("all nodes are ready")
            await self.administrator.create_topics()
            self._make_actors()
            async with asyncio.TaskGroup() as group:
                for producer in self.producers:
                    group.create_task(producer.run())
                for consumer in self.consumers:
                    group.create_task(consumer.run())
                group.create_task(self.committer.run())
                for owner in self.owners:
                    group.create_task(owner.run())
                for transactional in self.transactional:
                    group.create_task(transactional.run())
                if self.copier is not None:
                    group.create_task(self.copier.run())
                group.create_task(self._trouble())
            compared = await self._check_end()
        return self._outcome(compared)

    def _check(self) -> None:
        acted = self.cluster.acted()
        for machine in acted:
            if machine.running is not None:
                self.quorum_watch.check(machine.running)
            if machine.alive is not None and machine.alive.broker is not None:
                self.coordinator_watch.check(machine.alive.broker)
        self.watch.check(acted)
        if self.group is not None:
            self.group.watch.check()

    @property
    def _running(self) -> list[Node]:
        return [node.running for node in self.cluster.nodes.values() if node.running is not None]

    def _make_actors(self) -> None:
        partitions = [
            TopicPartition(topic.name, index)
            for topic in self.settings.topics
            for index in range(topic.partitions)
        ]
        settings = self.settings
        for partition in partitions:
            for nth in range(self.rng.choice((1, 1, 2))):
                self.producers.append(self._new_producer(f"producer-{partition}-{nth}", partition))
        is_one_node = settings.kind is Kind.ONE_NODE
        for nth in range(settings.consumers):
            self.consumers.append(
                Consumer(
                    self.world,
                    f"consumer-{nth}",
                    partitions,
                    from_followers=bool(nth),
                    sessions=is_one_node and bool(nth),
                    versions=OLD_VERSIONS if is_one_node and not nth else None,
                )
            )
        for nth, is_new in enumerate(settings.transactions):
            self.transactional.append(TransactionalProducer(self.world, nth, self._whole, is_new=is_new))
        if settings.copying is not None:
            self.copier = ExactlyOnce(self.world, settings.copying, TopicPartition(TOPIC, 0))

    def _new_producer(self, name: str, partition: TopicPartition) -> Producer:
        """A producer. The second producer of a partition of the only node writes with the id of another producer."""
        companions = [each for each in self.producers if each.partition != partition]
        shares = self.settings.kind is Kind.ONE_NODE and name.endswith("-1") and companions
        return Producer(
            self.world,
            name,
            partition,
            load=self.settings.load,
            companion=companions[0] if shares else None,
        )

    @property
    def _whole(self) -> list[TopicPartition]:
        """The partitions of which neither retention nor compaction nor an unclean election removes records."""
        return [
            TopicPartition(topic.name, index)
            for topic in self.settings.topics
            if topic.name not in (RETAINED, COMPACTED, UNCLEAN)
            for index in range(topic.partitions)
        ]

    async def _trouble(self) -> None:
        end = self.loop.time() + TROUBLE_S[self.settings.kind]
        async with asyncio.TaskGroup() as group:
            group.create_task(self.faults.run(end))
            group.create_task(self.administrator.run(end))
            if self.group is not None:
                group.create_task(self.group.run(end))
        await self._calm()

    # Calm.

    async def _calm(self) -> None:
        self.loop.note("calm")
        await self.faults.heal()
        supervisor = asyncio.create_task(self._start_failed_nodes_again())
        try:
            await eventually(self._nodes_have_settled, CALM_S, "all nodes run and are unfenced")
        finally:
            supervisor.cancel()
        self.world.ending = True
        await self._finished(self.producers, "producers finish")
        await self._finished(self.owners, "owners of topics finish")
        await self._finished(self.transactional, "producers of transactions finish")
        await self._finished([self.copier] if self.copier else [], "the copier finishes")
        if self.group is not None:
            await self.group.finish()
        await self._eventually_settled()
        await eventually(lambda: not self._leftovers(), CALM_S, "deleted topics leave nothing")
        self.world.written = True
        await self._finished(self.consumers, "consumers catch up")
        if self.copier is not None:
            await eventually(
                lambda: self.copier is None or self.copier.has_read_all, CALM_S, "readers of copies catch up"
            )

    async def _finished(self, actors: Sequence[Finishing], what: str) -> None:
        await eventually(lambda: all(each.is_done for each in actors), CALM_S, what)

    async def _start_failed_nodes_again(self) -> None:
        """Repeats the start of nodes whose start has failed, as a service manager does.

        A node that was started during a fault may still give up its registration after the end of the fault.
        """
        while True:
            await asyncio.sleep(SUPERVISOR_PAUSE_S)
            for node in self.cluster.members:
                if node.has_failed_to_start:
                    self.faults.kill(node)
                    await node.start(0.0)

    async def _eventually_settled(self) -> None:
        try:
            await eventually(self.watch.is_settled, CALM_S, "all replicas are in sync and equal")
        except AssertionError as error:
            error.add_note(self.watch.unsettled())
            raise

    def _leftovers(self) -> list[str]:
        """The directories of deleted topics on the nodes of the cluster.

        A node that got a snapshot of its leader compares it with its older metadata. If the node is killed before it
        has deleted the logs of the missing topics, it does not know that they were deleted, and keeps them as strays.
        """
        return [
            f"{name} on {machine.name}"
            for machine in self.cluster.members
            for directory in machine.log_dirs
            for name in machine.disk.directories(directory)
            if name.startswith(PREFIX)
            and name.rpartition("-")[0] not in self.watch.image.topics.names
            and not (name.endswith(STRAY_SUFFIX) and _lacks_old_metadata(machine))
        ]

    def _nodes_have_settled(self) -> bool:
        nodes = self._running
        if len(nodes) < len(self.cluster.members):
            return False
        leaders = {(node.quorum.view.leader_id, node.quorum.view.epoch) for node in nodes}
        if len(leaders) > 1 or min(leaders)[0] < 0:
            return False
        return all(
            sum(broker.active for broker in node.metadata.brokers.values()) == len(self.cluster.brokers)
            for node in nodes
        )

    async def _check_end(self) -> int:
        """Compares the records that were read with the acknowledged records, and compares the files of all replicas.
        Then all nodes start again, and all replicas must be in sync once more."""
        for producer in self.producers:
            if producer.partition.topic != UNCLEAN:
                for consumer in self.consumers:
                    check_values(producer, consumer.values[producer.partition])
                    if producer.partition.topic == COMPACTED:
                        latest = self.watch.files.latest_values(producer.partition)
                        check_latest(producer.partition, latest, consumer.values[producer.partition])
        if self.transactional and not self.watch.losses:
            await check_atomic(self.world, self.transactional, self._whole)
        if self.copier is not None:
            await self.copier.check_end(self.consumers[0].values[TopicPartition(TOPIC, 0)])
        compared = self.watch.files.check_equal()
        self._check_absent()
        self.loop.note("all nodes start again")
        for node in self.cluster.members:
            self.faults.kill(node)
        for node in self.cluster.members:
            await node.start(0.0)
        await eventually(self._nodes_have_settled, CALM_S, "all nodes run again")
        await self._eventually_settled()
        if self.group is not None:
            await self.group.check_end()
        for running in self._running:
            self.world.topics.check(running.metadata)
        return compared

    def _check_absent(self) -> None:
        """Checks that brokers that left the cluster are not registered, and have no replicas."""
        absent = {node.node_id for node in self.cluster.nodes.values() if not node.is_member}
        assert not absent & self.watch.image.brokers.keys(), f"{absent} left, but are registered"
        for partition in self.watch.partitions.values():
            assert partition.image is not None
            assert not absent.intersection(partition.image.replicas), f"{absent} left: {partition.image}"

    def _outcome(self, compared: int) -> Outcome:
        partitions = self.watch.partitions.values()
        group = None if self.group is None else self.group.watch
        return Outcome(
            trace=self.loop.trace,
            turns=self.loop.turns,
            lives=sum(node.life for node in self.cluster.nodes.values()),
            epochs=len(self.quorum_watch.leaders),
            compared_images=self.quorum_watch.compared_images,
            created_topics=self.world.topics.acknowledged,
            acknowledged=sum(each.acknowledged_ever for each in self.producers),
            committed_offsets=self.committer.acknowledged,
            coordinator_loads=self.coordinator_watch.loads,
            leader_changes=sum(len(each.leaders) - 1 for each in partitions),
            isr_changes=self.watch.isr_changes,
            losses=sum(each.losses for each in partitions),
            from_followers=sum(each.read_from_followers for each in self.consumers),
            compared_batches=compared,
            deleted_topics=sum(each.deleted for each in self.owners),
            deleted_records=self.watch.log_start(RETAINED),
            moved_trimmed=self.administrator.moved_trimmed,
            emptied_partitions=0 if self.broker_changes is None else self.broker_changes.emptied,
            compacted_batches=self.watch.files.removed_batches(COMPACTED),
            transactions_committed=0 if self.copier is None else self.copier.ledger.committed,
            transactions_aborted=0 if self.copier is None else self.copier.ledger.aborted,
            takeovers=0 if self.copier is None else self.copier.takeovers,
            generations=0 if group is None else group.generation,
            coordinator_changes=0 if group is None else group.coordinator_changes,
            read_by_members=0 if group is None else group.records_read,
            committed_by_members=0 if group is None else group.commits,
            faults=self.faults.counts,
        )


def _lacks_old_metadata(machine: SimNode) -> bool:
    return machine.running is not None and machine.running.quorum.log.log.log_start_offset > 0


def main(first: int, count: int) -> None:
    """Runs many stories, one process for each processor. Prints each failure, and a summary at the end."""
    seeds = range(first, first + count)
    told: list[Outcome] = []
    with ProcessPoolExecutor() as processes:
        for seed, found in zip(seeds, processes.map(_try, seeds), strict=True):
            if isinstance(found, Outcome):
                told.append(found)
            else:
                print(f"seed {seed} failed\n{found}", flush=True)
    print(
        f"{count} stories, {count - len(told)} failed; "
        f"{sum(each.acknowledged for each in told)} records acknowledged, "
        f"{sum(each.leader_changes for each in told)} changes of leaders, "
        f"{sum(each.isr_changes for each in told)} changes of ISRs, "
        f"{sum(each.compared_batches for each in told)} batches compared, "
        f"{sum(each.transactions_committed for each in told)} transactions committed, "
        f"{sum(each.transactions_aborted for each in told)} aborted, {sum(each.takeovers for each in told)} takeovers, "
        f"{sum(each.generations for each in told)} generations of groups, "
        f"{sum(each.coordinator_changes for each in told)} changes of coordinators with members, "
        f"{sum(each.read_by_members for each in told)} records read and "
        f"{sum(each.committed_by_members for each in told)} offsets committed by members"
    )
    sys.exit(len(told) < count)


def _try(seed: int) -> Outcome | str:
    try:
        return run_seed(seed)
    except BaseException as error:
        return "".join(traceback.format_exception(error, limit=-4))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
