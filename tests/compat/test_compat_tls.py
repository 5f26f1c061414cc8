"""Real clients over TLS: records, large records, and the hints that a client gives after a mistake."""

from __future__ import annotations

import io
import logging
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcli.local_cluster.ports import free_ports
from kcli.testing.broker_process import BrokerProcess
from rigs.certificates import Certificates
from rigs.librdkafka import consume, produce

pytestmark = pytest.mark.compat

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(("SSL", "MUTUAL"), free_ports(2), strict=True))


@pytest.fixture(scope="module")
def secure_broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, ports: dict[str, int]
) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("tls"))
    listeners = process.properties["listeners"] + "".join(
        f",{name}://127.0.0.1:{port}" for name, port in ports.items()
    )
    process.overrides |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "listener.name.mutual.ssl.client.auth": "required",
        "message.max.bytes": str(8 * MIB),
        "group.initial.rebalance.delay.ms": "0",
        **certificates.broker_config(),
    }
    with process:
        yield process


def report(config: dict[str, Any]) -> str:
    """The log of a librdkafka client that cannot connect."""
    log = io.StringIO()
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.StreamHandler(log))
    client = AdminClient({**config, "reconnect.backoff.max.ms": 100}, logger=logger)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    client.poll(0)
    return log.getvalue()


@pytest.mark.parametrize("listener", ["SSL", "MUTUAL"])
def test_librdkafka_writes_and_reads(
    secure_broker: BrokerProcess, certificates: Certificates, ports: dict[str, int], listener: str
) -> None:
    config = certificates.librdkafka_config(certificates.alice if listener == "MUTUAL" else None)
    topic, bootstrap = f"tls-{uuid.uuid4().hex}", f"localhost:{ports[listener]}"
    values = [b"small", os.urandom(MIB), b"", os.urandom(5 * MIB)]
    more: dict[str, Any] = {"message.max.bytes": 8 * MIB}
    produce(bootstrap, topic, [{"value": value} for value in values], **config, **more)
    found = consume(bootstrap, topic, len(values), **config, **more)
    assert [message.value() or b"" for message in found] == values


def test_librdkafka_names_a_mistake(
    secure_broker: BrokerProcess, certificates: Certificates, ports: dict[str, int]
) -> None:
    secure, mutual = f"127.0.0.1:{ports['SSL']}", f"127.0.0.1:{ports['MUTUAL']}"
    trusting = certificates.librdkafka_config()
    assert "connection closed by peer" in report({"bootstrap.servers": secure})
    assert "SSL" in report({"bootstrap.servers": secure_broker.bootstrap, **trusting})
    wrong = {**trusting, "ssl.ca.location": certificates.other_authority.pem}
    assert "certificate verify failed" in report({"bootstrap.servers": secure, **wrong})
    assert "certificate required" in report({"bootstrap.servers": mutual, **trusting})
    expired = certificates.librdkafka_config(certificates.alice_expired)
    assert "certificate expired" in report({"bootstrap.servers": mutual, **expired})
