"""The facts about a cluster at one moment, for the rules of the check-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kcli.client.admin.configs import ConfigEntry
from kcli.client.admin.features import FeatureDescription
from kcli.client.admin.log_dirs import LogDirDescription
from kcli.client.admin.quorum import QuorumDescription
from kcli.client.admin.topics import TopicDescription
from kcli.client.admin.transactions import ProducerState, TransactionDescription
from kcli.client.client import Node
from kcli.model.topic_partition import TopicPartition

TOPICS, REASSIGNMENTS, TOPIC_CONFIGS, BROKER_CONFIGS = (
    "topics",
    "reassignments",
    "topic configs",
    "broker configs",
)
LOG_DIRS, QUORUM, FEATURES, GROUPS = "log directories", "the quorum", "features", "groups"
STOPPED = "the unread records of groups"
TRANSACTIONS, HISTORY, LAST_RECORDS = "transactions", "the growth of partitions", "the last records of topics"
CERTIFICATES, METRICS = "certificates", "metrics"
"""The names of the parts of a snapshot in the report."""


@dataclass(frozen=True, slots=True)
class GroupLook:
    """One sample of a group: its state, and its epoch if its protocol has epochs."""

    group_id: str
    state: str
    epoch: int | None
    members: int


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """Several samples of one group, the oldest first."""

    looks: tuple[GroupLook, ...]

    @property
    def group_id(self) -> str:
        return self.looks[-1].group_id


@dataclass(frozen=True, slots=True)
class StoppedGroup:
    """A group without members. `unread` has the number of unread records of each partition, at most. At least one of
    them is older than `older_than_s`."""

    group_id: str
    unread: Mapping[TopicPartition, int]
    older_than_s: int


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The offsets of a partition. `start` is the first offset, and `end` the end offset now. `day_ago` and
    `at_retention` are the end offsets a day ago and at the beginning of the retention time.

    `at_retention` is None if records have no age limit.
    """

    start: int
    end: int
    day_ago: int
    at_retention: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction that no coordinator will end, in one of its partitions."""

    partition: TopicPartition
    producer: ProducerState


@dataclass(frozen=True, slots=True)
class ClientSoftware:
    """Clients of one broker that reported the same software."""

    broker: int
    name: str
    version: str
    connections: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of the brokers that no API of Kafka returns. `without` has the reason for each broker without figures."""

    clients: tuple[ClientSoftware, ...] = ()
    segments: Mapping[TopicPartition, int] = field(default_factory=dict)
    without: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster at one moment. `missing` has the reason for each part that could not be read.

    `clock_ahead_ms` is the time of the active controller minus the time of this machine. `clock_error_ms` is the
    largest possible error of this difference. `sampled_s` is the time between the first and the last sample of the
    groups. `read_topics` are the topics for which a group has committed an offset. `last_record_ms` has the time of the
    newest record of a topic, or -1 if the topic is empty.
    """

    time_ms: int
    cluster_id: str = ""
    controller_id: int = -1
    nodes: tuple[Node, ...] = ()
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    reassigning: frozenset[TopicPartition] = frozenset()
    topic_configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    topic_overrides: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names of the configs that a topic itself sets."""
    broker_configs: Mapping[int, tuple[ConfigEntry, ...]] = field(default_factory=dict)
    log_dirs: Mapping[int, tuple[LogDirDescription, ...]] = field(default_factory=dict)
    quorum: QuorumDescription | None = None
    clock_ahead_ms: int | None = None
    clock_error_ms: int = 0
    features: tuple[FeatureDescription, ...] = ()
    groups: tuple[GroupHistory, ...] = ()
    stopped: tuple[StoppedGroup, ...] = ()
    sampled_s: float = 0.0
    read_topics: frozenset[str] = frozenset()
    last_record_ms: Mapping[str, int] = field(default_factory=dict)
    long_transactions: tuple[TransactionDescription, ...] = ()
    hanging: tuple[HangingTransaction, ...] = ()
    history: Mapping[TopicPartition, PartitionHistory] = field(default_factory=dict)
    certificates: Mapping[str, datetime] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    missing: Mapping[str, str] = field(default_factory=dict)
