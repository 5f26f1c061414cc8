"""Changing configurations: of topics, brokers, groups and client-metrics subscriptions (KIP-339, KIP-226, KIP-1131).

A change is judged by the whole configuration that it would leave behind. Values that stay as they are write no
record, except a broker's: setting a key again makes the broker read it again, which is how a renewed key store is
loaded (KIP-226).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kcli.config.client_metrics import CLIENT_METRICS
from kcli.config.definition import ConfigDef, ConfigError, ConfigType
from kcli.config.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kcli.config.group import GROUP
from kcli.config.java_order import hash_order
from kcli.config.topic import TOPIC
from kcli.controller import topic_names
from kcli.controller.decision import NO_ERROR, ApiError
from kcli.controller.image import ConfigResource, ConfigResourceType, MetadataImage
from kcli.controller.settings import ControllerSettings
from kcli.controller.topic_configs import validate_topic_config
from kcli.errors import (
    BrokerIdNotRegisteredException,
    InvalidConfigurationException,
    InvalidRequestException,
    KafkaError,
    UnknownTopicOrPartitionException,
)
from kcli.protocol.records.metadata import ClearElrRecord, ConfigRecord, MetadataRecord

MIN_INSYNC_REPLICAS = "min.insync.replicas"
# Kafka's strings have a 16-bit length.
MAX_VALUE_LENGTH = 32_767


class ConfigOperation(IntEnum):
    """IncrementalAlterConfigs' operations."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    operation: ConfigOperation
    value: str | None


# The new value of each key that a request touches; None deletes it.
NewValues = Mapping[str, str | None]


def topic_config_records(
    image: MetadataImage, name: str, configs: NewValues, settings: ControllerSettings
) -> list[MetadataRecord]:
    """What gives a topic about to be created its configuration. Raises KafkaError when it is not valid."""
    validate_topic_config(configs, remote_storage=settings.remote_log_storage_system_enable)
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    records: list[MetadataRecord] = [_record(resource, key, configs[key]) for key in hash_order(configs)]
    return [*records, *clear_elr_records(image, records)]


def incremental_values(
    image: MetadataImage, resource: ConfigResource, changes: Iterable[ConfigChange]
) -> NewValues:
    """What the operations make of the present values. Raises InvalidConfigurationException for a list operation on
    a key that is no list.
    """
    present = image.config(resource)
    values: dict[str, str | None] = {}
    for change in changes:
        match change.operation:
            case ConfigOperation.SET:
                values[change.name] = change.value
            case ConfigOperation.DELETE:
                values[change.name] = None
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                values[change.name] = _listed(resource, change, present.get(change.name))
    return values


def _listed(resource: ConfigResource, change: ConfigChange, present: str | None) -> str:
    definition = _DEFINITIONS.get(resource.type)
    key = None if definition is None else definition.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise InvalidConfigurationException(
            f"Can't {change.operation.name} to key {change.name} because its type is not LIST."
        )
    items = _items(key.default if present is None else present)
    for item in _items(change.value):
        if change.operation is ConfigOperation.SUBTRACT:
            if item in items:
                items.remove(item)
        elif item not in items:
            items.append(item)
    return ",".join(items)


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def replacing_values(image: MetadataImage, resource: ConfigResource, wanted: NewValues) -> NewValues:
    """Legacy AlterConfigs: the configs given are all there shall be."""
    return {**wanted, **{name: None for name in image.config(resource) if name not in wanted}}


def alter(
    image: MetadataImage, resource: ConfigResource, values: NewValues, settings: ControllerSettings
) -> list[MetadataRecord]:
    """The records that change one resource that exists. Raises KafkaError when they may not be written."""
    present = image.config(resource)
    is_broker = resource.type is ConfigResourceType.BROKER
    changed = [name for name in hash_order(values) if is_broker or values[name] != present.get(name)]
    after: dict[str, str | None] = dict(present)
    for name in changed:
        value = values[name]
        _check_min_insync_replicas(image, resource, name, value)
        if value is None:
            after.pop(name, None)
            continue
        if len(value) > MAX_VALUE_LENGTH:
            raise InvalidConfigurationException(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MAX_VALUE_LENGTH} bytes."
            )
        after[name] = value
    validate(resource, after, settings)
    check_exists(image, resource)
    return [_record(resource, name, values[name]) for name in changed]


def _record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=int(resource.type), resource_name=resource.name, name=name, value=value)


