"""The data path of the tools: Kafka client properties, spoken to librdkafka.

The tools take the Java client's properties (`--producer-property`, `--consumer.config`, …). Most keys mean the same in
librdkafka; this module renames the ones that do not, drops with a word those that have no counterpart, and turns
librdkafka's log lines and errors into the tools' own.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

from kcli.cli.options import CommandError, Terminated, UsageError
from kcli.errors import BY_CODE, ErrorCode, KafkaError, TimeoutException

TRANSACTION_TIMEOUT_MS = 60_000
"""Kafka's default, and librdkafka's."""

# Java name -> librdkafka name, where they differ.
_RENAMED = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "delivery.timeout.ms": "message.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.block.ms": "topic.metadata.propagation.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.mechanism": "sasl.mechanisms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}

# Java keys that change nothing a user of these tools could observe here: the JVM's own machinery.
_WITHOUT_COUNTERPART = frozenset(
    {
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "interceptor.classes",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "auto.include.jmx.reporter", "exclude.internal.topics", "default.api.timeout.ms", "max.poll.records",
        "client.dns.lookup", "enable.metrics.push", "partitioner.class", "partitioner.ignore.keys",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.max.idle.ms", "ssl.truststore.type", "ssl.keystore.type",
        "ssl.protocol", "ssl.enabled.protocols",
    }
)  # fmt: skip

# The tools set these in librdkafka's own words already.
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.StickyAssignor": "cooperative-sticky",
}

# What the broker decides in one of the group protocols (KIP-848), and the client in the other.
_NOT_IN_PROTOCOL = {
    "consumer": ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
    "classic": ("group.remote.assignor",),
}

_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
_WRONG_SIZE = re.compile(r"Invalid response size (-?\d+)")
_HOST_PORT = re.compile(r"^(?:[a-zA-Z]+://)?(\[[0-9a-fA-F:.%]+\]|[^:\s,]+):(\d{1,5})$")

# librdkafka tells every failed attempt to connect, some twenty a second; Java's back-off lets one a second through.
REPEAT_S = 1.0
_ELAPSED = re.compile(r"\(after \d+ms in state \w+.*?\)")
_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (kcli.rdkafka)"


def check_bootstrap(servers: str | None) -> None:
    """Refuses a bootstrap list that is missing or is not host:port,… (UsageError with Kafka's text)."""
    if not servers or not servers.strip():
        raise UsageError("Error while validating the bootstrap address\n")
    addresses = [address.strip() for address in servers.split(",") if address.strip()]
    if not addresses or any(_HOST_PORT.match(address) is None for address in addresses):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n")


def client_properties(
    config_file: str | None, assignments: Iterable[str], profile: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Properties of a file, `key=value` words over it, the profile's below both. Raises CommandError naming what is
    wrong."""
    properties: dict[str, str] = dict(profile or {})
    if config_file is not None:
        from kcli.config.definition import ConfigError
        from kcli.config.properties import load

        try:
            properties.update(load(config_file))
        except ConfigError as error:
            raise CommandError(error.located()) from error
        except OSError as error:
            raise CommandError(f"cannot read client properties {config_file}: {error.strerror}") from error
    properties.update(key_values(assignments))
    return properties


def key_values(words: Iterable[str]) -> dict[str, str]:
    """`key=value` words as a dict. Raises UsageError for a word without a key (Kafka's text)."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise CommandError(f"Invalid command line properties: {word}")
        found[key] = value
    return found


def translate(properties: Mapping[str, str]) -> dict[str, object]:
    """Java client properties as a librdkafka configuration. Raises CommandError for what cannot be together."""
    _check_group_protocol(properties)
    config: dict[str, object] = {}
    for key, value in properties.items():
        if key in _WITHOUT_COUNTERPART:
            continue
        match key:
            case "buffer.memory":
                config["queue.buffering.max.kbytes"] = max(1, _whole_number(key, value) // 1024)
            case "partition.assignment.strategy":
                config[key] = ",".join(
                    dict.fromkeys(_ASSIGNORS.get(name.strip(), name.strip()) for name in value.split(","))
                )
            case "sasl.jaas.config":
                config.update(_credentials(value))
            case "ssl.endpoint.identification.algorithm":
                config[key] = value or "none"
            case _:
                config[_RENAMED.get(key, key)] = value
    return config


def within_transaction(config: dict[str, object]) -> dict[str, object]:
    """`config` as librdkafka takes it: there a delivery may not take longer than its transaction, in Java it may."""
    if "transactional.id" not in config:
        return config
    limit_ms = _whole_number(
        "transaction.timeout.ms", config.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    )
    timeout_ms = _whole_number("delivery.timeout.ms", config.get("message.timeout.ms", limit_ms))
    return {**config, "message.timeout.ms": min(timeout_ms, limit_ms)}


def _whole_number(key: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise CommandError(f"Invalid value for configuration property {key}: not a whole number") from None


def _check_group_protocol(properties: Mapping[str, str]) -> None:
    protocol = properties.get("group.protocol", "classic").lower()
    for key in _NOT_IN_PROTOCOL.get(protocol, ()):
        if key in properties:
            raise CommandError(f"{key} cannot be set when group.protocol={protocol.upper()}")


def _credentials(jaas: str) -> dict[str, object]:
    options = {name: quoted or bare for name, quoted, bare in _JAAS_OPTION.findall(jaas)}
    names = {"username": "sasl.username", "password": "sasl.password"}
    return {names[name]: value for name, value in options.items() if name in names}


def finish_on_sigterm() -> None:
    """SIGTERM ends a tool as Ctrl-C does: what is on its way to the broker arrives, a group is left."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def start(make: Callable[[dict[str, object]], object], config: dict[str, object]) -> object:
    """A librdkafka client; a property that it refuses is a CommandError that names the property."""
    from confluent_kafka import KafkaException

    try:
        return make({**within_transaction(config), "logger": logger()})
    except KafkaException as error:
        # Its text names the property; the value (a password, perhaps) is not repeated.
        raise CommandError(f"Failed to construct kafka client: {error.args[0].str()}") from None


class Repeats(logging.Filter):
    """Lets a line through once in REPEAT_S, whatever time its attempt took."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = _ELAPSED.sub("", record.getMessage())
        if record.created - self._told.get(line, 0.0) < REPEAT_S:
            return False
        # What is older no longer holds anything back: the memory of a tool that runs for weeks stays small.
        self._told = {old: told for old, told in self._told.items() if record.created - told < REPEAT_S}
        self._told[line] = record.created
        return True


def logger() -> logging.Logger:
    """librdkafka's log on stderr in the pattern of Kafka's tools; only warnings and errors."""
    found = logging.getLogger("kcli.rdkafka")
    if not found.handlers:
        handler = logging.StreamHandler(sys.stderr)
        formatter = logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S")
        handler.setFormatter(formatter)
        handler.addFilter(_name_peer)
        handler.addFilter(Repeats())
        found.addHandler(handler)
        found.setLevel(logging.WARNING)
        found.propagate = False
        logging.addLevelName(logging.WARNING, "WARN")
    return found


def _name_peer(record: logging.LogRecord) -> bool:
    """Says what a port speaks where librdkafka takes the first bytes of another protocol for a length."""
    found = _WRONG_SIZE.search(record.getMessage())
    if found is not None:
        first = int(found[1]).to_bytes(4, "big", signed=True)
        if first == b"HTTP":
            record.msg, record.args = (
                f"{record.getMessage()}: the port speaks HTTP, it is not a Kafka listener",
                (),
            )
        elif first[:2] == b"\x15\x03":
            record.msg, record.args = (
                f"{record.getMessage()}: the port speaks TLS, set security.protocol=SSL",
                (),
            )
    return True


def kafka_error(error: object) -> KafkaError:
    """librdkafka's error as ours, in Kafka's words where a broker gave it.

    Its local ones (a broker that is gone, a time-out) become TimeoutException with librdkafka's words.
    """
    code: int = error.code()  # type: ignore[attr-defined]
    known = BY_CODE.get(ErrorCode(code)) if code > 0 and code in ErrorCode._value2member_map_ else None
    return known() if known else TimeoutException(error.str())  # type: ignore[attr-defined]


def is_local(error: object) -> bool:
    """Whether the client itself gave up (no broker, time-out), rather than a broker refusing the record."""
    code: int = error.code()  # type: ignore[attr-defined]
    return code < 0


def is_fatal(error: object) -> bool:
    """Whether the client is of no use any more: fenced, or a member that the coordinator will not have."""
    from confluent_kafka import KafkaError

    assert isinstance(error, KafkaError)
    return bool(error.fatal() or error.code() == KafkaError._FATAL)
