"""The choices of a seed: the nodes of the cluster, their settings, the topics, the clients and the faults."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from kcli.model.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kcli.protocol.batches.compression import Codec
from simulation.actors.administrator import Topic
from simulation.actors.client import COMPACTED, RETAINED, UNCLEAN
from simulation.actors.exactly_once import Copying
from simulation.actors.producer import Load
from simulation.runtime.network import Weather
from simulation.world.cluster import BOTH, DATA
from simulation.world.group_part import GroupSettings

TOPIC = "replicated"
"""The topic that every story has. The members of groups and the copier read it."""
SMALL_SEGMENT_BYTES = "12000"
"""The size of the segments of topics whose old segments are deleted or compacted. It is a little more than the largest
batch of a producer."""
LARGE_SEGMENT_BYTES = "2000000"
BIG_VALUE_BYTES = 200_000
"""The size of some values in segments of LARGE_SEGMENT_BYTES."""
DAY_MS = "86400000"
NEVER_MS = "9223372036854775807"


class Kind(Enum):
    """What a story is about."""

    REPLICAS = "replicas"
    CONTROLLERS = "controllers"  # most faults hit the active controller, and clients change many topics
    ONE_NODE = "one node"  # a cluster of one


class Failing(Enum):
    """The kind of failure of the nodes in a story (one simulated run)."""

    KILLS = "kills"
    POWER = "power"  # any number of nodes, because every append is flushed
    # One node at a time, and only while all replicas are in sync: the other replicas then have its unflushed records.
    CAREFUL_POWER = "careful power"
    LOSSES = "losses"  # power of the only node, which flushes nothing: all its records may be lost
    DISKS = "disks"
    WIPES = "wipes"  # one broker at a time, and only while all replicas are in sync: it loses all its records


SEPARATE = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"}
COMBINED = {1: BOTH, 2: BOTH, 3: BOTH}
SHAPES: dict[Kind, tuple[dict[int, str], ...]] = {
    Kind.REPLICAS: (SEPARATE, SEPARATE, COMBINED, {**COMBINED, 4: "broker", 5: "broker"}),
    Kind.CONTROLLERS: (
        SEPARATE,
        SEPARATE,
        COMBINED,
        {1: BOTH, 2: "controller", 3: "controller", 4: "broker"},
    ),
    Kind.ONE_NODE: ({1: BOTH},),
}
"""The roles of the nodes."""
FAILURES: dict[Kind, tuple[Failing, ...]] = {
    Kind.REPLICAS: (
        Failing.KILLS,
        Failing.POWER,
        Failing.POWER,
        Failing.CAREFUL_POWER,
        Failing.DISKS,
        Failing.WIPES,
    ),
    Kind.CONTROLLERS: (Failing.POWER,),
    # A story has either failed flushes or losses of power. With both, a loss of power could remove data that clients
    # have read after a failed flush, as in Kafka.
    Kind.ONE_NODE: (
        Failing.KILLS,
        Failing.POWER,
        Failing.POWER,
        Failing.LOSSES,
        Failing.LOSSES,
        Failing.DISKS,
    ),
}
TROUBLE_S = {Kind.REPLICAS: 25.0, Kind.CONTROLLERS: 25.0, Kind.ONE_NODE: 10.0}
"""The length of the phase with faults."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a seed has chosen."""

    kind: Kind
    roles: dict[int, str]
    dynamic: bool
    """Whether the voters are in the metadata log (KIP-853)."""
    failing: Failing
    weather: Weather
    overrides: dict[str, str]
    topics: tuple[Topic, ...]
    load: Load
    consumers: int
    owners: int
    """The number of clients that create and delete topics."""
    spares: tuple[int, ...]
    """The ids of brokers that join while the faults happen."""
    copying: Copying | None
    transactions: tuple[bool, ...]
    """For each producer of transactions, whether it uses the second protocol (KIP-890)."""
    group: GroupSettings | None

    @classmethod
    def of(cls, seed: int, rng: random.Random) -> Settings:
        """Chooses the settings of a seed. Choices that were added later have their own random numbers, so that they do
        not change the earlier choices of the seed."""
        kind = kind_of(seed)
        group = GroupSettings.of(seed, is_one_node=kind is Kind.ONE_NODE)
        copying = Copying.of(seed)
        if kind is Kind.CONTROLLERS:  # these stories are about metadata
            group = copying = None
        failing = rng.choice(FAILURES[kind])
        roles = rng.choice(SHAPES[kind])
        spares = _spares(roles, random.Random(f"brokers {seed}")) if kind is Kind.REPLICAS else ()
        dynamic = rng.random() < 0.5
        weather = _weather(kind, rng)
        overrides = _overrides(kind, failing, replication_factor(roles), rng) | (
            group.overrides if group else {}
        )
        if kind is Kind.REPLICAS:
            overrides |= _directories(failing, random.Random(f"directories {seed}"))
        topics = _topics(kind, replication_factor(roles), rng)
        consumers = rng.randint(1, 2)
        owners = rng.random() < 0.3 or kind is not Kind.REPLICAS
        transactions = _transactions(kind, random.Random(f"transactions {seed}"))
        return cls(
            kind=kind,
            roles=roles | dict.fromkeys(spares, "broker"),
            dynamic=dynamic,
            failing=failing,
            weather=weather,
            overrides=overrides,
            topics=topics,
            load=_load(kind, topics, random.Random(f"load {seed}")),
            consumers=consumers,
            owners=3 if kind is Kind.CONTROLLERS else int(owners),
            spares=spares,
            # A copier reads everything that is written to its source, also open transactions of other producers.
            copying=None if transactions or failing is Failing.LOSSES else copying,
            transactions=transactions,
            group=group,
        )

    @property
    def replication_factor(self) -> int:
        """The replication factor of all topics that have no other one."""
        return replication_factor(self.roles)

    @property
    def compacted(self) -> tuple[str, ...]:
        """The topics that the cleaner compacts."""
        if self.overrides["log.cleaner.min.compaction.lag.ms"] == "0":
            return COMPACTED, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
        return (COMPACTED,)

    def rewrites(self, topic: str) -> bool:
        """Whether the broker compresses the batches of a topic again, or gives them timestamps."""
        return self.overrides.get("log.message.timestamp.type") == "LogAppendTime" or any(
            each.name == topic and each.configs.get("compression.type", "producer") != "producer"
            for each in self.topics
        )


