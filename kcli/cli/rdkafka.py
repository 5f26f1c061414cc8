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

from kcli.cli import java_config
from kcli.cli.syntax.options import CommandError, Terminated, UsageError
from kcli.errors import BY_CODE, ErrorCode, KafkaError, TimeoutException
from kcli.protocol.wire.peer import speaks_tls
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

_JAVA_NAMES = {name: key for key, name in _RENAMED.items()}
# message.max.bytes: librdkafka's default, and the least it takes.
_MESSAGE_BYTES, _MESSAGE_BYTES_MIN = 1_000_000, 1_000

# Java keys that change nothing a user of these tools could observe here: the JVM's own machinery.
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

# The tools set these in librdkafka's own words already.
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.StickyAssignor": "cooperative-sticky",
}

_UNKNOWN = re.compile(r'No such configuration property: "(.+)"')
_OUTSIDE = re.compile(r'Configuration property "(.+)" value .*is outside allowed range (-?\d+)\.\.(-?\d+)')
_WRONG_SIZE = re.compile(r"Invalid response size (-?\d+)")

# librdkafka tells every failed attempt to connect, some twenty a second; Java's back-off lets one a second through.
REPEAT_S = 1.0
_ELAPSED = re.compile(r"\(after \d+ms in state \w+.*?\)")
_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (kcli.rdkafka)"


def check_bootstrap(servers: str | None) -> None:
    """Refuses a bootstrap list that is missing or is not host:port,… (UsageError with Kafka's text)."""
    if not servers or not servers.strip():
        raise UsageError("Error while validating the bootstrap address\n")
    addresses = [address.strip() for address in servers.split(",") if address.strip()]
    if not addresses or any(java_config.HOST_PORT.match(address) is None for address in addresses):
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
        except FileNotFoundError as error:
            raise CommandError(config_file) from error  # the message of Java's NoSuchFileException
        except OSError as error:
            raise CommandError(f"{config_file}: {error.strerror}") from error
    properties.update(key_values(assignments))
    return properties


def key_values(words: Iterable[str]) -> dict[str, str]:
    """`key=value` words as a dict; a word alone is a key with an empty value, as in Kafka."""
    split = (word.partition("=") for word in words)
    return {key: value for key, _, value in split}


def translate(properties: Mapping[str, str]) -> dict[str, object]:
    """Java client properties as a librdkafka configuration. Raises CommandError for what Java would refuse."""
    config: dict[str, object] = {}
    for key, value in java_config.checked(properties).items():
        if key in _WITHOUT_COUNTERPART:
            continue
        name = _RENAMED.get(key, key)
        match key:
            case "buffer.memory":
                config[name] = max(1, int(value) // 1024)
            case "receive.buffer.bytes" | "send.buffer.bytes" | "connections.max.idle.ms":
                config[name] = max(0, int(value))  # Java's -1, "as the system has it" and "never", is 0 here
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
    """`config` as librdkafka takes it: there a delivery may not take longer than its transaction, in Java it may."""
    if "transactional.id" not in config:
        return config
    limit_ms = int(str(config.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)))
    timeout_ms = int(str(config.get("message.timeout.ms", limit_ms)))
    return {**config, "message.timeout.ms": min(timeout_ms, limit_ms)}


def _credentials(jaas: str) -> dict[str, object]:
    names = {"username": "sasl.username", "password": "sasl.password"}
    return {names[name]: value for name, value in login_options(jaas).items() if name in names}


def finish_on_sigterm() -> None:
    """SIGTERM ends a tool as Ctrl-C does: what is on its way to the broker arrives, a group is left."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def start(make: Callable[[dict[str, object]], object], config: dict[str, object]) -> object:
    """A librdkafka client. What only Java knows is left out and what librdkafka has other limits for is fitted, each
    with a warning; anything else that it refuses is a CommandError that names the property."""
    from confluent_kafka import KafkaException

    config = dict(within_transaction(config))
    while True:
        try:
            return make({**config, "logger": logger()})
        except KafkaException as error:
            text = error.args[0].str().strip()
            if (unknown := _UNKNOWN.search(text)) and unknown[1] in config:
                logger().warning("The configuration %s was supplied but is not known here.", unknown[1])
                del config[unknown[1]]
            elif (limits := _OUTSIDE.search(text)) and limits[1] in config:
                name, least, most = limits[1], int(limits[2]), int(limits[3])
                fitted = min(max(int(str(config[name])), least), most)
                assert str(fitted) != str(config[name])
                known_as = _JAVA_NAMES.get(name, name)
                logger().warning("%s is %s, which librdkafka limits to %s", known_as, config[name], fitted)
                config[name] = fitted
            else:
                # Its text names the property; the value (a password, perhaps) is not repeated.
                raise CommandError(f"Failed to construct kafka client: {text}") from None


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
        elif speaks_tls(first):
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


def is_fatal(error: object) -> bool:
    """Whether the client is of no use any more: fenced, or a member that the coordinator will not have."""
    from confluent_kafka import KafkaError

    assert isinstance(error, KafkaError)
    return bool(error.fatal() or error.code() == KafkaError._FATAL)
