"""One simulated run, called a story. The seed decides the settings, clients and faults of the story.

A story succeeds if the cluster has kept all promises to its clients.

In the first phase, producers, consumers, group members and an administrator work while faults happen: connections are
cut, and the broker is stopped, killed or loses power, at times during its start. In the second phase, there are no
faults. All work must end, all readers must read all records, and groups must become stable. After one more clean
restart, nothing may be missing. After every iteration of the event loop, the ledger compares the cluster with its
promises.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from kcli.client.admin.topics import NewTopic
from kcli.errors import (
    KafkaError,
)
from kcli.model.topic_partition import TopicPartition
from simulation.actors.admin import Administrator, admin_of
from simulation.actors.clients import COMPACTED, RETAINED, Consumer, Producer, World, eventually
from simulation.actors.consumers import QUICK_SESSIONS, ConsumerMember
from simulation.actors.groups import Member
from simulation.actors.transactions import TransactionalProducer, check_atomic
from simulation.checks.invariants import Ledger
from simulation.runtime.disk import FaultKind
from simulation.runtime.loop import SimLoop, simulate_noted
from simulation.runtime.network import Weather
from simulation.world.cluster import SimCluster

TROUBLE_S = 10.0
CALM_S = 120.0
# The limit of simulated time for a story. A story usually takes far less time.
STORY_S = 900.0
GROUP = "group"
SLOW_CALLS = 12
"""The upper limit (exclusive) for the number of consecutive calls that a slow disk delays."""
# The faults of the disk, each with an operation and a part of the path. Reads do not fail, because the ledger reads
# from the same disk.
DISK_FAULTS = (
    ("write", ""),
    ("write", ".log"),
    ("write", ".log"),
    ("sync", ".log"),
    ("write", "index"),
    ("sync", ""),
    ("sync", "__cluster_metadata"),
    ("rename", ""),
    ("sync_dir", ""),
    ("make_dir", ""),
    ("remove", ""),
)
BIG_BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a seed has chosen."""

    durable: bool
    power_fails: bool
    disk_fails: bool
    weather: Weather
    overrides: dict[str, str]
    topics: dict[str, int]
    """The number of partitions of each topic."""
    topic_configs: dict[str, dict[str, str]]
    producers: int
    consumers: int
    members: int
    transactional_producers: int
    big_batches: bool

    @classmethod
    def of(cls, rng: random.Random) -> Settings:
        def either(*values: str) -> str:
            return rng.choice(values)

        durable = rng.random() < 0.5
        fails = either("power", "power", "disk", "nothing")
        kinds = [rng.choice(("plain", "plain", COMPACTED, RETAINED)) for _ in range(rng.randint(1, 3))]
        topics = [f"{kind}-{nth}" for nth, kind in enumerate(kinds)]
        segment_bytes = rng.choice((20_000, 100_000, 2_000_000))
        overrides = {
            "log.dirs": either("/data", "/data", "/data,/more"),
            **QUICK_SESSIONS,
            "offsets.topic.num.partitions": either("1", "3"),
            "offsets.topic.compression.codec": either("0", "1", "3"),
            "transaction.state.log.num.partitions": either("1", "3"),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "group.initial.rebalance.delay.ms": either("0", "500"),
            "group.coordinator.append.linger.ms": either("-1", "0", "5"),
            "log.index.interval.bytes": either("100", "4096"),
            "log.message.timestamp.type": either("CreateTime", "CreateTime", "LogAppendTime"),
            "log.flush.offset.checkpoint.interval.ms": either("500", "60000"),
            "replica.high.watermark.checkpoint.interval.ms": either("500", "5000"),
            "log.flush.scheduler.interval.ms": either("300", "9223372036854775807"),
            "log.roll.ms": either("1500", "604800000"),
            "metadata.log.max.record.bytes.between.snapshots": either("1", "2000", "20971520"),
            "metadata.max.idle.interval.ms": either("0", "500"),
            "connections.max.idle.ms": either("3000", "600000"),
            "log.cleaner.backoff.ms": either("100", "15000"),
            "log.cleaner.threads": either("1", "2"),
            "log.retention.check.interval.ms": either("300", "300000"),
            "log.segment.delete.delay.ms": either("0", "1000", "60000"),
            "max.incremental.fetch.session.cache.slots": either("1", "1000"),
        }
        if durable:
            overrides["log.flush.interval.messages"] = "1"
        return cls(
            durable=durable,
            # A story has either failed flushes or losses of power. With both, a loss of power could remove data that
            # clients have read after a failed flush, as in Kafka.
            power_fails=fails == "power",
            disk_fails=fails == "disk",
            weather=Weather(
                latency_s=rng.choice((0.0005, 0.01, 0.05)),
                spike_chance=rng.choice((0.0, 0.01, 0.1)),
                spike_s=rng.choice((0.05, 0.5)),
                cut_chance=rng.choice((0.0, 0.2, 0.8)),
            ),
            overrides=overrides,
            topics={name: rng.randint(1, 3) for name in topics},
            topic_configs={name: _topic_config(name, segment_bytes, rng) for name in topics},
            producers=rng.randint(1, 3),
            consumers=rng.randint(0, 2),
            members=rng.randint(0, 4),
            transactional_producers=rng.choice((0, 0, 1, 2)),
            big_batches=segment_bytes > BIG_BATCH_BYTES and rng.random() < 0.3,
        )


