"""A running cluster changes the security of its links while a producer writes: from PLAINTEXT to TLS with a login, and
from one certificate authority to another."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from rigs.certificates import Certificates
from rigs.secure_cluster import AUTHORIZED, FAST, PATIENCE_S, SASL, Load, SecureCluster, until, wait_in_sync

TOPIC, PARTITIONS = "moving", 3
PROTOCOLS = {
    "CLIENTS": "SASL_SSL",
    "OPEN": "PLAINTEXT",
    "TLS": "SSL",
    "LOGIN": "SASL_SSL",
    "CONTROLLER": "SASL_SSL",
}
# Each of the three identities of a node: without a login, by its certificate, and by its user.
SUPER_USERS = {"super.users": "User:ANONYMOUS;User:CN=localhost,O=x;User:node;User:admin"}


def settings(cluster: SecureCluster, trusted: str) -> dict[str, Any]:
    """The settings of the user admin. `trusted` is a PEM file."""
    return {
        "bootstrap.servers": cluster.bootstrap(),
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": trusted,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
        "log_level": 0,
    }


def create_topic(config: dict[str, Any]) -> None:
    admin = AdminClient(config)
    created = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)], request_timeout=PATIENCE_S)
    created[TOPIC].result(PATIENCE_S)
    wait_in_sync(config)


def test_links_move_to_tls_and_a_login_in_two_phases(tmp_path: Path, certificates: Certificates) -> None:
    overrides = FAST | SASL | AUTHORIZED | SUPER_USERS | certificates.broker_config()
    cluster = SecureCluster(
        tmp_path, PROTOCOLS, overrides, inter_broker="OPEN", first=("CLIENTS", "OPEN", "CONTROLLER")
    )
    config = settings(cluster, certificates.authority.pem)
    with cluster.processes:
        create_topic(config)
        with Load(config, TOPIC, PARTITIONS) as load:
            cluster.roll(config, ("CLIENTS", "OPEN", "LOGIN", "CONTROLLER"), "OPEN")
            load.wait_for_more()
            cluster.roll(config, ("CLIENTS", "OPEN", "LOGIN", "CONTROLLER"), "LOGIN")
            load.wait_for_more()
        load.check()


def test_certificates_and_their_authority_change_while_a_producer_writes(
    tmp_path: Path, certificates: Certificates
) -> None:
    """The three steps of a change of authority: all nodes trust both, then use new certificates, then trust only the
    new one. No node restarts meanwhile."""
    old, new = certificates.authority.text, certificates.other_authority.text
    stores = Stores(tmp_path)
    stores.write(certificates.server.pem, old)
    both = tmp_path / "both.pem"
    both.write_text(old + new)
    protocols = {"CLIENTS": "SASL_SSL", "BROKERS": "SSL", "CONTROLLER": "SSL"}
    names = {f"listener.name.{name}.ssl.client.auth": "required" for name in ("brokers", "controller")}
    overrides = FAST | SASL | AUTHORIZED | SUPER_USERS | stores.config | names
    cluster = SecureCluster(tmp_path / "cluster", protocols, overrides)
    config = settings(cluster, str(both))
    with cluster.processes:
        create_topic(config)
        with Load(config, TOPIC, PARTITIONS) as load:
            for number, (key, trusted) in enumerate(
                (
                    (certificates.server.pem, old + new),
                    (certificates.server_other.pem, old + new),
                    (certificates.server_other.pem, new),
                ),
                1,
            ):
                stores.write(key, trusted)
                look_at_files(cluster, config, number)
                load.wait_for_more()
            # All links to this node are new, in both directions.
            cluster.nodes[1].restart()
            wait_in_sync(config)
            load.wait_for_more()
        load.check()


class Stores:
    """The key store and the trust store that all nodes use."""

    def __init__(self, directory: Path) -> None:
        self._keys, self._trusted = directory / "node.pem", directory / "trusted.pem"

    @property
    def config(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keys),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._trusted),
        }

    def write(self, keys: str, trusted: str) -> None:
        """Replaces the files, each at once. `keys` is a file, and `trusted` is PEM text."""
        for path, text in ((self._trusted, trusted), (self._keys, Path(keys).read_text())):
            if not path.exists() or path.read_text() != text:
                written = path.with_suffix(".new")
                written.write_text(text)
                os.replace(written, path)


def look_at_files(cluster: SecureCluster, config: dict[str, Any], times: int) -> None:
    """Changes the configuration of each broker, which then looks at its files. Waits until every listener of every
    node has loaded its files so many times."""
    admin = AdminClient(config)
    for node_id, node in cluster.nodes.items():
        entry = ConfigEntry(
            "message.max.bytes", str(1_000_000 + times), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, str(node_id), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        until(partial(_has_loaded, node.log_path, times), "the listeners have loaded their files")


def _has_loaded(log: Path, times: int) -> bool:
    return log.read_text().count("uses new certificates") >= 3 * times
