"""A cluster of three processes with TLS and SASL on every listener, also between the nodes.

The listener CLIENTS is for clients, BROKERS for the other brokers, and CONTROLLER for the controllers. The node's own
user is `node`, a super user. `alice` is a user without rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcli.local_cluster.ports import free_port
from kcli.testing.cluster_processes import ClusterProcesses

NODES = (1, 2, 3)
FAST = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin",
    "delegation.token.secret.key": "a secret of the cluster",
}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_USERS = (
    f'{_PLAIN} required username="node" password="node-secret" user_node="node-secret" '
    'user_admin="admin-secret" user_alice="alice-secret";'
)
SCRAM_NODE = f'{_SCRAM} required username="node" password="node-secret";'
SASL = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "plain.sasl.jaas.config": PLAIN_USERS,
    "scram-sha-256.sasl.jaas.config": SCRAM_NODE,
}


class SecureCluster:
    """Three nodes with the listeners CLIENTS, BROKERS and CONTROLLER. `protocols` has the protocol of each."""

    def __init__(
        self, directory: Path, protocols: Mapping[str, str], overrides: Mapping[str, str] | None = None
    ) -> None:
        self.processes = ClusterProcesses(directory, nodes=len(NODES), overrides=overrides)
        self.nodes = self.processes.nodes
        self.ports = {
            (node_id, name): free_port() for node_id in NODES for name in protocols if name != "CONTROLLER"
        }
        for node_id in NODES:
            self.nodes[node_id].overrides.update(self.listeners(node_id, protocols, "BROKERS"))

    def listeners(self, node_id: int, protocols: Mapping[str, str], inter_broker: str) -> dict[str, str]:
        """The listener keys of a node."""
        ports = {name: self.ports[node_id, name] for name in protocols if name != "CONTROLLER"}
        ports["CONTROLLER"] = self.nodes[node_id].controller_port
        uris = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        return {
            "listeners": uris,
            "advertised.listeners": uris,
            "inter.broker.listener.name": inter_broker,
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
        }

    def bootstrap(self, listener: str = "CLIENTS") -> str:
        return ",".join(f"127.0.0.1:{self.ports[node_id, listener]}" for node_id in NODES)
