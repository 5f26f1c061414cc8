"""One simulated run of a cluster with replicated topics. A seed decides its nodes, topics, settings and faults.

In the first phase, idempotent producers with acks=all, consumers and a committer of offsets work. In some stories, the
members of a consumer group read a topic (`GroupPart`), or a copier copies records exactly once, in transactions.
Meanwhile nodes and networks fail, disks fail, fill or are replaced, nodes are paused, clocks jump and drift, and
brokers are restarted one by one. Brokers join and leave. An administrator moves replicas and changes configs. Some
topics have retention or compaction, and one is deleted and created again. In the second phase, all links are repaired
and all nodes run. Within a time limit, every partition must have a leader, and all replicas must be equal and in sync.
No transaction may be open, and no directory of a deleted topic may be left. Consumers must have read every acknowledged
record exactly once and in order. After every iteration of the event loop, `ReplicationWatch`, `QuorumWatch` and
`CoordinatorWatch` check the promises of the cluster.
"""

from __future__ import annotations

import asyncio
import random
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from kcli.model.topic_partition import TopicPartition
from kcli.server.node import Node
from kcli.storage.directory import STRAY_SUFFIX
from simulation.actors.broker_changes import BrokerChanges
from simulation.actors.clients import eventually
from simulation.actors.cluster_admin import ClusterAdministrator, ReplicatedTopic
from simulation.actors.cluster_clients import (
    COMPACTED,
    RETAINED,
    UNCLEAN,
    ClusterWorld,
    ReplicatedConsumer,
    ReplicatedProducer,
    check_latest,
    check_values,
)
from simulation.actors.exactly_once import Copying, ExactlyOnce
from simulation.actors.offset_committer import OffsetCommitter
from simulation.actors.passing_topic import NAME as PASSING
from simulation.actors.passing_topic import PassingTopic
from simulation.actors.voter_changes import VoterChanges
from simulation.checks.coordinator_watch import CoordinatorWatch
from simulation.checks.quorum_watch import QuorumWatch
from simulation.checks.replication_watch import ReplicationWatch
from simulation.runtime.loop import SimLoop, simulate_noted
from simulation.runtime.network import Weather
from simulation.world.cluster import BOTH, DATA, SimCluster, SimNode
from simulation.world.cluster_faults import ClusterFaults, Failing
from simulation.world.group_part import GroupPart, GroupSettings

