"""A running cluster moves its links from PLAINTEXT to TLS with a login, while a producer writes."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.rigs.certificates import Certificates
from rigs.secure_cluster import AUTHORIZED, FAST, PATIENCE_S, SASL, Load, SecureCluster, wait_in_sync

TOPIC, PARTITIONS = "moving", 3
PROTOCOLS = {
    "CLIENTS": "SASL_SSL",
    "OPEN": "PLAINTEXT",
    "TLS": "SSL",
    "LOGIN": "SASL_SSL",
    "CONTROLLER": "SASL_SSL",
}
# Each of the three identities of a node: without a login, by its certificate, and by its user.
SUPER_USERS = {"super.users": "User:ANONYMOUS;User:O=x,CN=localhost;User:node;User:admin"}


def test_links_move_to_tls_and_a_login_in_two_phases(tmp_path: Path, certificates: Certificates) -> None:
    overrides = FAST | SASL | AUTHORIZED | SUPER_USERS | certificates.broker_config()
    cluster = SecureCluster(
        tmp_path, PROTOCOLS, overrides, inter_broker="OPEN", first=("CLIENTS", "OPEN", "CONTROLLER")
    )
    config = {
        **certificates.librdkafka_config(protocol="sasl_ssl"),
        "bootstrap.servers": cluster.bootstrap(),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
        "log_level": 0,
    }
    with cluster.processes:
        admin = AdminClient(config)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)], request_timeout=PATIENCE_S)[TOPIC].result(
            PATIENCE_S
        )
        wait_in_sync(config)
        with Load(config, TOPIC, PARTITIONS) as load:
            cluster.roll(config, ("CLIENTS", "OPEN", "LOGIN", "CONTROLLER"), "OPEN")
            load.wait_for_more()
            cluster.roll(config, ("CLIENTS", "OPEN", "LOGIN", "CONTROLLER"), "LOGIN")
            load.wait_for_more()
        load.check()
