"""Checks the configuration that a change would give to a resource, with Kafka's error texts."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.client_metrics import CLIENT_METRICS
from kcli.config.definition import ConfigError
from kcli.config.dynamic import validate_topic_overrides
from kcli.config.group import validate_group_overrides
from kcli.controller.settings import ControllerSettings
from kcli.errors import (
    BrokerIdNotRegisteredException,
    InvalidConfigurationException,
    InvalidRequestException,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import MetadataImage
from kcli.model import topic_names
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.java_text import parse_int, trim

NewValues = Mapping[str, str | None]
"""The value of each key, by the key's name. None deletes the key."""

# The shortest interval at which a client may be asked to push its metrics (KIP-714).
MIN_PUSH_INTERVAL_MS = 100
MAX_PUSH_INTERVAL_MS = 3_600_000
CLIENT_MATCH_NAMES = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)


def validate(resource: ConfigResource, config: NewValues, settings: ControllerSettings) -> None:
    """Checks the configuration that a resource would have after a change.

    If the resource is a broker, the keys are not checked again, because this broker has already checked them.
    """
    match resource.type:
        case ConfigResourceType.TOPIC:
            if not resource.name:
                raise InvalidRequestException("Default topic resources are not allowed.")
            topic_names.validate(resource.name)
            validate_topic_overrides(config, remote_storage=settings.remote_log_storage_system_enable)
        case ConfigResourceType.BROKER:
            _check_broker_name(resource.name)
        case ConfigResourceType.CLIENT_METRICS:
            if not resource.name:
                raise InvalidRequestException("Subscription name can't be empty")
            _validate_client_metrics(_without_nulls("client metrics", config))
        case ConfigResourceType.GROUP:
            if not resource.name:
                raise InvalidRequestException("Default group resources are not allowed.")
            _validate_group(_without_nulls("group", config), settings)
        case _:
            raise InvalidRequestException(f"Unknown resource type {resource.type.name}")


def _check_broker_name(name: str) -> None:
    if not name:
        return
    try:
        broker_id = parse_int(name)
    except ValueError:
        raise InvalidRequestException("Unable to parse broker name as a base 10 number.") from None
    if broker_id < 0:
        raise InvalidRequestException("Invalid negative broker ID.")


def _without_nulls(kind: str, config: NewValues) -> dict[str, str]:
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise InvalidConfigurationException(f"Null value not supported for {kind} configs: {','.join(nulls)}")
    return {name: value for name, value in config.items() if value is not None}


def _validate_client_metrics(config: Mapping[str, str]) -> None:
    for name in config:
        if name not in CLIENT_METRICS:
            raise InvalidRequestException(f"Unknown client metrics configuration: {name}")
    try:
        values = CLIENT_METRICS.parse(config)
    except ConfigError as error:
        raise InvalidConfigurationException(error.message) from None
    interval_ms, patterns = values["interval.ms"], values["match"]
    assert isinstance(interval_ms, int) and isinstance(patterns, tuple)
    if not MIN_PUSH_INTERVAL_MS <= interval_ms <= MAX_PUSH_INTERVAL_MS:
        raise InvalidRequestException(
            f"Invalid value {interval_ms} for interval.ms, interval must be between {MIN_PUSH_INTERVAL_MS} and "
            f"{MAX_PUSH_INTERVAL_MS} (1 hour)"
        )
    for pattern in patterns:
        _check_client_match(pattern)


def _check_client_match(pattern: str) -> None:
    name, equals, expression = pattern.partition("=")
    if not equals or trim(name) not in CLIENT_MATCH_NAMES or not expression or "=" in expression:
        raise InvalidConfigurationException(f"Illegal client matching pattern: {pattern}")
    from kcli.model.java_regex import JavaRegexError, compile_java

    try:
        compile_java(trim(expression))
    except JavaRegexError:
        raise InvalidConfigurationException(f"Illegal client matching pattern: {pattern}") from None


def _validate_group(config: Mapping[str, str], settings: ControllerSettings) -> None:
    try:
        validate_group_overrides(config, settings.config)
    except ConfigError as error:
        raise InvalidConfigurationException(error.message) from None


def check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    """Raises KafkaError if the topic or broker does not exist. Groups and client-metrics subscriptions need not exist,
    because their first configuration creates them."""
    if resource.type is ConfigResourceType.TOPIC and resource.name not in image.topics:
        raise UnknownTopicOrPartitionException(f"The topic '{resource.name}' does not exist.")
    if (
        resource.type is ConfigResourceType.BROKER
        and resource.name
        and parse_int(resource.name) not in image.brokers
    ):
        raise BrokerIdNotRegisteredException(f"No broker with id {resource.name} found.")