TROUBLE_S = 25.0
CALM_S = 240.0
STORY_S = 3000.0
SMALL_SEGMENT_BYTES = "12000"
"""The size of the segments of topics whose old segments are deleted or compacted. It is a little more than the largest
batch of a producer."""
SHAPES: tuple[dict[int, str], ...] = (
    {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"},
    {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"},
    {1: BOTH, 2: BOTH, 3: BOTH},
    {1: BOTH, 2: BOTH, 3: BOTH, 4: "broker", 5: "broker"},
)
"""The roles of the nodes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a seed has chosen."""

    roles: dict[int, str]
    dynamic: bool
    failing: Failing
    weather: Weather
    overrides: dict[str, str]
    topics: tuple[ReplicatedTopic, ...]
    consumers: int
    has_passing_topic: bool
    spares: tuple[int, ...]
    """The ids of brokers that join while the faults happen."""
    copying: Copying | None
    group: GroupSettings | None

    @classmethod
    def of(cls, seed: int, rng: random.Random) -> Settings:
        """Chooses the settings of a seed. Choices that were added later have their own random numbers, so that they do
        not change the earlier choices of the seed."""
        group = GroupSettings.of(seed)
        failing = rng.choice(
            (
                Failing.KILLS,
                Failing.POWER,
                Failing.POWER,
                Failing.CAREFUL_POWER,
                Failing.DISKS,
                Failing.WIPES,
            )
        )
        roles = rng.choice(SHAPES)
        spares = _spares(roles, random.Random(f"brokers {seed}"))
        return cls(
            roles=roles | dict.fromkeys(spares, "broker"),
            dynamic=rng.random() < 0.5,
            failing=failing,
            weather=Weather(
                latency_s=rng.choice((0.0005, 0.005)),
                spike_chance=rng.choice((0.0, 0.01)),
                spike_s=rng.choice((0.05, 0.5)),
                cut_chance=rng.choice((0.0, 0.1)),
            ),
            overrides=_overrides(failing, rng)
            | _directories(failing, random.Random(f"directories {seed}"))
            | (group.overrides if group else {}),
            topics=_topics(rng),
            consumers=rng.randint(1, 2),
            has_passing_topic=rng.random() < 0.3,
            spares=spares,
            copying=Copying.of(seed),
            group=group,
        )


def _spares(roles: dict[int, str], rng: random.Random) -> tuple[int, ...]:
    return (max(roles) + 1,) if rng.random() < 0.3 else ()


def _directories(failing: Failing, rng: random.Random) -> dict[str, str]:
    """A second log directory for some of the stories whose disks fail. A broker continues if it fails."""
    return {"log.dirs": f"{DATA},/more"} if failing is Failing.DISKS and rng.random() < 0.5 else {}


def _overrides(failing: Failing, rng: random.Random) -> dict[str, str]:
    overrides = {
        "metadata.max.idle.interval.ms": "500",
        "broker.session.timeout.ms": rng.choice(("2000", "4000", "9000")),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": rng.choice(("1500", "4000", "30000")),
        "replica.fetch.backoff.ms": rng.choice(("100", "1000")),
        "replica.fetch.max.bytes": rng.choice(("4000", "1048576")),
        "num.replica.fetchers": rng.choice(("1", "2")),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(("500", "5000")),
        "leader.imbalance.check.interval.seconds": rng.choice(("5", "300")),
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(("2000", "20971520")),
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "min.insync.replicas": "2",
        "log.roll.ms": rng.choice(("3000", "604800000")),
        "unclean.leader.election.interval.ms": "3000",
        # Only the topics of COMPACTED are compacted, because the batches of compacted replicas cannot be compared.
        "log.cleaner.min.compaction.lag.ms": "86400000",
        "log.cleaner.backoff.ms": "300",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": rng.choice(("0", "1000")),
    }
    if failing is Failing.POWER:
        overrides["log.flush.interval.messages"] = "1"
    return overrides


def _topics(rng: random.Random) -> tuple[ReplicatedTopic, ...]:
    topics = [ReplicatedTopic("replicated", rng.randint(1, 3), 3, {"min.insync.replicas": "2"})]
    if rng.random() < 0.3:
        topics.append(ReplicatedTopic("pair", rng.randint(1, 2), 2, {"min.insync.replicas": "1"}))
    if rng.random() < 0.3:
        config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        topics.append(ReplicatedTopic(UNCLEAN, 1, rng.choice((2, 3)), config))
    if rng.random() < 0.25:
        limit = rng.choice(({"retention.bytes": "24000"}, {"retention.ms": "4000"}))
        config = {"min.insync.replicas": "2", "internal.segment.bytes": SMALL_SEGMENT_BYTES, **limit}
        topics.append(ReplicatedTopic(RETAINED, 1, 3, config))
    if rng.random() < 0.25:
        config = {
            "min.insync.replicas": "2",
            "internal.segment.bytes": SMALL_SEGMENT_BYTES,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.0",
            "min.compaction.lag.ms": "0",
        }
        topics.append(ReplicatedTopic(COMPACTED, 1, 3, config))
    return tuple(topics)


@dataclass(slots=True)
class Outcome:
    """The result of a story (one simulated run). The figures show that the run did real work."""

    trace: str = ""
    turns: int = 0
    lives: int = 0
    acknowledged: int = 0
    committed_offsets: int = 0
    coordinator_loads: int = 0
    """The number of coordinator shards that began to serve after they had read records."""
    leader_changes: int = 0
    isr_changes: int = 0
    losses: int = 0
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
        lambda loop: ReplicationStory(loop, seed).run(),
        f"pytest tests/sim/test_sim_replication.py --sim-seed {seed}",
    )


class ReplicationStory:
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
        self.quorum_watch = QuorumWatch()
        self.coordinator_watch = CoordinatorWatch()
        self.watch = ReplicationWatch(
            self.cluster,
            loses_on_unclean_election=(UNCLEAN,),
            loses_by_retention=(RETAINED,),
            compacted=(COMPACTED,),
        )
        self.world = ClusterWorld(self.cluster, self.watch, self.rng)
        copying = settings.copying
        copies = () if copying is None else (copying.topic,)
        self.administrator = ClusterAdministrator(self.world, (*settings.topics, *copies))
        replaces_voters = settings.dynamic and settings.failing is Failing.WIPES
        self.broker_changes = BrokerChanges(self.world) if settings.spares else None
        self.faults = ClusterFaults(
            self.cluster,
            self.watch,
            self.rng,
            settings.failing,
            VoterChanges(self.world) if replaces_voters else None,
            self.broker_changes,
        )
        self.producers: list[ReplicatedProducer] = []
        self.consumers: list[ReplicatedConsumer] = []
        self.passing = PassingTopic(self.world) if settings.has_passing_topic else None
        self.committer = OffsetCommitter(self.world, "group", TopicPartition("replicated", 0))
        self.copier: ExactlyOnce | None = None
        self.group: GroupPart | None = None
        if settings.group is not None:
            partitions = settings.topics[0].partitions
            self.group = GroupPart(self.world, settings.group, partitions, seed)

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
                if self.passing is not None:
                    group.create_task(self.passing.run())
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
        for partition in partitions:
            for nth in range(self.rng.choice((1, 1, 2))):
                self.producers.append(
                    ReplicatedProducer(self.world, f"producer-{partition}-{nth}", partition)
                )
        for nth in range(self.settings.consumers):
            self.consumers.append(
                ReplicatedConsumer(self.world, f"consumer-{nth}", partitions, from_followers=bool(nth))
            )
        if self.settings.copying is not None:
            self.copier = ExactlyOnce(self.world, self.settings.copying, TopicPartition("replicated", 0))

    async def _trouble(self) -> None:
        end = self.loop.time() + TROUBLE_S
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
        await eventually(self._nodes_have_settled, CALM_S, "all nodes run and are unfenced")
        self.world.ending = True
        await eventually(lambda: all(each.is_done for each in self.producers), CALM_S, "producers finish")
        if self.passing is not None:
            await eventually(
                lambda: self.passing is None or self.passing.is_done, CALM_S, "the topic is deleted"
            )
        if self.copier is not None:
            await eventually(
                lambda: self.copier is None or self.copier.is_done, CALM_S, "the copier finishes"
            )
        if self.group is not None:
            await self.group.finish()
        await self._eventually_settled()
        await eventually(lambda: not self._leftovers(), CALM_S, "deleted topics leave nothing")
        self.world.written = True
        await eventually(lambda: all(each.is_done for each in self.consumers), CALM_S, "consumers catch up")
        if self.copier is not None:
            await eventually(
                lambda: self.copier is None or self.copier.has_read_all, CALM_S, "readers of copies catch up"
            )

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
            if name.startswith(f"{PASSING}-")
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
                        latest = self.watch.latest_values(producer.partition)
                        check_latest(producer, latest, consumer.values[producer.partition])
        if self.copier is not None:
            await self.copier.check_end(self.consumers[0].values[TopicPartition("replicated", 0)])
        compared = self.watch.check_equal()
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
            acknowledged=sum(len(each.acknowledged) for each in self.producers),
            committed_offsets=self.committer.acknowledged,
            coordinator_loads=self.coordinator_watch.loads,
            leader_changes=sum(len(each.leaders) - 1 for each in partitions),
            isr_changes=self.watch.isr_changes,
            losses=sum(each.losses for each in partitions),
            from_followers=sum(each.read_from_followers for each in self.consumers),
            compared_batches=compared,
            deleted_topics=0 if self.passing is None else self.passing.deleted,
            deleted_records=self.watch.log_start(RETAINED),
            moved_trimmed=self.administrator.moved_trimmed,
            emptied_partitions=0 if self.broker_changes is None else self.broker_changes.emptied,
            compacted_batches=self.watch.removed_batches(COMPACTED),
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
