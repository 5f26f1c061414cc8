"""Three real processes: nodes log in to each other with each mechanism, and the rights of users stay when the active
controller dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kcli.client.admin.admin import AdminClient as KcliAdminClient
from kcli.client.config import client_config
from kcli.errors import KafkaError
from rigs import kerberos
from rigs.certificates import Certificates
from rigs.kerberos import REALM, Kerberos
from rigs.secure_cluster import AUTHORIZED, FAST, NODES, PATIENCE_S, PLAIN_USERS, SecureCluster, until

_REASON = kerberos.why_not()
pytestmark = [pytest.mark.compat, pytest.mark.skipif(_REASON is not None, reason=_REASON or "")]

NAMES = ("open", "closed")
NODE = "kafka/127.0.0.1"
"""The principal of all nodes: the service, and the host that the nodes advertise."""
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Kerberos]:
    directory = tmp_path / "kerberos"
    directory.mkdir()
    with kerberos.serving(directory) as served:
        yield served


def settings(realm: Kerberos) -> dict[str, str]:
    keytab = realm.keytab(NODE)
    return {
        **FAST,
        **AUTHORIZED,
        "super.users": "User:kafka;User:controller;User:admin",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.brokers.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.brokers.gssapi.sasl.jaas.config": f'{KERBEROS} keyTab="{keytab}" principal="{NODE}@{REALM}";',
        "listener.name.controller.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.controller.oauthbearer.sasl.jaas.config": (
            f'{BEARER} unsecuredLoginStringClaim_sub="controller";'
        ),
    }


def client(cluster: SecureCluster, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        "log_level": "0",
    }


def test_kerberos_and_bearer_links_and_rights_survive_the_active_controller(
    tmp_path: Path, realm: Kerberos
) -> None:
    protocols = dict.fromkeys(("CLIENTS", "BROKERS", "CONTROLLER"), "SASL_PLAINTEXT")
    cluster = SecureCluster(tmp_path / "cluster", protocols, settings(realm))
    with cluster.processes:
        admin = AdminClient(client(cluster, "admin"))
        for topic in admin.create_topics([NewTopic(name, 1, 3) for name in NAMES]).values():
            topic.result(PATIENCE_S)
        until(lambda: in_sync(admin) == {3}, "the followers have logged in to the leaders")
        may_write = AclBinding(
            ResourceType.TOPIC, "open", ResourcePatternType.LITERAL, "User:alice", "*",
            AclOperation.WRITE, AclPermissionType.ALLOW,
        )  # fmt: skip
        admin.create_acls([may_write])[may_write].result(PATIENCE_S)
        until(lambda: written(cluster, "open") == "", "each broker knows the ACL")
        assert "TOPIC_AUTHORIZATION_FAILED" in written(cluster, "closed")

        before = active_controller(cluster)
        cluster.nodes[before].kill()
        # No broker opens while no controller is active: the rights are in the metadata of each node.
        assert "TOPIC_AUTHORIZATION_FAILED" in written(cluster, "closed")
        assert asyncio.run(refused_to_create(cluster))
        until(lambda: active_controller(cluster) not in (-1, before), "another controller is active")
        assert asyncio.run(refused_to_create(cluster)), "the new controller has the ACLs"
        until(lambda: written(cluster, "open") == "", "the right is still there")
        assert "TOPIC_AUTHORIZATION_FAILED" in written(cluster, "closed")

        cluster.nodes[before].start()
        until(lambda: in_sync(admin) == {3}, "the node has logged in again")


MTLS = "mTLS"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def link_settings(listener: str, mechanism: str, realm: Kerberos) -> dict[str, str]:
    """The settings of a listener of nodes that log in with the mechanism, or by their certificates."""
    if mechanism == MTLS:
        return {f"listener.name.{listener}.ssl.client.auth": "required"}
    modules = {
        "PLAIN": PLAIN_USERS,
        "SCRAM-SHA-512": f'{SCRAM} username="node" password="node-secret";',
        "OAUTHBEARER": f'{BEARER} unsecuredLoginStringClaim_sub="node";',
        "GSSAPI": f'{KERBEROS} keyTab="{realm.keytab(NODE)}" principal="{NODE}@{REALM}";',
    }
    key = (
        "sasl.mechanism.controller.protocol"
        if listener == "controller"
        else "sasl.mechanism.inter.broker.protocol"
    )
    return {
        key: mechanism,
        f"listener.name.{listener}.sasl.enabled.mechanisms": mechanism,
        f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": modules[mechanism],
    }


@pytest.mark.parametrize(
    ("brokers", "controllers"), [("SCRAM-SHA-512", "GSSAPI"), ("OAUTHBEARER", MTLS), (MTLS, "PLAIN")]
)
def test_nodes_log_in_with_each_mechanism(
    tmp_path: Path, realm: Kerberos, certificates: Certificates, brokers: str, controllers: str
) -> None:
    kinds = {"CLIENTS": "PLAIN", "BROKERS": brokers, "CONTROLLER": controllers}
    protocols = {name: "SSL" if kind == MTLS else "SASL_PLAINTEXT" for name, kind in kinds.items()}
    config = FAST | AUTHORIZED | certificates.broker_config()
    config |= {
        "super.users": "User:admin;User:node;User:kafka;User:CN=localhost,O=x",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": PLAIN_USERS,
    }
    config |= link_settings("brokers", brokers, realm) | link_settings("controller", controllers, realm)
    cluster = SecureCluster(tmp_path / "cluster", protocols, config)
    with cluster.processes:
        admin = AdminClient(client(cluster, "admin"))
        if brokers.startswith("SCRAM"):
            # The links between the brokers try again until the user exists.
            credential = UserScramCredentialUpsertion(
                "node", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"node-secret"
            )
            admin.alter_user_scram_credentials([credential])["node"].result(PATIENCE_S)
        for topic in admin.create_topics([NewTopic(name, 1, 3) for name in NAMES]).values():
            topic.result(PATIENCE_S)
        until(lambda: in_sync(admin) == {3}, "the followers have logged in to the leaders")
        assert "TOPIC_AUTHORIZATION_FAILED" in written(cluster, "closed")


def in_sync(admin: AdminClient) -> set[int]:
    """The sizes of the ISRs. Empty if the broker that answers does not know the topics yet."""
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    if not topics.keys() >= set(NAMES):
        return set()
    return {len(part.isrs) for name in NAMES for part in topics[name].partitions.values()}


def written(cluster: SecureCluster, topic: str) -> str:
    """Writes a record as alice. Returns the name of the error, or an empty text."""
    failed: list[str] = []
    producer = Producer({**client(cluster, "alice"), "acks": "all", "message.timeout.ms": 20_000})

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error.name())  # type: ignore[attr-defined]

    producer.produce(topic, b"v", partition=0, on_delivery=delivered)
    producer.flush(PATIENCE_S)
    return failed[0] if failed else ""


def active_controller(cluster: SecureCluster) -> int:
    """The active controller, as a live broker knows it."""
    live = [node_id for node_id in NODES if cluster.nodes[node_id].process is not None]
    address = f"127.0.0.1:{cluster.ports[live[0], 'CLIENTS']}"

    async def ask() -> int:
        async with kcli_admin(cluster, "admin", address) as client:
            return (await client.describe_quorum()).leader_id

    try:
        return asyncio.run(ask())
    except (KafkaException, KafkaError):
        return -1


async def refused_to_create(cluster: SecureCluster) -> bool:
    """Whether alice, who may not create topics, is refused. Before a controller is active, the request waits."""
    from kcli.client.admin.topics import NewTopic as NewKcliTopic
    from kcli.errors import TopicAuthorizationException

    async with kcli_admin(cluster, "alice", cluster.bootstrap()) as client:
        (result,) = (await client.create_topics([NewKcliTopic(name="stolen", partitions=1)])).values()
        return isinstance(result, TopicAuthorizationException)


def kcli_admin(cluster: SecureCluster, user: str, servers: str) -> KcliAdminClient:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="{user}" password="{user}-secret";'
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
    }
    return KcliAdminClient(client_config(properties, bootstrap_servers=servers))
