"""Three real processes whose links to each other need a login: replication, coordinators, forwarding, fail-over."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from kcli.client.admin.admin import AdminClient as KcliAdminClient
from kcli.client.config import ClientConfig
from kcli.errors import SaslAuthenticationException
from kcli.model.addresses import Address
from kcli.security.client import client_security
from rigs.certificates import Certificates
from rigs.secure_cluster import AUTHORIZED, FAST, SASL, SecureCluster

PATIENCE_S = 30.0
TOPIC, PARTITIONS = "orders", 3


def settings(cluster: SecureCluster, certificates: Certificates) -> dict[str, Any]:
    return {
        **certificates.librdkafka_config(protocol="sasl_ssl"),
        "bootstrap.servers": cluster.bootstrap(),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
        "log_level": 0,
    }


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def produce(config: dict[str, Any], values: range, **more: Any) -> None:
    producer = Producer({**config, "acks": "all", "enable.idempotence": True, **more})
    failed: list[object] = []
    if "transactional.id" in more:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    for value in values:
        producer.produce(
            TOPIC,
            str(value),
            partition=value % PARTITIONS,
            on_delivery=lambda error, _message: failed.append(error) if error else None,
        )
    if "transactional.id" in more:
        producer.commit_transaction(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def consumed(config: dict[str, Any], count: int, group: str) -> list[int]:
    """The values that a new group reads, after its offsets are committed."""
    consumer = Consumer(
        {**config, "group.id": group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    )
    consumer.subscribe([TOPIC])
    values: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(int(message.value()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(values)


def states(admin: AdminClient) -> dict[int, tuple[int, int]]:
    """The leader and the size of the ISR of each partition."""
    partitions = admin.list_topics(TOPIC, PATIENCE_S).topics[TOPIC].partitions
    return {number: (each.leader, len(each.isrs)) for number, each in partitions.items()}


def test_all_links_of_a_cluster_log_in_over_tls(tmp_path: Path, certificates: Certificates) -> None:
    protocols = dict.fromkeys(("CLIENTS", "BROKERS", "CONTROLLER"), "SASL_SSL")
    cluster = SecureCluster(tmp_path, protocols, FAST | SASL | AUTHORIZED | certificates.broker_config())
    with cluster.processes:
        config = settings(cluster, certificates)
        admin = AdminClient(config)
        created = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)], request_timeout=PATIENCE_S)
        created[TOPIC].result(PATIENCE_S)
        produce(config, range(300))
        until(lambda: {size for _, size in states(admin).values()} == {3}, "all replicas are in sync")
        # The markers of a transaction go to leaders on all three nodes.
        produce(config, range(300, 330), **{"transactional.id": "t"})
        assert consumed(config, 330, "first") == list(range(330))
        _alter_over_each_node(cluster, config)
        asyncio.run(_use_a_token_on_each_node(cluster, certificates))
        killed, _ = states(admin)[0]
        cluster.nodes[killed].kill()
        until(lambda: all(leader not in (-1, killed) for leader, _ in states(admin).values()), "new leaders")
        produce(config, range(330, 600))
        assert consumed(config, 600, "second") == list(range(600))
        cluster.nodes[killed].start()
        until(lambda: {size for _, size in states(admin).values()} == {3}, "the node has caught up")


def _alter_over_each_node(cluster: SecureCluster, config: dict[str, Any]) -> None:
    """Sends a request for the controller to each node, so that at least two of them forward it."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ResourceType

    for node_id in cluster.nodes:
        admin = AdminClient({**config, "bootstrap.servers": f"127.0.0.1:{cluster.ports[node_id, 'CLIENTS']}"})
        entry = ConfigEntry(
            "retention.ms", str(1_000_000 + node_id), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


async def _use_a_token_on_each_node(cluster: SecureCluster, certificates: Certificates) -> None:
    """Creates a token over one node, and logs in with it on every node. The node must have read the metadata, which
    may take a moment."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    async with _admin(
        cluster, 1, certificates, "PLAIN", f'{plain} username="alice" password="alice-secret";'
    ) as alice:
        token = await alice.create_delegation_token()
    password = base64.b64encode(token.hmac).decode()
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    jaas = f'{scram} username="{token.token_id}" password="{password}" tokenauth=true;'
    for node_id in cluster.nodes:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            async with _admin(cluster, node_id, certificates, "SCRAM-SHA-256", jaas) as by_token:
                try:
                    assert await by_token.list_topics() == [], "alice may see no topic"
                    break
                except SaslAuthenticationException:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.1)


def _admin(
    cluster: SecureCluster, node_id: int, certificates: Certificates, mechanism: str, jaas: str
) -> KcliAdminClient:
    properties = certificates.client_config(protocol="SASL_SSL")
    properties |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    address = Address("127.0.0.1", cluster.ports[node_id, "CLIENTS"])
    return KcliAdminClient(ClientConfig(servers=(address,), security=client_security(properties)))


def test_a_node_with_a_wrong_password_does_not_join(tmp_path: Path) -> None:
    protocols = {"CLIENTS": "PLAINTEXT", "BROKERS": "SASL_PLAINTEXT", "CONTROLLER": "SASL_PLAINTEXT"}
    cluster = SecureCluster(tmp_path, protocols, FAST | SASL)
    stranger = cluster.nodes[3]
    wrong = SASL["plain.sasl.jaas.config"].replace('password="node-secret" user', 'password="guess" user')
    stranger.overrides |= {"plain.sasl.jaas.config": wrong, "initial.broker.registration.timeout.ms": "2000"}
    with pytest.raises(RuntimeError):
        cluster.processes.start()
    try:
        log = stranger.log_path.read_text()
        assert "Invalid username or password" in log
        assert "guess" not in log
        assert (
            len(AdminClient({"bootstrap.servers": cluster.bootstrap()}).list_topics(timeout=10).brokers) == 2
        )
    finally:
        cluster.processes.kill()
