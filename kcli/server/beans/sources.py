"""The sources of the beans, and the domains of Kafka's object names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.server.beans.bean import Bean
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.coordinators.group_lag import GroupLagSampler
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.transaction_verification import TransactionVerifier
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.metrics.metrics import Metrics
from kcli.server.network.listener import SocketServer
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.partitions.fetch_sessions import FetchSessions
from kcli.server.partitions.fetchers import ReplicaFetchers
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import ReplicationQuota
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.channel import NodeChannel
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.counts import PartitionCounts
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.view import QuorumView
from kcli.server.requests.quotas import ClientQuotas
from kcli.storage.store.store import LogStore

SERVER, NETWORK, CONTROLLER, LOG, CLUSTER = (
    "kafka.server",
    "kafka.network",
    "kafka.controller",
    "kafka.log",
    "kafka.cluster",
)
GROUP, TRANSACTION, UTILS = "kafka.coordinator.group", "kafka.coordinator.transaction", "kafka.utils"
ASSIGNMENTS = "org.apache.kafka.server"

# The domain of beans that Kafka does not have, for a process without a JVM.
OWN = "kcli"

Beans = Iterator[Bean | None]
"""Beans, each made when the caller asks for it. If the next bean needs more time, the iterator first yields None, so
that the caller can do other work."""

STEPS_PER_PAUSE = 200
"""Partitions, topics or groups that are counted between two pauses. Each of them takes 0.2 to 5 µs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSources:
    """The parts of a broker that the beans read. The fields are filled by name from what the parts of the node offer.
    `marker_links` are the connections over which markers are sent to other brokers.
    """

    config: BrokerConfig
    clock: Clock
    loader: MetadataLoader
    metrics: Metrics
    assignments: DirectoryAssignments
    cleaning: LogCleaning
    fetch_sessions: FetchSessions
    fetchers: ReplicaFetchers
    group_lag: GroupLagSampler | None
    groups: GroupCoordinator
    leader_quota: ReplicationQuota
    lifecycle: BrokerLifecycle
    marker_links: BrokerLinks
    replicas: Replicas
    transactions: TransactionCoordinator
    verifier: TransactionVerifier

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def metadata(self) -> MetadataImage:
        """The committed metadata."""
        return self.loader.image


@dataclass(frozen=True, slots=True, kw_only=True)
class BeanSources:
    """The parts of a node that the beans read. The fields are filled by name from what the parts of the node offer.
    `controller` and `partition_counts` are None on a node without the controller role, and `broker` is None on a node
    without the broker role. `channels` has the connections to the active controller. The key is the purpose of the
    connection, such as forwarding. The type of the bean is the purpose with the ending `-metrics`.
    """

    config: BrokerConfig
    clock: Clock
    loader: MetadataLoader
    metrics: Metrics
    quorum: QuorumView
    raft: Quorum
    logs: LogStore
    sockets: SocketServer
    quotas: ClientQuotas
    channels: Mapping[str, NodeChannel]
    is_ready: Callable[[], bool]
    controller: ControllerRole | None
    partition_counts: PartitionCounts | None
    broker: BrokerSources | None

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def metadata(self) -> MetadataImage:
        """The committed metadata."""
        return self.loader.image

    @property
    def now(self) -> float:
        """The present time of the clock that all meters use, in seconds."""
        return self.metrics.clock.monotonic()