def elr_enabled(image: MetadataImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def _check_min_insync_replicas(
    image: MetadataImage, resource: ConfigResource, name: str, value: str | None
) -> None:
    """With ELR the whole cluster must agree on one default (KIP-966)."""
    if (
        name != MIN_INSYNC_REPLICAS
        or resource.type is not ConfigResourceType.BROKER
        or not elr_enabled(image)
    ):
        return
    if resource.name:
        raise InvalidConfigurationException(
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if value is None:
        raise InvalidConfigurationException(
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def clear_elr_records(image: MetadataImage, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """Another min.insync.replicas changes what an eligible leader replica is, so those known are forgotten."""
    if not elr_enabled(image):
        return []
    changed = [
        record
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]
    if not changed:
        return []
    if any(record.resource_type == ConfigResourceType.BROKER for record in changed):
        return [ClearElrRecord(topic_name="")]
    return [ClearElrRecord(topic_name=record.resource_name) for record in changed]


def validate(resource: ConfigResource, config: NewValues, settings: ControllerSettings) -> None:
    """The configuration a resource would have. Broker keys have been judged by the broker itself."""
    match resource.type:
        case ConfigResourceType.TOPIC:
            if not resource.name:
                raise InvalidRequestException("Default topic resources are not allowed.")
            topic_names.validate(resource.name)
            validate_topic_config(config, remote_storage=settings.remote_log_storage_system_enable)
        case ConfigResourceType.BROKER:
            _check_broker_name(resource.name)
        case ConfigResourceType.CLIENT_METRICS:
            if not resource.name:
                raise InvalidRequestException("Subscription name can't be empty")
            _validate_with(CLIENT_METRICS, "client metrics", config)
        case ConfigResourceType.GROUP:
            if not resource.name:
                raise InvalidRequestException("Default group resources are not allowed.")
            _validate_with(GROUP, "group", config)
        case _:
            raise InvalidRequestException(f"Unknown resource type {resource.type.name}")


def _check_broker_name(name: str) -> None:
    if not name:
        return
    try:
        broker_id = int(name, 10)
    except ValueError:
        raise InvalidRequestException("Unable to parse broker name as a base 10 number.") from None
    if broker_id < 0:
        raise InvalidRequestException("Invalid negative broker ID.")


def _validate_with(definition: ConfigDef, kind: str, config: NewValues) -> None:
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise InvalidConfigurationException(f"Null value not supported for {kind} configs: {','.join(nulls)}")
    for name in config:
        if name not in definition:
            raise InvalidConfigurationException(f"Unknown {kind} config name: {name}")
    try:
        definition.parse({name: value for name, value in config.items() if value is not None})
    except ConfigError as error:
        raise InvalidConfigurationException(error.message) from None


def check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    """Groups and subscriptions come into being by being configured; topics and brokers must be there."""
    if resource.type is ConfigResourceType.TOPIC and resource.name not in image.topics:
        raise UnknownTopicOrPartitionException(f"The topic '{resource.name}' does not exist.")
    if (
        resource.type is ConfigResourceType.BROKER
        and resource.name
        and int(resource.name) not in image.brokers
    ):
        raise BrokerIdNotRegisteredException(f"No broker with id {resource.name} found.")


_DEFINITIONS: Mapping[ConfigResourceType, ConfigDef] = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One resource of a request: either the operations on its keys, or (legacy) all the keys it shall have."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]
    replace_all: bool = False


def alter_all(
    image: MetadataImage, asked: Iterable[ResourceChange], settings: ControllerSettings
) -> tuple[list[MetadataRecord], list[ApiError]]:
    """The records of the changes that are valid, and how each one fared, in the order asked."""
    records: list[MetadataRecord] = []
    errors: list[ApiError] = []
    for change in asked:
        try:
            records += _alter_one(image, change, settings)
            errors.append(NO_ERROR)
        except KafkaError as error:
            errors.append(ApiError.of(error))
    return [*records, *clear_elr_records(image, records)], errors


def _alter_one(
    image: MetadataImage, asked: ResourceChange, settings: ControllerSettings
) -> list[MetadataRecord]:
    if asked.resource_type not in ConfigResourceType.__members__.values():
        raise InvalidRequestException(f"Unknown resource type {asked.resource_type}")
    resource = ConfigResource(ConfigResourceType(asked.resource_type), asked.resource_name)
    if asked.replace_all:
        wanted = {change.name: change.value for change in asked.changes}
        values = replacing_values(image, resource, wanted)
    else:
        values = incremental_values(image, resource, asked.changes)
    return alter(image, resource, values, settings)
