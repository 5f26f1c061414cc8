"""Certificates that change while a node runs: by AlterConfigs with the texts of Kafka 4.1, and by their files."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.model.configs import ConfigOperation, ConfigResourceType
from kcli.protocol.messages import incremental_alter_configs as alter
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.wire.api import ApiKey
from rigs.certificates import LOOPBACK_HOSTS, STORE_PASSWORD, Certificates, Issued
from rigs.loops import until
from rigs.node import RunningNode, connect, with_node
from rigs.tls import LISTENERS, context_of
from rigs.wire_client import Client

LOCALHOST = (("CN", "localhost"), ("O", "x"))
STORE = "listener.name.ssl.ssl.keystore.location"
FAILED = (
    "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of SSLFactory "
    "failed: org.apache.kafka.common.config.ConfigException: "
)
ENDING = " for configuration Invalid dynamic configuration"


def config_of(certificates: Certificates, store: str | None = None, **more: str) -> dict[str, str]:
    """A node whose listener SSL has a key store of its own."""
    found = LISTENERS | {"inter.broker.listener.name": "PLAINTEXT"}
    found |= {f"listener.name.ssl.{name}": value for name, value in certificates.broker_config().items()}
    return found | ({STORE: store} if store else {}) | more


async def change(node: RunningNode, **values: str) -> str | None:
    """Alters the configs of the broker. Returns the message of the error, or None."""
    client = await connect(node)
    configs = tuple(
        alter.AlterableConfig(name=name, config_operation=ConfigOperation.SET, value=value)
        for name, value in values.items()
    )
    resource = alter.AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name="1", configs=configs
    )
    request = alter.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    response = await client.call(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    (result,) = response.responses
    assert (result.error_code is ErrorCode.NONE) == (result.error_message is None)
    return result.error_message


async def shown(node: RunningNode, certificates: Certificates) -> bytes:
    """The certificate that the node shows to a new client."""
    client = await connect(node, "SSL", context_of(certificates))
    tls = client.writer.get_extra_info("ssl_object")
    assert isinstance(tls, ssl.SSLObject)
    await is_served(client)
    client.close()
    found = tls.getpeercert(binary_form=True)
    assert found is not None
    return found


async def is_served(client: Client) -> None:
    response = await client.call(DescribeClusterRequest(), ApiKey.DESCRIBE_CLUSTER, 1)
    assert response.error_code is ErrorCode.NONE


def der(issued: Issued) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return issued.certificate.public_bytes(Encoding.DER)


def test_a_new_key_store_is_used_for_new_connections_only(tmp_path: Path, certificates: Certificates) -> None:
    following = certificates.authority.issue("following", LOCALHOST, hosts=LOOPBACK_HOSTS)

    async def story(node: RunningNode) -> None:
        old = await connect(node, "SSL", context_of(certificates))
        assert await shown(node, certificates) == der(certificates.server)
        assert await change(node, **{STORE: following.pem}) is None
        await until(lambda: node.dynamic_config.current.texts[STORE] == following.pem)
        assert await shown(node, certificates) == der(following)
        await is_served(old)

    with_node(tmp_path, story, **config_of(certificates))


def test_a_store_may_change_its_type(tmp_path: Path, certificates: Certificates) -> None:
    following = certificates.authority.issue("as-pkcs12", LOCALHOST, hosts=LOOPBACK_HOSTS)

    async def story(node: RunningNode) -> None:
        prefix = "listener.name.ssl.ssl.keystore."
        values = {"type": "PKCS12", "location": following.pkcs12(), "password": STORE_PASSWORD}
        assert await change(node, **{prefix + name: value for name, value in values.items()}) is None
        await until(lambda: node.dynamic_config.current.texts[STORE] == following.pkcs12())
        assert await shown(node, certificates) == der(following)

    with_node(tmp_path, story, **config_of(certificates))


def test_another_pkcs12_store_is_loaded_in_a_thread(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library checks the primes of an RSA key for up to 0.3 s, and the event loop must not wait for it."""
    from cryptography.hazmat.primitives.serialization import pkcs12

    following = certificates.authority.issue("from-a-thread", LOCALHOST, hosts=LOOPBACK_HOSTS)
    prefix = "listener.name.ssl.ssl.keystore."
    values = {"type": "PKCS12", "location": following.pkcs12(), "password": STORE_PASSWORD}
    threads: list[int] = []
    load = pkcs12.load_pkcs12

    def watched(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return load(*arguments)

    async def story(node: RunningNode) -> None:
        monkeypatch.setattr(pkcs12, "load_pkcs12", watched)
        wrong = values | {"password": "wrong"}
        assert await change(node, **{prefix + name: value for name, value in wrong.items()}) is not None
        assert threading.get_ident() != threads[0]
        threads.clear()
        assert await change(node, **{prefix + name: value for name, value in values.items()}) is None
        await until(lambda: node.dynamic_config.current.texts[STORE] == following.pkcs12())
        assert await shown(node, certificates) == der(following)
        assert len(threads) == 1 and threading.get_ident() not in threads

    with_node(tmp_path, story, **config_of(certificates))


def test_client_auth_may_change(tmp_path: Path, certificates: Certificates) -> None:
    async def story(node: RunningNode) -> None:
        await shown(node, certificates)
        assert await change(node, **{"listener.name.ssl.ssl.client.auth": "required"}) is None
        await until(lambda: "listener.name.ssl.ssl.client.auth" in node.dynamic_config.current.texts)
        with pytest.raises((OSError, EOFError)):
            await shown(node, certificates)

    with_node(tmp_path, story, **config_of(certificates))


def test_other_names_are_refused_with_the_texts_of_kafka(tmp_path: Path, certificates: Certificates) -> None:
    other_name = certificates.authority.issue("other-dn", (("CN", "other"), ("O", "x")), hosts=LOOPBACK_HOSTS)
    fewer_hosts = certificates.authority.issue("other-san", LOCALHOST, hosts=("localhost",))

    async def story(node: RunningNode) -> None:
        assert await change(node, **{STORE: other_name.pem}) == (
            f"{FAILED}Keystore DistinguishedName does not match:  existing={{alias=kafka, DN=CN=localhost, O=x}}, "
            f"new={{alias=kafka, DN=CN=other, O=x}}{ENDING}"
        )
        assert await change(node, **{STORE: fewer_hosts.pem}) == (
            f"{FAILED}Keystore SubjectAltNames do not match:  existing={{alias=kafka, SAN=[[2, localhost], "
            "[7, 0:0:0:0:0:0:0:1], [7, 127.0.0.1]]}, new={alias=kafka, SAN=[[2, localhost]]}" + ENDING
        )
        assert await change(node, **{STORE: "/absent.pem"}) == (
            "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of "
            "SSLFactory failed: org.apache.kafka.common.errors.InvalidConfigurationException: Failed to load PEM SSL "
            f"keystore /absent.pem{ENDING}"
        )
        assert await shown(node, certificates) == der(certificates.server)

    with_node(tmp_path, story, **config_of(certificates))


def test_other_names_may_be_allowed(tmp_path: Path, certificates: Certificates) -> None:
    following = certificates.authority.issue("allowed", (("CN", "other"),), hosts=("localhost", "127.0.0.1"))

    async def story(node: RunningNode) -> None:
        assert await change(node, **{STORE: following.pem}) is None
        await until(lambda: node.dynamic_config.current.texts[STORE] == following.pem)
        assert await shown(node, certificates) == der(following)

    more = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    with_node(tmp_path, story, **config_of(certificates, **more))


def test_stores_are_neither_added_nor_removed(tmp_path: Path, certificates: Certificates) -> None:
    trust = "listener.name.ssl.ssl.truststore."

    async def story(node: RunningNode) -> None:
        assert await change(node, **{f"{trust}location": ""}) == (
            f"{FAILED}Cannot remove the SSL truststore from an existing listener for which a truststore was "
            f"configured.{ENDING}"
        )
        suites = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}
        assert await change(node, **suites) == (
            "Invalid value org.apache.kafka.common.config.ConfigException: Configs cannot be updated dynamically for "
            "existing listener ListenerName(SSL), restart broker or create a new listener for update" + ENDING
        )
        assert await change(node, **{"ssl.keystore.location": "/x"}) == (
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "HashSet(ssl.keystore.location)"
        )

    with_node(tmp_path, story, **config_of(certificates))


