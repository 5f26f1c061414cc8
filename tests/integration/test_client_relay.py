"""The relay for mechanisms that librdkafka does not have: delegation tokens, and who may use its ports."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.client import relay as relays
from kcli.client.config import ClientConfig, client_config
from kcli.client.connection import Connection
from kcli.client.relay import Relay
from kcli.errors import KcliError
from kcli.model.addresses import Address
from kcli.runtime.network import SystemNetwork
from kcli.security.client import client_security
from kcli.testing.broker_process import BrokerProcess, free_port
from rigs import kerberos
from rigs.certificates import Certificates

KCLI = (sys.executable, "-m", "kcli")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def ran(*argv: str, stdin: str = "") -> str:
    """Runs a tool as a process of its own, and returns its stdout."""
    done = subprocess.run([*KCLI, *argv], input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[tuple[BrokerProcess, str]]:
    port = free_port()
    broker = BrokerProcess(tmp_path_factory.mktemp("relay"))
    own = broker.properties
    broker.overrides |= {
        "listeners": f"{own['listeners']},SASL://localhost:{port}",
        "advertised.listeners": f"{own['advertised.listeners']},SASL://localhost:{port}",
        "listener.security.protocol.map": f"{own['listener.security.protocol.map']},SASL:SASL_SSL",
        **certificates.broker_config(),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl.plain.sasl.jaas.config": f'{_PLAIN} required user_alice="alice-secret";',
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
        "delegation.token.secret.key": "the-key-of-the-tests",
    }
    with broker:
        yield broker, f"localhost:{port}"


def login(certificates: Certificates, mechanism: str, options: str) -> dict[str, str]:
    return {
        **certificates.client_config(protocol="SASL_SSL"),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_SCRAM if mechanism.startswith('SCRAM') else _PLAIN} required {options};",
    }


def written(path: Path, properties: dict[str, str]) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


def test_records_go_through_with_a_delegation_token(
    secured: tuple[BrokerProcess, str], certificates: Certificates, tmp_path: Path
) -> None:
    broker, servers = secured
    ran(
        "topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders", "--partitions", "2"
    )
    owner = login(certificates, "PLAIN", 'username="alice" password="alice-secret"')
    shown = ran(
        "delegation-tokens", "--bootstrap-server", servers, "--create", "--max-life-time-period", "-1",
        "--command-config", written(tmp_path / "alice.properties", owner), "--output", "json",
    )  # fmt: skip
    token_id, hmac = (re.search(rf'"{name}": ?"([^"]+)"', shown) for name in ("token_id", "hmac"))
    assert token_id and hmac, shown
    options = f'username="{token_id[1]}" password="{hmac[1]}" tokenauth="true"'
    config = written(tmp_path / "token.properties", login(certificates, "SCRAM-SHA-256", options))
    produced = (
        "console-producer",
        "--bootstrap-server",
        servers,
        "--topic",
        "orders",
        "--producer.config",
        config,
    )
    ran(*produced, stdin="one\ntwo\nthree\n")
    consumed = ran(
        "console-consumer", "--bootstrap-server", servers, "--topic", "orders", "--from-beginning",
        "--max-messages", "3", "--group", "readers", "--consumer.config", config,
    )  # fmt: skip
    assert sorted(consumed.split()) == ["one", "three", "two"]


def test_the_relay_serves_only_clients_that_know_its_secret(
    secured: tuple[BrokerProcess, str], certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, servers = secured
    logins: list[str] = []
    log_in = relays._log_in

    async def counted(link: relays._Link, config: ClientConfig, host: str) -> None:
        logins.append(host)
        await log_in(link, config, host)

    monkeypatch.setattr(relays, "_log_in", counted)
    config = client_config(
        login(certificates, "PLAIN", 'username="alice" password="alice-secret"'), bootstrap_servers=servers
    )
    relay = Relay(config)
    relay.start()
    host, _, port = relay.bootstrap_servers.partition(":")

    async def opened(password: str) -> None:
        jaas = f'{_PLAIN} required username="kcli" password="{password}";'
        security = client_security(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
        )
        connection = await Connection.open(SystemNetwork(), Address(host, int(port)), "test", 10, security)
        connection.close()
        await asyncio.sleep(0)

    asyncio.run(opened(relay.secret))
    for wrong in ("", "guess"):
        with pytest.raises(KcliError):
            asyncio.run(opened(wrong))
    assert logins == ["localhost"], "only the client with the secret makes the relay log in"
    with socket.create_connection((host, int(port)), 10) as link:
        # Metadata without a login: the relay closes the connection.
        link.sendall(bytes.fromhex("0000000e0003000000000001ffff00000000"))
        assert link.recv(1) == b""
    assert relay.secret not in repr(relay)


def test_the_relay_closes_the_connection_of_a_silent_client(
    secured: tuple[BrokerProcess, str], certificates: Certificates
) -> None:
    config = client_config(
        login(certificates, "PLAIN", 'username="alice" password="alice-secret"'), bootstrap_servers=secured[1]
    )
    relay = Relay(replace(config, connection_setup_timeout_ms=2000))
    relay.start()
    host, _, port = relay.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), 30) as link:
        assert link.recv(1) == b""


def test_a_port_that_cannot_be_opened_is_an_error_of_the_caller(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_arguments: object) -> None:
        raise OSError("no port is free")

    monkeypatch.setattr("asyncio.start_server", full)
    properties = login(certificates, "SCRAM-SHA-256", 'username="id" password="x" tokenauth="true"')
    relay = Relay(client_config(properties, bootstrap_servers="localhost:1"))
    failed: list[Exception] = []

    def start() -> None:
        try:
            relay.start()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert [str(each) for each in failed] == ["no port is free"]


def test_an_unknown_request_ends_the_connection_without_a_traceback(
    secured: tuple[BrokerProcess, str], certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    _, servers = secured
    options = 'username="alice" password="alice-secret"'
    relay = Relay(client_config(login(certificates, "PLAIN", options), bootstrap_servers=servers))
    relay.start()
    host, _, port = relay.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), 10) as link:
        link.sendall(bytes.fromhex("0000000a7fff000000000001ffff"))
        assert link.recv(1) == b""
    assert caplog.records == []


@pytest.mark.skipif(kerberos.why_not() is not None, reason=kerberos.why_not() or "")
def test_records_go_through_with_kerberos(tmp_path: Path) -> None:
    port = free_port()
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    (tmp_path / "kerberos").mkdir()
    with kerberos.serving(tmp_path / "kerberos") as realm:
        broker = BrokerProcess(tmp_path / "broker")
        own = broker.properties
        keytab = realm.keytab(kerberos.SERVICE)
        broker.overrides |= {
            "listeners": f"{own['listeners']},SASL://localhost:{port}",
            "advertised.listeners": f"{own['advertised.listeners']},SASL://localhost:{port}",
            "listener.security.protocol.map": f"{own['listener.security.protocol.map']},SASL:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl.gssapi.sasl.jaas.config": (
                f'{module} keyTab="{keytab}" principal="{kerberos.SERVICE}";'
            ),
        }
        alice = f"alice@{kerberos.REALM}"
        config = written(
            tmp_path / "alice.properties",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{module} keyTab="{realm.keytab(alice)}" principal="{alice}";',
            },
        )
        words = ("--bootstrap-server", f"localhost:{port}", "--topic", "orders", "--command-config", config)
        with broker:
            ran("console-producer", *words, stdin="one\n")
            assert ran("console-consumer", *words, "--from-beginning", "--max-messages", "1") == "one\n"