def kind_of(seed: int) -> Kind:
    drawn = random.Random(f"kind {seed}").random()
    return Kind.ONE_NODE if drawn < 0.15 else Kind.CONTROLLERS if drawn < 0.3 else Kind.REPLICAS


def replication_factor(roles: dict[int, str]) -> int:
    return min(3, sum("broker" in each for each in roles.values()))


def _spares(roles: dict[int, str], rng: random.Random) -> tuple[int, ...]:
    return (max(roles) + 1,) if rng.random() < 0.3 else ()


def _weather(kind: Kind, rng: random.Random) -> Weather:
    if kind is Kind.ONE_NODE:
        return Weather(
            latency_s=rng.choice((0.0005, 0.01, 0.05)),
            spike_chance=rng.choice((0.0, 0.01, 0.1)),
            spike_s=rng.choice((0.05, 0.5)),
            cut_chance=rng.choice((0.0, 0.2, 0.8)),
        )
    many = kind is Kind.CONTROLLERS
    return Weather(
        latency_s=rng.choice((0.0005, 0.01 if many else 0.005)),
        spike_chance=rng.choice((0.0, 0.01, 0.05) if many else (0.0, 0.01)),
        spike_s=rng.choice((0.05, 0.5)),
        cut_chance=rng.choice((0.0, 0.2 if many else 0.1)),
    )


def _directories(failing: Failing, rng: random.Random) -> dict[str, str]:
    """A second log directory for some of the stories whose disks fail. A broker continues if it fails."""
    return {"log.dirs": f"{DATA},/more"} if failing is Failing.DISKS and rng.random() < 0.5 else {}


def _overrides(kind: Kind, failing: Failing, replicas: int, rng: random.Random) -> dict[str, str]:
    match kind:
        case Kind.REPLICAS:
            overrides = _replicated(rng, replicas)
        case Kind.CONTROLLERS:
            overrides = _replicated(rng, replicas) | _controllers(rng)
        case Kind.ONE_NODE:
            overrides = _one_node(rng)
    if failing is Failing.POWER:
        overrides["log.flush.interval.messages"] = "1"
    return overrides


def _in_sync(replicas: int) -> str:
    """The value of min.insync.replicas with which the loss of one replica stops no producer."""
    return "2" if replicas > 2 else "1"


def _replicated(rng: random.Random, replicas: int) -> dict[str, str]:
    return {
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
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": _in_sync(replicas),
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "min.insync.replicas": _in_sync(replicas),
        "log.roll.ms": rng.choice(("3000", "604800000")),
        "unclean.leader.election.interval.ms": "3000",
        # Only the topics of COMPACTED are compacted, because the batches of compacted replicas cannot be compared.
        "log.cleaner.min.compaction.lag.ms": DAY_MS,
        "log.cleaner.backoff.ms": "300",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": rng.choice(("0", "1000")),
    }


def _controllers(rng: random.Random) -> dict[str, str]:
    return {
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(("1", "2000", "20971520")),
        "metadata.max.idle.interval.ms": rng.choice(("500", "500", "0")),
        "broker.session.timeout.ms": rng.choice(("3000", "9000")),
        "broker.heartbeat.interval.ms": rng.choice(("500", "1000")),
    }


