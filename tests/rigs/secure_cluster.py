"""A cluster of three processes with TLS and SASL on every listener, also between the nodes, and a load of records.

The listener CLIENTS is for clients, BROKERS for the other brokers, and CONTROLLER for the controllers. A test may name
more listeners. The node's own user is `node`, a super user. `alice` is a user without rights.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kcli.local_cluster.ports import free_ports
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


PATIENCE_S = 60.0
PAUSE_S = 0.02
"""The time between two records of the load. The load shows gaps, so it need not be heavy."""


class SecureCluster:
    """Three nodes. `protocols` has the security protocol of each listener."""

    def __init__(
        self,
        directory: Path,
        protocols: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        *,
        inter_broker: str = "BROKERS",
        first: Collection[str] | None = None,
    ) -> None:
        """The nodes begin with the listeners `first`, or with all of them."""
        self.protocols = dict(protocols)
        self.processes = ClusterProcesses(directory, nodes=len(NODES), overrides=overrides)
        self.nodes = self.processes.nodes
        named = [(node_id, name) for node_id in NODES for name in protocols if name != "CONTROLLER"]
        self.ports = dict(zip(named, free_ports(len(named)), strict=True))
        for node_id in NODES:
            self.listen(node_id, first or protocols, inter_broker)

    def listen(self, node_id: int, names: Collection[str], inter_broker: str) -> None:
        """Sets the listeners of a node for its next start."""
        ports = {name: self.ports[node_id, name] for name in names if name != "CONTROLLER"}
        if "CONTROLLER" in names:
            ports["CONTROLLER"] = self.nodes[node_id].controller_port
        uris = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        self.nodes[node_id].overrides |= {
            "listeners": uris,
            "advertised.listeners": uris,
            "inter.broker.listener.name": inter_broker,
            "listener.security.protocol.map": ",".join(
                f"{name}:{each}" for name, each in self.protocols.items()
            ),
        }

    def roll(self, config: Mapping[str, Any], names: Collection[str], inter_broker: str) -> None:
        """Restarts one node after the other with these listeners. Waits each time until all replicas are in sync."""
        for node_id in NODES:
            self.listen(node_id, names, inter_broker)
            self.nodes[node_id].restart()
            wait_in_sync(config)

    def bootstrap(self, listener: str = "CLIENTS") -> str:
        return ",".join(f"127.0.0.1:{self.ports[node_id, listener]}" for node_id in NODES)


@dataclass(slots=True)
class Load:
    """An idempotent producer with acks=all in its own thread. It writes the numbers 0, 1, 2 … to each partition."""

    config: Mapping[str, Any]
    topic: str
    partitions: int
    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    is_ending: bool = False
    _thread: threading.Thread | None = None

    def __enter__(self) -> Load:
        self.acknowledged = {partition: [] for partition in range(self.partitions)}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.is_ending = True
        assert self._thread is not None
        self._thread.join(2 * PATIENCE_S)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self) -> None:
        """Waits until each partition has acknowledged more records."""
        before = [len(values) for values in self.acknowledged.values()]
        until(
            lambda: all(
                len(values) > count for values, count in zip(self.acknowledged.values(), before, strict=True)
            ),
            "every partition takes records",
        )

    def _run(self) -> None:
        producer = Producer(
            {
                **self.config,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": 120_000,
            }
        )
        number = 0
        while not self.is_ending:
            for partition in range(self.partitions):
                producer.produce(self.topic, str(number), partition=partition, on_delivery=self._delivered)
            number += 1
            producer.poll(0)
            time.sleep(PAUSE_S)  # `poll` would return earlier, at the first acknowledgement
        if producer.flush(PATIENCE_S):
            self.failed.append("records are not answered")

    def _delivered(self, error: object, message: Message) -> None:
        partition, value = message.partition(), message.value()
        assert partition is not None and value is not None
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[partition].append(int(value))

    def check(self) -> None:
        """Fails unless each record was acknowledged, and is in its partition once and in order."""
        assert not self.failed, self.failed[:3]
        for partition, sent in self.acknowledged.items():
            assert sent == list(range(len(sent)))
            assert self._read(partition, len(sent)) == sent

    def _read(self, partition: int, count: int) -> list[int]:
        consumer = Consumer({**self.config, "group.id": "check", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING)])
        _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, partition), PATIENCE_S)
        assert end == count, f"partition {partition} has {end} records, and {count} were acknowledged"
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(1000, 1.0):
                value = message.value()
                assert message.error() is None and value is not None
                found.append(int(value))
        consumer.close()
        return found


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def wait_in_sync(config: Mapping[str, Any]) -> None:
    """Waits until every partition of the cluster has all of its replicas in the ISR."""
    admin = AdminClient(dict(config))

    def are_in_sync() -> bool:
        topics = admin.list_topics(timeout=PATIENCE_S).topics.values()
        partitions = [each for topic in topics for each in topic.partitions.values()]
        return bool(partitions) and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    until(are_in_sync, "all replicas are in sync")
