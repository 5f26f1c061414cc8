"""A mistake in server.properties that is found while the node is built ends in one line with the file and the key."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kcli.config.start_up import node_config
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server import main as server
from kcli.server.formatting.format import Machine, ensure_formatted
from rigs.certificates import Certificates

FILE = "node.properties"
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,SSL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
TLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"}
SASL = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,SASL://127.0.0.1:0",
}
PEM = {"ssl.keystore.type": "PEM"}
"""A key store in PEM, to which the test adds a certificate."""
PKCS12 = {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": "x", "ssl.key.password": "x"}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A formatted node, whose log goes to the test."""
    (tmp_path / "data").mkdir()
    config = node_config({**PROPERTIES, "log.dirs": str(tmp_path / "data")})
    ensure_formatted(config, Machine(SystemDisk(), SystemClock(), SystemRng(1)), lambda _line: None)
    monkeypatch.setattr(server, "_configure_log", lambda _settings: False)
    (tmp_path / "empty").touch()
    return tmp_path


def started(directory: Path, properties: dict[str, str]) -> int:
    """Starts the node with additional properties. Returns the exit code."""
    file = directory / FILE
    texts = {**PROPERTIES, "log.dirs": f"{directory}/data", **properties}
    file.write_text("".join(f"{key}={value}\n" for key, value in texts.items()))
    return server.main([str(file)])


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({**TLS, **PKCS12, "ssl.keystore.location": "none.p12"}, "ssl.keystore.location"),
        ({**TLS, **PKCS12, "ssl.keystore.location": "DIRECTORY/empty"}, "ssl.keystore.location"),
        (
            {**TLS, **PKCS12, "listener.name.ssl.ssl.keystore.location": "none"},
            "listener.name.ssl.ssl.keystore",
        ),
        (
            {**TLS, **PEM, "ssl.truststore.location": "none", "ssl.truststore.type": "PEM"},
            "ssl.truststore.location",
        ),
        ({**TLS, "ssl.keystore.type": "XYZ"}, "ssl.keystore.type"),
        ({**TLS, **PEM, "ssl.cipher.suites": "TLS_NO_SUCH"}, "ssl.cipher.suites"),
        ({**TLS, **PEM, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols"),
        ({**SASL, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "sasl.jaas.config"),
        ({**SASL, "sasl.enabled.mechanisms": "NO-SUCH"}, "NO-SUCH"),
        (
            {
                **SASL,
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": "garbage",
            },
            "sasl.jaas.config",
        ),
        ({"leader.replication.throttled.rate": "10MB"}, "leader.replication.throttled.rate"),
        ({"follower.replication.throttled.rate": "1_0"}, "follower.replication.throttled.rate"),
        ({"num.io.threads": "8\\u00a0"}, "num.io.threads"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:x"}, "max.connections.per.ip.overrides"),
        ({"metrics.jmx.include": "["}, "metrics.jmx.include"),
        ({"kcli.metrics.listener": "127.0.0.1:0", "kcli.metrics.protocol": "HTTPS"}, "ssl"),
        ({"kcli.trace.endpoint": "ftp://x", "kcli.trace.sample.ratio": "1"}, "collector"),
        ({"authorizer.class.name": "no.such.Class"}, "authorizer.class.name"),
        ({"principal.builder.class": "no.such.Class"}, "principal.builder.class"),
        ({"controller.quorum.voters": "1_0@127.0.0.1:9093"}, "controller.quorum.voters"),
        ({"broker.id": "2"}, "broker.id"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_mistake_is_one_line_with_the_file_and_the_key(
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    certificates: Certificates,
    properties: dict[str, str],
    key: str,
) -> None:
    store = {name: text for name, text in certificates.broker_config().items() if name.startswith("ssl.key")}
    properties = (store | properties) if "PEM" in properties.values() else properties
    texts = {name: text.replace("DIRECTORY", str(directory)) for name, text in properties.items()}
    assert started(directory, texts) == 1
    fatal = [each.getMessage() for each in caplog.records if each.levelno >= logging.CRITICAL]
    lines = fatal or capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert FILE in lines[0] and key in lines[0], lines
    assert "Traceback" not in caplog.text


def test_traces_without_their_packages_are_one_line(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.tracing.settings.importlib.util.find_spec", lambda _name: None)
    assert started(directory, {"kcli.trace.sample.ratio": "1"}) == 1
    (line,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.CRITICAL]
    assert f"{FILE}" in line and "kcli.trace.endpoint" in line and "pip install" in line


def test_an_error_that_no_part_expects_is_one_line(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("kcli.server.node.node_sockets", fails)
    assert started(directory, {}) == 1
    (record,) = [each for each in caplog.records if each.levelno >= logging.CRITICAL]
    assert FILE in record.getMessage()
    assert record.exc_info is not None, "at the level DEBUG, the log has the traceback"
