"""The line that names the mistake if librdkafka reaches no broker, for each tool that produces or consumes."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from kcli.cli import unreachable
from kcli.cli.tools.console import consumer as console_consumer
from kcli.cli.tools.console import producer as console_producer
from kcli.cli.tools.perf_test import consumer as perf_consumer
from kcli.cli.tools.perf_test import producer as perf_producer
from kcli.cli.tools.verifiable import consumer as verifiable_consumer
from kcli.cli.tools.verifiable import producer as verifiable_producer
from kcli.cli.unreachable import explained
from kcli.errors import ErrorCode
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.rdkafka.client import new_client
from kcli.rdkafka.configuration import translate
from rigs.certificates import Certificates, Issued
from rigs.scripted_server import ScriptedServer

LOCKED = {
    ApiKey.METADATA: lambda request, version: None,
    ApiKey.SASL_HANDSHAKE: lambda request, version: SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("PLAIN",)
    ),
}

TOOLS: dict[str, Callable[[str], dict[str, object]]] = {
    "console-producer": lambda server: console_producer.configuration(
        console_producer.ConsoleProducerOptions(topic="t", bootstrap_server=server)
    ),
    "console-consumer": lambda server: console_consumer.configuration(
        console_consumer.ConsoleConsumerOptions(topic="t", bootstrap_server=server)
    ),
    "producer-perf-test": lambda server: perf_producer.configuration(
        perf_producer.ProducerPerfOptions(topic="t", num_records=1, throughput=-1.0, bootstrap_server=server)
    ),
    "consumer-perf-test": lambda server: perf_consumer.configuration(
        perf_consumer.ConsumerPerfOptions(topic="t", bootstrap_server=server)
    ),
    "verifiable-producer": lambda server: verifiable_producer.configuration(
        verifiable_producer.VerifiableProducerOptions(topic="t", bootstrap_server=server, acks=1)
    ),
    "verifiable-consumer": lambda server: verifiable_consumer.configuration(
        verifiable_consumer.VerifiableConsumerOptions(topic="t", bootstrap_server=server, group_id="g")
    ),
}


def context(issued: Issued) -> ssl.SSLContext:
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls_context.load_cert_chain(issued.pem)
    return tls_context


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("kcli.rdkafka")
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    monkeypatch.setattr(logger, "propagate", False)


class AllDown:
    """The error of librdkafka if it has lost its connections to all brokers."""

    _ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN

    def code(self) -> int:
        return self._ALL_BROKERS_DOWN


def explanation(config: dict[str, object], caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about an unreachable broker, if a client with this configuration loses all brokers twice."""
    unreachable: Any = config["error_cb"]
    for _ in range(2):
        unreachable(AllDown())
        unreachable.thread.join()
    return [line for line in caplog.messages if "could not be established" in line]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_without_security_learns_what_the_port_needs(
    tool: str, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedServer(LOCKED, tls=context(certificates.server)) as server:
        (line,) = explanation(TOOLS[tool](server.address), caplog)
    expected = (
        "this port speaks TLS, the client does not: set security.protocol=SASL_SSL (sasl.mechanism PLAIN)"
    )
    assert line == f"Connection to {server.address} could not be established ({expected})."


def test_librdkafka_calls_when_no_broker_can_be_reached(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedServer(LOCKED, tls=context(certificates.server)) as server:
        properties = certificates.client_config() | {"bootstrap.servers": server.address}
        config = explained(translate(properties), properties)
        unreachable: Any = config["error_cb"]
        producer = new_client(Producer, config)
        while unreachable.thread is None:
            producer.poll(0.05)
        (line,) = explanation(config, caplog)
    assert "this port asks for a login: set security.protocol=SASL_SSL (sasl.mechanism PLAIN)" in line


def test_a_server_that_is_off_is_not_explained(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": "1000"}
    assert not explanation(explained(translate(properties), properties), caplog)


def test_settings_that_only_librdkafka_accepts_are_not_explained(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.username": "a"}
    assert not explanation(explained({}, properties), caplog)


def test_a_name_that_cannot_be_a_host_is_not_explained(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    properties = {"bootstrap.servers": "a..b:9092"}
    assert not explanation(explained(translate(properties), properties), caplog)
    assert not failed


@pytest.mark.parametrize("tool", [name for name in TOOLS if "producer" in name])
def test_each_producer_names_the_longest_wait_of_a_record(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[str] = []
    monkeypatch.setattr(unreachable, "watch_servers", lambda _, limit: limits.append(limit))
    TOOLS[tool]("127.0.0.1:1")
    assert limits == ["A record waits at most 60 s (max.block.ms)."]
