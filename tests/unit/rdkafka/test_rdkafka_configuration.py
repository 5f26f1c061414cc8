"""Java client properties in librdkafka's words, and its log in the tools' pattern."""

from __future__ import annotations

import logging
import socketserver
import threading
import time

import pytest

from kcli.rdkafka.client import kafka_error, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.errors import ConfigurationError, DurationResetError
from kcli.rdkafka.log import Repeats, _name_peer, logger


def test_renamed_and_dropped_keys() -> None:
    config = translate(
        {
            "max.request.size": "5",
            "buffer.memory": "2048",
            "fetch.max.wait.ms": "7",
            "key.serializer": "org.example.Any",
            "client.id": "c",
        }
    )
    assert config == {
        "message.max.bytes": "5",
        "queue.buffering.max.kbytes": 2,
        "fetch.wait.max.ms": "7",
        "client.id": "c",
    }


def test_assignors_by_their_java_names() -> None:
    names = (
        "org.apache.kafka.clients.consumer.RangeAssignor, org.apache.kafka.clients.consumer.StickyAssignor"
    )
    config = translate({"partition.assignment.strategy": names})
    assert config == {"partition.assignment.strategy": "range,cooperative-sticky"}


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
def test_a_setting_of_the_other_group_protocol_is_refused(key: str, protocol: str | None) -> None:
    properties = {key: "1"} | ({} if protocol is None else {"group.protocol": protocol})
    shown = (protocol or "classic").upper()
    with pytest.raises(ConfigurationError, match=f"^{key} cannot be set when group.protocol={shown}$"):
        translate(properties)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("linger.ms", "soon", "Not a number of type LONG"),
        ("linger.ms", "-1", "Value must be at least 0"),
        ("batch.size", "99999999999", "Not a number of type INT"),
        ("transaction.timeout.ms", "", "Not a number of type INT"),
        ("acks", "7", "String must be one of: all, -1, 0, 1"),
        ("compression.type", "zip", "String must be one of: none, gzip, snappy, lz4, zstd"),
        ("isolation.level", "READ_COMMITTED", "String must be one of: read_committed, read_uncommitted"),
        ("enable.auto.commit", "yes", "Expected value to be either true or false"),
        (
            "security.protocol",
            "TLS",
            "String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
        ),
        ("group.protocol", "new", "String must be one of (case insensitive): CONSUMER, CLASSIC"),
        ("group.instance.id", "", "String must be non-empty"),
        ("transactional.id", "", "String must be non-empty"),
        (
            "client.dns.lookup",
            "any",
            "String must be one of: use_all_dns_ips, resolve_canonical_bootstrap_servers_only",
        ),
    ],
)
def test_an_invalid_value_is_refused_in_the_words_of_java(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        translate({key: value})
    prefix = "org.apache.kafka.common.config.ConfigException: "
    assert str(caught.value) == f"{prefix}Invalid value {value} for configuration {key}: {reason}"


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("h", "Invalid url in bootstrap.servers: h"),
        ("h:1,i:port", "Invalid url in bootstrap.servers: i:port"),
        (" , ", "No resolvable bootstrap urls given in bootstrap.servers"),
    ],
)
def test_servers_have_ports(servers: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        translate({"bootstrap.servers": servers})
    assert str(caught.value) == f"org.apache.kafka.common.config.ConfigException: {reason}"
    assert translate({"bootstrap.servers": "h:1, [::1]:2"})


def test_settings_that_change_records_are_passed_to_librdkafka() -> None:
    keys = ("partitioner.class", "partitioner.ignore.keys", "interceptor.classes")
    assert translate(dict.fromkeys(keys, "true")).keys() == set(keys), "for librdkafka to refuse"


def test_numbers_that_mean_the_systems_own() -> None:
    config = translate({"send.buffer.bytes": "-1", "connections.max.idle.ms": " -1 "})
    assert config == {"socket.send.buffer.bytes": 0, "connections.max.idle.ms": 0}


def test_where_a_consumer_without_offsets_starts() -> None:
    assert translate({"auto.offset.reset": "NONE"}) == {"auto.offset.reset": "error"}
    with pytest.raises(
        ConfigurationError, match=r"Invalid value `last` for configuration auto\.offset\.reset"
    ):
        translate({"auto.offset.reset": "last"})
    with pytest.raises(DurationResetError, match=r"by_duration:pt1h: librdkafka knows no durations$"):
        translate({"auto.offset.reset": "by_duration:PT1H"})


def test_a_fetch_smaller_than_librdkafkas_least() -> None:
    from confluent_kafka import Consumer

    config = translate({"fetch.max.bytes": "10", "group.id": "g"})
    new_client(Consumer, config).close()


def test_a_larger_fetch_is_received() -> None:
    assert translate({"fetch.max.bytes": "400000000"})["receive.message.max.bytes"] == 400_000_512
    assert translate({"fetch.max.bytes": str(2**31 - 1)})["receive.message.max.bytes"] == 2**31 - 1
    own = {"receive.message.max.bytes": "500000000", "fetch.max.bytes": "400000000"}
    assert translate(own)["receive.message.max.bytes"] == "500000000"


def test_a_port_that_answers_in_http_is_named() -> None:
    """The number of its first bytes is more than librdkafka receives here, so librdkafka reports it."""
    from confluent_kafka import Producer

    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logger().addHandler(handler)

    class Web(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    try:
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Web) as server:
            threading.Thread(target=server.serve_forever).start()
            producer = new_client(Producer, {"bootstrap.servers": f"127.0.0.1:{server.server_address[1]}"})
            until = time.monotonic() + 30
            while not any("speaks HTTP" in line for line in told) and time.monotonic() < until:
                producer.poll(0.05)
            server.shutdown()
    finally:
        logger().removeHandler(handler)
    assert any("the port speaks HTTP" in line for line in told), told


def test_a_group_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="should not be an empty string"):
        translate({"group.id": " "})


def test_settings_only_java_has_are_reported_and_limits_of_librdkafka_kept() -> None:
    from confluent_kafka import Producer

    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logger().addHandler(handler)
    try:
        properties = {"schema.registry.url": "http://h", "batch.size": "0", "linger.ms": "99999999"}
        new_client(Producer, translate(properties))
    finally:
        logger().removeHandler(handler)
    assert sorted(told) == [
        "The configuration schema.registry.url was supplied but is not known here.",
        "batch.size is 0, which librdkafka limits to 1",
        "linger.ms is 99999999, which librdkafka limits to 900000",
    ]


def test_a_refused_property_is_named_and_its_value_is_not() -> None:
    from confluent_kafka import Producer

    with pytest.raises(ConfigurationError, match="retries") as caught:
        new_client(Producer, {"retries": "hunter2"})
    assert "hunter2" not in str(caught.value)


def _record(message: str, created: float) -> logging.LogRecord:
    record = logging.LogRecord("kcli.rdkafka", logging.ERROR, __file__, 1, message, None, None)
    record.created = created
    return record


def test_the_same_failure_is_logged_once_a_second() -> None:
    repeats = Repeats()
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
    assert _name_peer(record)
    assert words in record.getMessage()


def test_errors_of_brokers_are_reported_in_kafkas_words() -> None:
    from confluent_kafka import KafkaError as Refused

    assert "larger than the max message size" in kafka_error(Refused(10)).message
    assert kafka_error(Refused(Refused._MSG_TIMED_OUT)).message == "Local: Message timed out"
