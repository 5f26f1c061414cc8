"""The layout of a new cluster on one machine: the roles, ports, racks and properties of its nodes.

Each node is a broker. The first nodes are also voters of the quorum. The number of voters is odd, because a fourth
voter does not help: four voters survive one failure, and three voters survive one failure too. The number is as large
as possible, but at most MAX_VOTERS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import KcliError
from kcli.model.addresses import MAX_PORT

HOST = "127.0.0.1"
"""The address of all listeners. Other machines cannot reach it, because the listeners have no security."""
MAX_VOTERS = 5
"""With five voters the quorum survives two failures. Each further voter delays the commit of metadata."""
MAX_NODES = 100
"""The most nodes of one machine. Each node is a process of about 45 MB."""
MAX_REPLICAS = 3
"""The most replicas of a topic by default, as in Kafka's defaults for its internal topics."""
CONTROLLER, PLAINTEXT = "CONTROLLER", "PLAINTEXT"
NO_OP_INTERVAL_MS = 5000
"""The interval of no-op records in the metadata log. Each record costs CPU time on all nodes of the machine. With
Kafka's interval of 500 ms, an idle cluster takes 1.5 times as much CPU time.
"""
DEFAULT_REPLICATION_FACTOR = "default.replication.factor"
REPLICATION_FACTOR_KEYS = (
    DEFAULT_REPLICATION_FACTOR,
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
MIN_ISR_KEYS = (
    "min.insync.replicas",
    "share.coordinator.state.topic.min.isr",
    "transaction.state.log.min.isr",
)


class ClusterError(KcliError):
    """Raised if a cluster cannot be created, started or stopped. The message names the option, file or node that causes
    the error.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """One node. The port of a role is None if the node does not have this role."""

    node_id: int
    broker_port: int | None
    controller_port: int | None
    rack: str | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.broker_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(port for port in (self.broker_port, self.controller_port) if port is not None)


def voters_of(nodes: int) -> int:
    """Returns the number of voters: 1 for one or two nodes, 3 for three or four nodes, and 5 for more nodes."""
    return min(nodes - (nodes + 1) % 2, MAX_VOTERS)


def ports_needed(nodes: int) -> int:
    return nodes + voters_of(nodes)


def consecutive_ports(base: int, nodes: int) -> list[int]:
    """Returns consecutive ports from `base` on: first the brokers' ports by node id, then the voters' ports."""
    last = base + ports_needed(nodes) - 1
    if base < 1 or last > MAX_PORT:
        raise ClusterError(
            f"--port {base}: expected 1 to {MAX_PORT - ports_needed(nodes) + 1} for {nodes} nodes"
        )
    return list(range(base, last + 1))


def plan_nodes(nodes: int, ports: Sequence[int], racks: Sequence[str]) -> tuple[NodeLayout, ...]:
    """Returns the nodes with the ids 1, 2 … `ports` is in the order of `consecutive_ports`.

    The first node gets the first rack, the second node the second rack, and so on. After the last rack, the first rack
    follows. Raises ClusterError for an invalid number of nodes or racks.
    """
    check_nodes(nodes)
    if not 1 <= len(racks) <= nodes or not all(racks):
        raise ClusterError(f"--racks {','.join(racks)}: expected 1 to {nodes} names, separated by commas")
    voters = voters_of(nodes)
    return tuple(
        NodeLayout(
            node_id=index + 1,
            broker_port=ports[index],
            controller_port=ports[nodes + index] if index < voters else None,
            rack=racks[index % len(racks)],
        )
        for index in range(nodes)
    )


def check_nodes(nodes: int) -> None:
    if not 1 <= nodes <= MAX_NODES:
        raise ClusterError(f"--nodes {nodes}: expected 1 to {MAX_NODES}")


def node_properties(node: NodeLayout, nodes: Sequence[NodeLayout], data: Path | str) -> dict[str, str]:
    """Returns the properties of one of the nodes. `data` is its log directory."""
    listeners = []
    if node.broker_port is not None:
        listeners.append(f"{PLAINTEXT}://{HOST}:{node.broker_port}")
    if node.controller_port is not None:
        listeners.append(f"{CONTROLLER}://{HOST}:{node.controller_port}")
    roles = [role for role, port in _roles(node) if port is not None]
    voters = [f"{HOST}:{layout.controller_port}" for layout in nodes if layout.controller_port is not None]
    properties = {
        "process.roles": ",".join(roles),
        "node.id": str(node.node_id),
        "controller.quorum.bootstrap.servers": ",".join(voters),
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(listeners),
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,{PLAINTEXT}:PLAINTEXT",
        "log.dirs": str(data),
    }
    if node.broker_port is not None:
        properties["inter.broker.listener.name"] = PLAINTEXT
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    properties |= replication(sum(layout.broker_port is not None for layout in nodes))
    if node.controller_port is None:
        del properties[DEFAULT_REPLICATION_FACTOR]  # only controllers read it
    else:
        properties["metadata.max.idle.interval.ms"] = str(NO_OP_INTERVAL_MS)
    return properties


def replication(brokers: int) -> dict[str, str]:
    """Returns the properties about replicas. Topics have as many replicas as there are brokers, but at most three. With
    three replicas, writes succeed if one replica is missing.
    """
    replicas = min(brokers, MAX_REPLICAS)
    min_isr = max(1, replicas - 1)
    return dict.fromkeys(REPLICATION_FACTOR_KEYS, str(replicas)) | dict.fromkeys(MIN_ISR_KEYS, str(min_isr))


def _roles(node: NodeLayout) -> tuple[tuple[str, int | None], ...]:
    return (("broker", node.broker_port), ("controller", node.controller_port))
