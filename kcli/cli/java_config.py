"""What Java's producer and consumer refuse in their properties, in their words (ProducerConfig, ConsumerConfig)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kcli.cli.options import CommandError, Kind

_EXCEPTION = "org.apache.kafka.common.config.ConfigException"
_NO_LEAST = -(2**63)

# Key -> the least value. Only what the tools' clients use: others are passed on as they are.
_INTEGERS = {
    "auto.commit.interval.ms": 0, "batch.size": 0, "default.api.timeout.ms": 0, "delivery.timeout.ms": 0,
    "fetch.max.bytes": 0, "fetch.max.wait.ms": 0, "fetch.min.bytes": 0, "heartbeat.interval.ms": _NO_LEAST,
    "max.in.flight.requests.per.connection": 1, "max.partition.fetch.bytes": 0, "max.poll.interval.ms": 1,
    "max.poll.records": 1, "max.request.size": 0, "receive.buffer.bytes": -1, "request.timeout.ms": 0, "retries": 0,
    "send.buffer.bytes": -1, "session.timeout.ms": _NO_LEAST, "transaction.timeout.ms": _NO_LEAST,
}  # fmt: skip
_LONGS = {
    "buffer.memory": 0, "connections.max.idle.ms": _NO_LEAST, "linger.ms": 0, "max.block.ms": 0,
    "metadata.max.age.ms": 0, "reconnect.backoff.max.ms": 0, "reconnect.backoff.ms": 0, "retry.backoff.max.ms": 0,
    "retry.backoff.ms": 0,
}  # fmt: skip
_BOOLEANS = frozenset({"allow.auto.create.topics", "check.crcs", "enable.auto.commit", "enable.idempotence"})
_CHOICES = {
    "acks": ("all", "-1", "0", "1"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_committed", "read_uncommitted"),
}
_CHOICES_IN_ANY_CASE = {
    "group.protocol": ("CLASSIC", "CONSUMER"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
HOST_PORT = re.compile(r"^(?:[a-zA-Z]+://)?(\[[0-9a-fA-F:.%]+\]|[^:\s,]+):(\d{1,5})$")
_RESETS = ("earliest", "latest", "none")
# What the broker decides in one of the group protocols (KIP-848), and the client in the other.
_NOT_IN_PROTOCOL = {
    "consumer": ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
    "classic": ("group.remote.assignor",),
}


def checked(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, without the blanks that Java takes away. Raises CommandError with Java's ConfigException."""
    found = {key: _checked(key, value) for key, value in properties.items()}
    protocol = found.get("group.protocol", "classic").lower()
    for key in _NOT_IN_PROTOCOL[protocol]:
        if key in found:
            raise CommandError(f"{key} cannot be set when group.protocol={protocol.upper()}")
    if not found.get("group.id", "unused").strip():
        raise CommandError(
            "org.apache.kafka.common.errors.InvalidGroupIdException: "
            "The configured group.id should not be an empty string or whitespace."
        )
    return found


def _checked(key: str, value: str) -> str:
    text = value.strip()
    for kind, least_of in ((Kind.INTEGER, _INTEGERS), (Kind.LONG, _LONGS)):
        if key in least_of:
            return _number(key, text, kind, least_of[key])
    if key in _BOOLEANS:
        if text.lower() not in ("true", "false"):
            raise _refused(key, value, "Expected value to be either true or false")
        return text.lower()
    if key in _CHOICES and text not in _CHOICES[key]:
        raise _refused(key, value, f"String must be one of: {', '.join(_CHOICES[key])}")
    if key in _CHOICES_IN_ANY_CASE and text.upper() not in _CHOICES_IN_ANY_CASE[key]:
        choices = ", ".join(_CHOICES_IN_ANY_CASE[key])
        raise _refused(key, value, f"String must be one of (case insensitive): {choices}")
    if key == "auto.offset.reset":
        return _reset(text)
    if key == "bootstrap.servers":
        return _servers(value)
    return text if key in _CHOICES or key in _CHOICES_IN_ANY_CASE else value


def _number(key: str, text: str, kind: Kind, least: int) -> str:
    try:
        value = kind.convert(text)
    except ValueError:
        raise _refused(
            key, text, f"Not a number of type {'INT' if kind is Kind.INTEGER else 'LONG'}"
        ) from None
    assert isinstance(value, int)
    if value < least:
        raise _refused(key, text, f"Value must be at least {least}")
    return str(value)


def _reset(text: str) -> str:
    reset = text.lower()
    if reset.startswith("by_duration:"):
        raise CommandError(
            f"auto.offset.reset={text}: librdkafka knows no durations; console-consumer has --from-time, and "
            "consumer-groups --reset-offsets --by-duration"
        )
    if reset not in _RESETS:
        raise CommandError(
            f"{_EXCEPTION}: Invalid value `{text}` for configuration "
            "auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format "
            "'by_duration:<PnDTnHnMn.nS.>'."
        )
    return reset


def _servers(value: str) -> str:
    addresses = [address.strip() for address in value.split(",") if address.strip()]
    for address in addresses:
        if HOST_PORT.match(address) is None:
            raise CommandError(f"{_EXCEPTION}: Invalid url in bootstrap.servers: {address}")
    if not addresses:
        raise CommandError(f"{_EXCEPTION}: No resolvable bootstrap urls given in bootstrap.servers")
    return value


def _refused(key: str, value: str, reason: str) -> CommandError:
    return CommandError(f"{_EXCEPTION}: Invalid value {value} for configuration {key}: {reason}")