def test_the_inter_broker_listener_must_still_connect(tmp_path: Path, certificates: Certificates) -> None:
    foreign = certificates.server_other

    async def story(node: RunningNode) -> None:
        message = await change(node, **{STORE: foreign.pem})
        assert (
            message is not None
            and "javax.net.ssl.SSLHandshakeException: PKIX path building failed" in message
        )

    with_node(tmp_path, story, **config_of(certificates, **{"inter.broker.listener.name": "SSL"}))


def replace(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def test_a_changed_file_is_used_and_a_damaged_file_is_not(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    store = str(tmp_path / "server.pem")
    shutil.copy(certificates.server.pem, store)
    following = certificates.authority.issue("renewed", LOCALHOST, hosts=LOOPBACK_HOSTS)
    with open(certificates.server_elsewhere.pem, "rb") as file:
        elsewhere = file.read()

    async def story(node: RunningNode) -> None:
        node.listeners.security.look_at_files()
        assert await shown(node, certificates) == der(certificates.server)
        for damaged in (b"", b"-----BEGIN PRIVATE KEY-----\n", elsewhere):
            replace(store, damaged)
            node.listeners.security.look_at_files()
            node.listeners.security.look_at_files()  # the error is logged once
            assert await shown(node, certificates) == der(certificates.server)
        os.replace(shutil.copy(following.pem, tmp_path / "new.pem"), store)
        node.listeners.security.look_at_files()
        assert await shown(node, certificates) == der(following)

    with_node(tmp_path / "data", story, **config_of(certificates, store))
    errors = [
        record.getMessage() for record in caplog.records if "keeps its certificates" in record.getMessage()
    ]
    assert len(errors) == 3
    assert "Keystore DistinguishedName does not match" in errors[2]


def test_certificates_are_rolled_while_clients_work(tmp_path: Path, certificates: Certificates) -> None:
    store = str(tmp_path / "server.pem")
    shutil.copy(certificates.server.pem, store)
    issued = [
        certificates.authority.issue(f"roll-{number}", LOCALHOST, hosts=LOOPBACK_HOSTS) for number in range(5)
    ]

    async def story(node: RunningNode) -> None:
        rolled = asyncio.Event()
        answered = 0

        async def work(client: Client, *, reconnects: bool) -> None:
            nonlocal answered
            while not rolled.is_set():
                await is_served(client)
                answered += 1
                if reconnects:
                    client.close()
                    client = await connect(node, "SSL", context_of(certificates))

        def has_answered(count: int) -> bool:
            return answered >= count

        async def roll() -> None:
            for each in issued:
                enough = answered + 10
                os.replace(shutil.copy(each.pem, tmp_path / "new.pem"), store)
                node.listeners.security.look_at_files()
                await until(partial(has_answered, enough))
            rolled.set()

        clients = [await connect(node, "SSL", context_of(certificates)) for _ in range(2)]
        async with asyncio.TaskGroup() as group:
            group.create_task(work(clients[0], reconnects=False))
            group.create_task(work(clients[1], reconnects=True))
            group.create_task(roll())
        assert await shown(node, certificates) == der(issued[-1])

    with_node(tmp_path / "data", story, **config_of(certificates, store))