def _one_node(rng: random.Random) -> dict[str, str]:
    return {
        "log.dirs": rng.choice((DATA, DATA, f"{DATA},/more")),
        "offsets.topic.num.partitions": rng.choice(("1", "3")),
        "offsets.topic.compression.codec": rng.choice(("0", "1", "3")),
        "transaction.state.log.num.partitions": rng.choice(("1", "3")),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "log.index.interval.bytes": rng.choice(("100", "4096")),
        "log.message.timestamp.type": rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(("500", "60000")),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(("500", "5000")),
        "log.flush.scheduler.interval.ms": rng.choice(("300", NEVER_MS)),
        "log.roll.ms": rng.choice(("1500", "604800000")),
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(("1", "2000", "20971520")),
        "metadata.max.idle.interval.ms": rng.choice(("0", "500")),
        "connections.max.idle.ms": rng.choice(("3000", "600000")),
        # In half of the stories, the internal topics are compacted too.
        "log.cleaner.min.compaction.lag.ms": rng.choice(("0", DAY_MS)),
        "log.cleaner.backoff.ms": rng.choice(("100", "15000")),
        "log.cleaner.threads": rng.choice(("1", "2")),
        "log.retention.check.interval.ms": rng.choice(("300", "300000")),
        "log.segment.delete.delay.ms": rng.choice(("0", "1000", "60000")),
        "max.incremental.fetch.session.cache.slots": rng.choice(("1", "1000")),
    }


def _topics(kind: Kind, replicas: int, rng: random.Random) -> tuple[Topic, ...]:
    match kind:
        case Kind.REPLICAS:
            return _replicated_topics(rng)
        case Kind.CONTROLLERS:
            return (Topic(TOPIC, 1, replicas, {"min.insync.replicas": _in_sync(replicas)}),)
        case Kind.ONE_NODE:
            return _topics_of_one_node(rng)


def _replicated_topics(rng: random.Random) -> tuple[Topic, ...]:
    topics = [Topic(TOPIC, rng.randint(1, 3), 3, {"min.insync.replicas": "2"})]
    if rng.random() < 0.3:
        topics.append(Topic("pair", rng.randint(1, 2), 2, {"min.insync.replicas": "1"}))
    if rng.random() < 0.3:
        config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        topics.append(Topic(UNCLEAN, 1, rng.choice((2, 3)), config))
    if rng.random() < 0.25:
        limit = rng.choice(({"retention.bytes": "24000"}, {"retention.ms": "4000"}))
        config = {"min.insync.replicas": "2", "internal.segment.bytes": SMALL_SEGMENT_BYTES, **limit}
        topics.append(Topic(RETAINED, 1, 3, config))
    if rng.random() < 0.25:
        config = {
            "min.insync.replicas": "2",
            "internal.segment.bytes": SMALL_SEGMENT_BYTES,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.0",
            "min.compaction.lag.ms": "0",
        }
        topics.append(Topic(COMPACTED, 1, 3, config))
    return tuple(topics)


def _topics_of_one_node(rng: random.Random) -> tuple[Topic, ...]:
    names = [TOPIC, *(name for name in ("plain", RETAINED, COMPACTED) if rng.random() < 0.4)]
    segment_bytes = rng.choice(("20000", "100000", LARGE_SEGMENT_BYTES))
    return tuple(
        Topic(name, rng.randint(1, 3), 1, _config_of_one_node(name, segment_bytes, rng)) for name in names
    )


def _config_of_one_node(name: str, segment_bytes: str, rng: random.Random) -> dict[str, str]:
    config = {
        "internal.segment.bytes": segment_bytes,
        "compression.type": rng.choice(("producer", "producer", "lz4", "uncompressed")),
    }
    if name == COMPACTED:
        config |= {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": rng.choice(("0.0", "0.3")),
            "min.compaction.lag.ms": "0",
        }
    elif name == RETAINED:
        config["retention.bytes"] = "40000"
    return config


def _load(kind: Kind, topics: tuple[Topic, ...], rng: random.Random) -> Load:
    if kind is not Kind.ONE_NODE:
        return Load()
    value_bytes = (0, 10, 200, 3_000)
    is_roomy = all(topic.configs["internal.segment.bytes"] == LARGE_SEGMENT_BYTES for topic in topics)
    return Load(
        codecs=(Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD),
        # In some stories, one of forty batches is large.
        value_bytes=(*value_bytes * 10, BIG_VALUE_BYTES) if is_roomy and rng.random() < 0.5 else value_bytes,
        records_max=4,
        versions=(9, 11, 12, 13),
        has_keys=True,
    )


def _transactions(kind: Kind, rng: random.Random) -> tuple[bool, ...]:
    count = rng.choice((0, 0, 1, 2)) if kind is Kind.ONE_NODE else 0
    return tuple(rng.random() < 0.5 for _ in range(count))
