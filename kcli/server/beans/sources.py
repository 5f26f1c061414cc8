"""The sources of the beans, and the domains of Kafka's object names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kcli.server.beans.bean import Bean
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.handlers.ports import BrokerPorts, NodePorts
from kcli.server.network.listener import SocketServer
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.channel import NodeChannel
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.counts import PartitionCounts
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
class BrokerParts:
    """The parts of the broker role that only beans read. The other parts are in `BrokerPorts`. `links` has the
    connections to other brokers. The key is the purpose of the connections, such as txn-marker-channel. The type of the
    bean is the purpose with the ending `-metrics`.
    """

    cleaning: LogCleaning
    lifecycle: BrokerLifecycle
    assignments: DirectoryAssignments
    links: Mapping[str, BrokerLinks]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeanSources:
    """The parts of a node that the beans read. In a broker, `ports` is a `BrokerPorts` and `parts` is not None.
    `channels` has the connections to the active controller. The key is the purpose of the connection, such as
    forwarding. The type of the bean is the purpose with the ending `-metrics`.
    """

    ports: NodePorts
    sockets: SocketServer
    logs: LogStore
    quotas: ClientQuotas
    controller: ControllerRole | None
    partition_counts: PartitionCounts | None
    parts: BrokerParts | None
    channels: Mapping[str, NodeChannel]
    is_ready: Callable[[], bool]

    @property
    def broker(self) -> BrokerPorts | None:
        """The ports of the broker role, if this node has it."""
        return self.ports if isinstance(self.ports, BrokerPorts) else None

    @property
    def now(self) -> float:
        """The present time of the clock that all meters use, in seconds."""
        return self.ports.metrics.clock.monotonic()
