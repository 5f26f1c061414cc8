"""The checks of Java's ProducerConfig and ConsumerConfig, with Java's error texts."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.model.addresses import read_server
from kcli.model.java_text import trim
from kcli.rdkafka.errors import ConfigurationError, DurationResetError

_EXCEPTION = "org.apache.kafka.common.config.ConfigException"
# By group protocol: the keys that a client must not set, because with this protocol the broker decides (KIP-848).
_NOT_IN_PROTOCOL = {
    "consumer": ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
    "classic": ("group.remote.assignor",),
}


def checked(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties, checked and without the spaces that Java strips.

    Raises ConfigurationError with Java's text.
    """
    texts = {key: _checked(key, value) for key, value in properties.items()}
    protocol = texts.get("group.protocol", "classic").lower()
    for key in _NOT_IN_PROTOCOL[protocol]:
        if key in texts:
            raise ConfigurationError(f"{key} cannot be set when group.protocol={protocol.upper()}")
    if not texts.get("group.id", "unused"):
        raise ConfigurationError(
            "org.apache.kafka.common.errors.InvalidGroupIdException: "
            "The configured group.id should not be an empty string or whitespace."
        )
    return texts


def _checked(key: str, value: str) -> str:
    """Checks and returns the value of a producer's or consumer's key.

    The value of any other key is returned unchanged.
    """
    from kcli.config.consumer import CONSUMER
    from kcli.config.definition import ConfigError, java_string
    from kcli.config.producer import PRODUCER

    definition = PRODUCER.get(key) or CONSUMER.get(key)
    if definition is None:
        return value
    try:
        parsed = definition.parse(value)
    except ConfigError as error:
        raise ConfigurationError(f"{_EXCEPTION}: {error}") from None
    text = java_string(parsed) if isinstance(parsed, (bool, int)) else trim(value)
    if key == "auto.offset.reset":
        return _reset(text.lower())
    if key == "bootstrap.servers":
        _check_servers(text)
    return text


def _reset(reset: str) -> str:
    if reset.startswith("by_duration:"):
        raise DurationResetError(f"auto.offset.reset={reset}: librdkafka knows no durations")
    return reset


def _check_servers(servers: str) -> None:
    addresses = [trim(address) for address in servers.split(",") if trim(address)]
    for address in addresses:
        if read_server(address) is None:
            raise ConfigurationError(f"{_EXCEPTION}: Invalid url in bootstrap.servers: {address}")
    if not addresses:
        raise ConfigurationError(f"{_EXCEPTION}: No resolvable bootstrap urls given in bootstrap.servers")
