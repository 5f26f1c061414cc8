"""Translates the properties of Java's clients to librdkafka's configuration.

Most keys have the same name and meaning in Java and in librdkafka. This module renames keys that have another name in
librdkafka, and drops keys that concern only the JVM. It keeps all other keys that librdkafka does not have. librdkafka
refuses these keys, and `client.new_client` logs a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.model.java_text import parse_int, parse_long, trim
from kcli.rdkafka import java_config

TRANSACTION_TIMEOUT_MS = 60_000
"""The default of transaction.timeout.ms in Kafka and in librdkafka."""

RECEIVE_BYTES = 0x1503_0000 - 1
"""The largest answer, and the largest batch after decompression with zstd: 352 MB. With librdkafka's default of 100 MB,
consumers could not read larger batches. This limit is below the number that the first four bytes of an answer in TLS or
HTTP make, so `log` still recognizes a port of another protocol."""

PROPAGATION_MS_MAX = (2**31 - 1) // 1000
"""The largest topic.metadata.propagation.max.ms. librdkafka permits more, but its number of microseconds then
overflows, and records for a new topic fail at once."""

_RECEIVE_BYTES_MAX = 2**31 - 1
"""The maximum of receive.message.max.bytes."""
_BESIDE_RECORDS_BYTES = 512
"""By so many bytes, receive.message.max.bytes must be larger than fetch.max.bytes."""

# The names of Java's keys in librdkafka's errors, if they differ.
_RENAMED = {
    "acks": "request.required.acks",
    "buffer.memory": "queue.buffering.max.kbytes",
    "compression.type": "compression.codec",
    "delivery.timeout.ms": "message.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "linger.ms": "queue.buffering.max.ms",
    "max.block.ms": "topic.metadata.propagation.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "retries": "message.send.max.retries",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

JAVA_NAMES = {name: key for key, name in _RENAMED.items()}
"""The names in Java of those keys that have another name in librdkafka."""
# The default and the minimum of message.max.bytes in librdkafka.
_MESSAGE_BYTES, _MESSAGE_BYTES_MIN = 1_000_000, 1_000

# Java's keys that are dropped, because they configure a part that librdkafka does not have.
_WITHOUT_COUNTERPART = frozenset(
    {
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "auto.include.jmx.reporter", "exclude.internal.topics", "default.api.timeout.ms", "max.poll.records",
        "client.dns.lookup", "enable.metrics.push",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.max.idle.ms",
    }
)  # fmt: skip

# librdkafka's names of Java's assignor classes.
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.StickyAssignor": "cooperative-sticky",
}


def translate(properties: Mapping[str, str]) -> dict[str, object]:
    """Returns a librdkafka configuration for Java client properties.

    Raises ConfigurationError for properties that Java refuses.
    """
    checked = java_config.checked(properties)
    config: dict[str, object] = {}
    if any(map(may_be_security, checked)):
        from kcli.rdkafka.security import is_security, translate_security  # late, for a faster start

        config |= translate_security(checked)
        checked = {key: value for key, value in checked.items() if not is_security(key)}
    for key, value in checked.items():
        if key in _WITHOUT_COUNTERPART or key.startswith("config.providers"):
            continue
        name = _RENAMED.get(key, key)
        match key:
            case "buffer.memory":
                config[name] = max(1, parse_long(value) // 1024)
            case "receive.buffer.bytes" | "send.buffer.bytes" | "connections.max.idle.ms":
                # Java's -1 means "system default" or "never"; in librdkafka, 0 means this.
                config[name] = max(0, parse_long(value))
            case "fetch.max.bytes":
                config[name] = max(_MESSAGE_BYTES_MIN, parse_long(value))
                # librdkafka requires room for one message, because a broker always sends the first message whole.
                config["message.max.bytes"] = min(_MESSAGE_BYTES, max(_MESSAGE_BYTES_MIN, parse_long(value)))
                received = min(parse_long(value) + _BESIDE_RECORDS_BYTES, _RECEIVE_BYTES_MAX)
                if received > RECEIVE_BYTES:
                    config.setdefault("receive.message.max.bytes", received)
            case "max.block.ms":
                config[name] = min(PROPAGATION_MS_MAX, parse_long(value))
            case "partition.assignment.strategy":
                config[name] = ",".join(
                    dict.fromkeys(_ASSIGNORS.get(trim(name), trim(name)) for name in value.split(","))
                )
            case "auto.offset.reset":
                config[name] = "error" if value == "none" else value
            case _:
                config[name] = value
    return config


def may_be_security(key: str) -> bool:
    """Whether a property concerns TLS or SASL."""
    return key == "security.protocol" or key.startswith(("ssl.", "sasl."))


def within_transaction(config: dict[str, object]) -> dict[str, object]:
    """Returns the configuration with a delivery time-out that is not longer than the transaction time-out.

    librdkafka, unlike Java, refuses a longer delivery time-out.
    """
    if "transactional.id" not in config:
        return config
    limit_ms = parse_int(str(config.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)))
    timeout_ms = parse_int(str(config.get("message.timeout.ms", limit_ms)))
    return {**config, "message.timeout.ms": min(timeout_ms, limit_ms)}
