"""librdkafka's configuration, from the properties of Java's clients.

Most keys have one meaning in both. This module renames keys that librdkafka calls otherwise and drops keys of the JVM's
own machinery. Keys that only Java has are left for librdkafka to refuse; `client.new_client` warns about those.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.rdkafka import java_config
from kcli.security.jaas import login_options

TRANSACTION_TIMEOUT_MS = 60_000
"""Kafka's default, and librdkafka's."""

# Java name -> the name that librdkafka's errors use, where they differ.
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
    "sasl.mechanism": "sasl.mechanisms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}

JAVA_NAMES = {name: key for key, name in _RENAMED.items()}
"""librdkafka's name of a key -> Java's, where the two differ."""
# message.max.bytes: librdkafka's default, and the least it takes.
_MESSAGE_BYTES, _MESSAGE_BYTES_MIN = 1_000_000, 1_000

# Java keys without an effect here, because they configure the JVM's own machinery.
_WITHOUT_COUNTERPART = frozenset(
    {
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "auto.include.jmx.reporter", "exclude.internal.topics", "default.api.timeout.ms", "max.poll.records",
        "client.dns.lookup", "enable.metrics.push",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.max.idle.ms", "ssl.truststore.type", "ssl.keystore.type",
        "ssl.protocol", "ssl.enabled.protocols",
    }
)  # fmt: skip

# Java's assignors by their classes -> librdkafka's names.
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.StickyAssignor": "cooperative-sticky",
}


def translate(properties: Mapping[str, str]) -> dict[str, object]:
    """Java client properties as a librdkafka configuration. Raises ConfigurationError for those that Java refuses."""
    config: dict[str, object] = {}
    for key, value in java_config.checked(properties).items():
        if key in _WITHOUT_COUNTERPART:
            continue
        name = _RENAMED.get(key, key)
        match key:
            case "buffer.memory":
                config[name] = max(1, int(value) // 1024)
            case "receive.buffer.bytes" | "send.buffer.bytes" | "connections.max.idle.ms":
                config[name] = max(0, int(value))  # Java's -1 (the system's size, or never) is 0 here
            case "fetch.max.bytes":
                config[name] = max(_MESSAGE_BYTES_MIN, int(value))
                # librdkafka wants room for one message, which a broker sends whole whatever was asked for.
                config["message.max.bytes"] = min(_MESSAGE_BYTES, max(_MESSAGE_BYTES_MIN, int(value)))
            case "partition.assignment.strategy":
                config[name] = ",".join(
                    dict.fromkeys(_ASSIGNORS.get(each.strip(), each.strip()) for each in value.split(","))
                )
            case "auto.offset.reset":
                config[name] = "error" if value == "none" else value
            case "sasl.jaas.config":
                config.update(_credentials(value))
            case "ssl.endpoint.identification.algorithm":
                config[name] = value or "none"
            case _:
                config[name] = value
    return config


def within_transaction(config: dict[str, object]) -> dict[str, object]:
    """Limits the delivery timeout to the transaction's, because librdkafka refuses a longer one and Java does not."""
    if "transactional.id" not in config:
        return config
    limit_ms = int(str(config.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)))
    timeout_ms = int(str(config.get("message.timeout.ms", limit_ms)))
    return {**config, "message.timeout.ms": min(timeout_ms, limit_ms)}


def _credentials(jaas: str) -> dict[str, object]:
    names = {"username": "sasl.username", "password": "sasl.password"}
    return {names[name]: value for name, value in login_options(jaas).items() if name in names}
