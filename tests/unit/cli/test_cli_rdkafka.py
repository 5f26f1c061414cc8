"""Java client properties in librdkafka's words, and its log in the tools' pattern."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kcli.cli import rdkafka
from kcli.cli.connect import load_properties
from kcli.cli.options import CommandError, UsageError


@pytest.mark.parametrize("servers", ["h:9092", "h:1,i:2", "PLAINTEXT://h:9092", "[::1]:9092", " h:1 , i:2 "])
def test_bootstrap_lists_that_are_taken(servers: str) -> None:
    rdkafka.check_bootstrap(servers)


@pytest.mark.parametrize("servers", [None, "", " ", "h", "h:port", "h:1,i", "h:123456", ","])
def test_bootstrap_lists_that_are_refused(servers: str | None) -> None:
    with pytest.raises(UsageError):
        rdkafka.check_bootstrap(servers)


def test_renamed_and_dropped_keys() -> None:
    config = rdkafka.translate(
        {
            "max.request.size": "5",
            "buffer.memory": "2048",
            "fetch.max.wait.ms": "7",
            "key.serializer": "org.example.Any",
            "client.id": "c",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert config == {
        "message.max.bytes": "5",
        "queue.buffering.max.kbytes": 2,
        "fetch.wait.max.ms": "7",
        "client.id": "c",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_assignors_by_their_java_names() -> None:
    names = (
        "org.apache.kafka.clients.consumer.RangeAssignor, org.apache.kafka.clients.consumer.StickyAssignor"
    )
    config = rdkafka.translate({"partition.assignment.strategy": names})
    assert config == {"partition.assignment.strategy": "range,cooperative-sticky"}


def test_credentials_of_a_jaas_line() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a b" password=secret;'
    config = rdkafka.translate({"sasl.jaas.config": line})
    assert config == {"sasl.username": "a b", "sasl.password": "secret"}


@pytest.mark.parametrize(
    ("key", "protocol"),
    [
        ("partition.assignment.strategy", "consumer"),
        ("session.timeout.ms", "consumer"),
        ("heartbeat.interval.ms", "Consumer"),
        ("group.remote.assignor", "classic"),
        ("group.remote.assignor", None),
    ],
)
def test_what_the_other_side_decides_is_refused(key: str, protocol: str | None) -> None:
    properties = {key: "1"} | ({} if protocol is None else {"group.protocol": protocol})
    shown = (protocol or "classic").upper()
    with pytest.raises(CommandError, match=f"^{key} cannot be set when group.protocol={shown}$"):
        rdkafka.translate(properties)


def test_a_file_then_words_over_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=of the file\nacks=1\n")
    assert rdkafka.client_properties(str(path), ["client.id=x=y"]) == {"client.id": "x=y", "acks": "1"}
    with pytest.raises(CommandError, match=r"missing\.properties"):
        rdkafka.client_properties(str(tmp_path / "missing.properties"), [])
    with pytest.raises(CommandError, match="nothing"):
        rdkafka.client_properties(None, ["nothing"])


def test_a_file_that_cannot_be_understood_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("acks=1\nclient.id=\\uXYZ\n")
    with pytest.raises(CommandError, match=r"client\.properties:2: Malformed"):
        rdkafka.client_properties(str(path), [])
    with pytest.raises(CommandError, match=r"client\.properties:2: Malformed"):
        load_properties(str(path))


@pytest.mark.parametrize("key", ["buffer.memory", "transaction.timeout.ms", "delivery.timeout.ms"])
def test_a_number_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(CommandError, match=f"{key}: not a whole number"):
        rdkafka.within_transaction(rdkafka.translate({"transactional.id": "t", key: "soon"}))


def test_a_refused_property_is_named_and_its_value_is_not() -> None:
    from confluent_kafka import Producer

    with pytest.raises(CommandError, match="retries") as caught:
        rdkafka.start(Producer, {"retries": "hunter2"})
    assert "hunter2" not in str(caught.value)


def _record(message: str, created: float) -> logging.LogRecord:
    record = logging.LogRecord("kcli.rdkafka", logging.ERROR, __file__, 1, message, None, None)
    record.created = created
    return record


def test_the_same_failure_is_told_once_a_second() -> None:
    repeats = rdkafka.Repeats()
    refused = "h:1/bootstrap: Connect failed: Connection refused (after {}ms in state CONNECT)"
    assert repeats.filter(_record(refused.format(0), 100.0))
    assert not repeats.filter(_record(refused.format(1), 100.05))
    assert repeats.filter(_record("another line", 100.06))
    assert not repeats.filter(_record(refused.format(2), 100.9))
    assert repeats.filter(_record(refused.format(0), 101.1))
    assert not repeats.filter(_record(refused.format(0), 102.0))


@pytest.mark.parametrize(
    ("first", "words"), [(b"HTTP", "the port speaks HTTP"), (b"\x15\x03\x03\x00", "the port speaks TLS")]
)
def test_a_port_of_another_protocol_is_named(first: bytes, words: str) -> None:
    size = int.from_bytes(first, "big")
    record = logging.LogRecord(
        "n", logging.ERROR, "f", 1, f"Receive failed: Invalid response size {size} (0..9)", (), None
    )
    assert rdkafka._name_peer(record)
    assert words in record.getMessage()


def test_what_a_broker_refuses_is_told_in_kafkas_words() -> None:
    from confluent_kafka import KafkaError as Refused

    assert "larger than the max message size" in rdkafka.kafka_error(Refused(10)).message
    assert rdkafka.kafka_error(Refused(Refused._MSG_TIMED_OUT)).message == "Local: Message timed out"
