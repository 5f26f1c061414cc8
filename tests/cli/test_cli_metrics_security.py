"""jmx and top with a metrics endpoint that has TLS and users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess, free_port
from rigs.certificates import Certificates

OBJECT = "kafka.server:type=app-info"


class Secured(NamedTuple):
    """A broker whose endpoint has TLS and the user ann, and the certificates that its clients trust."""

    broker: BrokerProcess
    url: str
    truststore: str


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Secured]:
    port = free_port()
    overrides = {
        "kcli.metrics.listener": f"127.0.0.1:{port}",
        "kcli.metrics.protocol": "HTTPS",
        "kcli.metrics.users": "ann:a-secret",
        **{f"listener.name.metrics.{key}": text for key, text in certificates.broker_config().items()},
    }
    with BrokerProcess(tmp_path_factory.mktemp("secured"), overrides) as broker:
        yield Secured(broker, f"https://127.0.0.1:{port}", certificates.authority.pem)


def jmx(secured: Secured, *words: str) -> int:
    return run(["jmx", "--jmx-url", secured.url, "--object-name", OBJECT, "--one-time", *words])


def test_jmx_reads_over_tls_with_a_login(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    trusting = ("--jmx-ssl-truststore", secured.truststore)
    assert jmx(secured, *trusting, "--jmx-auth-prop", "ann=a-secret") == 0
    assert OBJECT in capsys.readouterr().out
    assert jmx(secured, *trusting, "--jmx-auth-prop", "ann=wrong") == 1
    said = capsys.readouterr()
    assert "answered 401" in said.err and "wrong" not in said.err
    assert jmx(secured, "--jmx-ssl-truststore", "/missing.pem") == 1
    assert "--jmx-ssl-truststore /missing.pem cannot be read" in capsys.readouterr().err


def test_top_takes_its_settings_from_a_file(
    secured: Secured, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "metrics.properties"
    file.write_text(
        "kcli.metrics.protocol=HTTPS\nkcli.metrics.user=ann\nkcli.metrics.password=a-secret\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.truststore}\n"
    )
    words = ["top", "--bootstrap-server", secured.broker.bootstrap, "--once", "--interval", "0.2"]
    assert run([*words, "--output", "json", "--metrics-config", str(file)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (broker,) = [row for row in rows if row["table"] == "broker"]
    assert broker["why_not"] == "" and broker["requests"] > 0
    file.write_text(
        "kcli.metrics.protocol=HTTPS\nssl.truststore.type=PEM\nssl.truststore.location=/missing\n"
    )
    assert run([*words, "--metrics-config", str(file)]) == 1
    assert "/missing" in capsys.readouterr().err


def test_describe_hides_the_passwords_of_the_users(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["configs", "--bootstrap-server", secured.broker.bootstrap, "--describe", "--all"]
    assert run([*words, "--entity-type", "brokers", "--entity-name", "1"]) == 0
    out = capsys.readouterr().out
    assert "kcli.metrics.users=null sensitive=true" in out
    assert "a-secret" not in out
    assert "a-secret" not in secured.broker.log_path.read_text()