def _topic_config(name: str, segment_bytes: int, rng: random.Random) -> dict[str, str]:
    config = {
        "internal.segment.bytes": str(segment_bytes),
        "compression.type": rng.choice(("producer", "producer", "lz4", "uncompressed")),
    }
    if name.startswith(COMPACTED):
        config["cleanup.policy"] = "compact"
        config["min.cleanable.dirty.ratio"] = rng.choice(("0.0", "0.3"))
    elif name.startswith(RETAINED):
        config["retention.bytes"] = "40000"
    return config


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a story (one simulated run). The figures show that the run did real work."""

    trace: str
    turns: int
    lives: int
    acknowledged: int
    generations: int


def run_seed(seed: int) -> Outcome:
    """Runs the story of a seed. Raises AssertionError, or its subclass Deadlock, if a promise is broken."""
    return simulate_noted(
        seed,
        lambda loop: Story(loop, seed).run(),
        f"pytest tests/sim --sim-seed {seed}  (or KCLI_SIM_SEED={seed})",
    )


class Story:
    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop = loop
        self.seed = seed
        self.rng = random.Random(seed)
        self.settings = Settings.of(self.rng)
        self.cluster = SimCluster(seed, overrides=self.settings.overrides, weather=self.settings.weather)
        self.ledger = Ledger(durable=self.settings.durable)
        self.world = World(self.cluster, self.ledger, self.rng)
        self.producers: list[Producer] = []
        self.transactional_producers: list[TransactionalProducer] = []
        self.consumers: list[Consumer] = []
        self.members: list[Member] = []

    async def run(self) -> Outcome:
        loop, cluster = self.loop, self.cluster
        async with cluster:
            loop.on_turn.append(self._watch)
            await cluster.node.start()
            await self._make_topics()
            self._make_actors()
            async with asyncio.timeout(STORY_S), asyncio.TaskGroup() as group:
                for actor in (*self.producers, *self.transactional_producers, *self.consumers):
                    group.create_task(actor.run(), name=actor.name)
                group.create_task(self._trouble())
            await self._check_end()
            loop.on_turn.remove(self._watch)
        acknowledged = sum(producer.acknowledged for producer in self.producers)
        generation = self.ledger.generation(GROUP)
        return Outcome(loop.trace, loop.turns, cluster.node.life, acknowledged, generation)

    def _watch(self) -> None:
        self.ledger.watch(self.cluster.node.running)

    # Actors.

    async def _make_topics(self) -> None:
        async with admin_of(self.world) as admin:
            new = [
                NewTopic(name=name, partitions=partitions, configs=self.settings.topic_configs[name])
                for name, partitions in self.settings.topics.items()
            ]
            await admin.create_topics(new)
            for name, found in (await admin.describe_topics(list(self.settings.topics))).items():
                assert not isinstance(found, KafkaError) and found.topic_id is not None, f"{name}: {found}"
                self.world.topic_ids[name] = found.topic_id
                self.ledger.topic_created(name, found.topic_id, len(found.partitions))

    def _make_actors(self) -> None:
        rng, settings, world = self.rng, self.settings, self.world
        partitions = [
            TopicPartition(topic, index) for topic, count in settings.topics.items() for index in range(count)
        ]
        for nth in range(settings.producers):
            own = rng.sample(partitions, rng.randint(1, len(partitions)))
            self.producers.append(Producer(world, f"producer-{nth}", own, big=settings.big_batches))
        # Compaction and retention would remove values that the reader of whole transactions expects.
        kept = [each for each in partitions if not each[0].startswith((COMPACTED, RETAINED))]
        for nth in range(settings.transactional_producers if kept else 0):
            producer = TransactionalProducer(world, f"transactional-{nth}", kept, new=rng.random() < 0.5)
            self.transactional_producers.append(producer)
        for nth in range(settings.consumers):
            own = rng.sample(partitions, rng.randint(1, len(partitions)))
            self.consumers.append(Consumer(world, f"consumer-{nth}", own, sessions=rng.random() < 0.6))
        protocols = random.Random(f"protocols of {self.seed}")
        share = protocols.choice((0.0, 0.5, 0.5, 1.0))
        for nth in range(settings.members):
            instance = f"instance-{nth}" if rng.random() < 0.3 else None
            # Half of the stories have members of both protocols, so that the group changes between the protocols.
            kind = ConsumerMember if protocols.random() < share else Member
            self.members.append(kind(world, f"member-{nth}", GROUP, settings.topics, instance=instance))

    # Faults.

    async def _trouble(self) -> None:
        end = self.loop.time() + TROUBLE_S
        for member in self.members:
            member.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._trouble_for_node(end))
            group.create_task(self._trouble_for_members(end))
            group.create_task(Administrator(self.world, TROUBLE_S).run())
        if not self.cluster.node.is_up:
            await self.cluster.node.start()
        await self._calm()

    async def _trouble_for_node(self, end: float) -> None:
        node, rng = self.cluster.node, self.rng
        possible = ["cut", "cut", "skew", "slow", "stop", "kill", *["power"] * 4, *["disk"] * 4]
        for trouble, happens in (("power", self.settings.power_fails), ("disk", self.settings.disk_fails)):
            possible = [each for each in possible if happens or each != trouble]
        while self.loop.time() < end:
            await asyncio.sleep(rng.random() * 3)
            if rng.random() < 0.7:
                await self._something_is_written()
            match rng.choice(possible):
                case "cut":
                    self.cluster.network.cut(rng.choice((0.3, 1.0)))
                case "stop" if node.is_up:
                    self.loop.note("clean stop")
                    await node.stop()
                case "power":
                    node.lose_power()
                    self.ledger.power_lost()
                    # After a loss of records, coordinators rightly log errors, because the partitions have newer data
                    # than the coordinators.
                    self.cluster.error_watch.tolerates = self.ledger.losses > 0
                case "skew":
                    node.clock.skew_ms += rng.choice((rng.randint(-500, 2000), rng.randint(-30_000, 30_000)))
                case "slow":
                    for nth in range(1, rng.randint(2, SLOW_CALLS)):
                        node.disk.fail(nth=nth, kind=FaultKind.SLOW)
                case "disk" if node.is_up:
                    await self._trouble_for_disk()
                case _:
                    node.kill()
            if not node.is_up:
                await asyncio.sleep(rng.choice((0.0, 0.5, 3.0)))
                # With a short limit, the next fault may happen before the node is ready.
                await node.start(rng.choice((None, 0.005, 0.02)))

    async def _something_is_written(self) -> None:
        """Waits for the next write, and returns before any client gets its answer.

        This is the worst moment for a fault.
        """
        before = self.ledger.batches_seen
        for _ in range(1000):
            if self.ledger.batches_seen != before:
                return
            await asyncio.sleep(0.0005)

    async def _trouble_for_disk(self) -> None:
        """Makes one disk call fail soon. Then repairs the disk and kills the node, which the caller starts again."""
        node, rng = self.cluster.node, self.rng
        operation, part = rng.choice(DISK_FAULTS)
        self.loop.note(f"{operation} of {part or 'anything'} will fail")
        self.cluster.error_watch.tolerates = True
        kind = rng.choice((FaultKind.ERROR, FaultKind.ERROR, FaultKind.FULL))
        node.disk.fail(operation, part, nth=rng.randint(1, 8), kind=kind)
        await asyncio.sleep(rng.random() * 2)
        node.disk.heal()
        node.kill()
        self.cluster.error_watch.tolerates = self.ledger.losses > 0

    async def _trouble_for_members(self, end: float) -> None:
        rng = self.rng
        while self.members and self.loop.time() < end:
            await asyncio.sleep(rng.random() * 2)
            member = rng.choice(self.members)
            member.raise_failure()
            match rng.randrange(4):
                case 0 if member.is_running:
                    member.die()
                case 1 if member.is_running:
                    member.leaving = True
                case 2 if member.is_running:
                    member.asleep = not member.asleep
                case _:
                    member.asleep = False
                    member.start()

    # Calm.

    async def _calm(self) -> None:
        """Waits until all actors finish, and until the group is stable and has read all records."""
        self.loop.note("calm")
        self.world.ending = True
        for member in self.members[:2]:
            member.asleep = False
            member.start()
        for member in self.members[2:]:
            member.asleep = False
            await member.stopped()
        await eventually(lambda: all(each.is_done for each in self.producers), CALM_S, "producers finish")
        if self.transactional_producers:
            await self._transactions_end()
        self.world.written = True
        await eventually(lambda: all(each.is_done for each in self.consumers), CALM_S, "consumers catch up")
        if self.members:
            await eventually(self._group_has_settled, CALM_S, "the group settles")
        for member in self.members:
            await member.stopped()

    async def _transactions_end(self) -> None:
        """Waits until open transactions have ended by their time-out, and checks them.

        Does nothing after a loss of records, because the coordinator may not know all transactions.
        """
        if self.ledger.losses:
            return
        names = [each for each in self.settings.topics if not each.startswith((COMPACTED, RETAINED))]
        partitions = [
            TopicPartition(name, index) for name in names for index in range(self.settings.topics[name])
        ]
        histories = self.ledger.histories
        await eventually(
            lambda: not any(histories[each].open_transactions for each in partitions if each in histories),
            CALM_S,
            "transactions end",
        )
        await check_atomic(self.world, self.transactional_producers, partitions)

    def _group_has_settled(self) -> bool:
        for member in self.members:
            member.raise_failure()
        owned = [each for member in self.members for each in member.owned]
        everything = [
            TopicPartition(topic, index)
            for topic, count in self.settings.topics.items()
            for index in range(count)
        ]
        return sorted(owned) == sorted(everything) and all(
            self.ledger.committed_offset(GROUP, each) >= self.ledger.end(each) for each in everything
        )

    async def _check_end(self) -> None:
        """Stops and starts the node once more. Nothing may be missing after that."""
        node = self.cluster.node
        assert node.running is not None, "trouble ends with a running broker"
        self.ledger.check_topics(node.running)
        await node.stop()
        await node.start()
        await asyncio.sleep(1.0)
