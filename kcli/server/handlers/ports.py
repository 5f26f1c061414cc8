"""The parts of the node that handlers may use. Handlers never get the node itself.

A handler declares the parts that it uses as the fields of its class `Ports`, with the names of the fields here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.metadata.image import MetadataImage
from kcli.protocol.wire.api import ApiKey
from kcli.replica.selector import Selector
from kcli.runtime.clock import Clock
from kcli.runtime.limited_lines import LimitedLines
from kcli.runtime.rng import Rng
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.topic_creation import TopicCreator
from kcli.server.coordinators.transaction_markers import MarkerWriter
from kcli.server.coordinators.transaction_verification import TransactionVerifier
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.handlers.shared.config_answers import ConfigAnswers
from kcli.server.handlers.shared.topic_answers import TopicAnswers
from kcli.server.handlers.shared.visible_topics import VisibleTopics
from kcli.server.metrics.metrics import Metrics
from kcli.server.partitions.fetch_sessions import FetchSessions
from kcli.server.partitions.fetchers import ReplicaFetchers
from kcli.server.partitions.log_dir_moves import LogDirMoves
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import ReplicationQuota
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.producer_ids import ProducerIds
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.remote_controller import ApiRanges
from kcli.server.quorum.view import QuorumView
from kcli.server.requests.forwarding import ForwardedCaller
from kcli.storage.store.store import LogStore

if TYPE_CHECKING:
    from kcli.server.coordinators.group_lag import GroupLagSampler


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The parts of a node that exist with any roles."""

    config: BrokerConfig
    dynamic_config: DynamicConfig
    clock: Clock
    rng: Rng
    loader: MetadataLoader
    channel: ControllerChannel
    quorum: QuorumView
    raft: Quorum
    metrics: Metrics
    served_on: Callable[[str], tuple[ApiKey, ...]]
    """Returns the APIs that are served on the listener with this name."""
    serve_forwarded: Callable[[bytes, ForwardedCaller], Awaitable[bytes]]
    """Serves a request from an Envelope, on the listeners of a controller (KIP-590)."""
    controller_versions: Callable[[], ApiRanges] = dict
    """Returns the API versions of the active controller, because a broker forwards requests to this controller. The
    result is empty if the versions are unknown."""
    config_answers: ConfigAnswers = field(default_factory=ConfigAnswers)

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def metadata(self) -> MetadataImage:
        """The committed metadata."""
        return self.loader.image


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts(NodePorts):
    """The parts of a node with the broker role: the parts in `NodePorts`, and the following."""

    logs: LogStore
    replicas: Replicas
    fetchers: ReplicaFetchers
    moves: LogDirMoves
    fetch_sessions: FetchSessions
    fetch_max_bytes: int
    replica_selector: Selector
    leader_quota: ReplicationQuota
    groups: GroupCoordinator
    group_lag: GroupLagSampler | None
    transactions: TransactionCoordinator
    verifier: TransactionVerifier
    markers: MarkerWriter
    producer_ids: ProducerIds
    topics: TopicCreator
    topic_answers: TopicAnswers = field(default_factory=TopicAnswers)
    visible_topics: VisibleTopics = field(default_factory=VisibleTopics)
    refused_batches: LimitedLines = field(default_factory=LimitedLines)
    """The lines about batches of clients that are refused."""
    damaged_batches: LimitedLines = field(default_factory=LimitedLines)
    """The lines about fetches that found damaged batches."""


PortsT = TypeVar("PortsT", NodePorts, BrokerPorts)


def ports_of(kind: type[PortsT], offers: Mapping[str, object]) -> PortsT:
    """Fills the ports by name from the objects that the node offers."""
    offered: dict[str, Any] = {each.name: offers[each.name] for each in fields(kind) if each.name in offers}
    return kind(**offered)
