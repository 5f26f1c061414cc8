"""Changes the configurations of topics, brokers, groups and client-metrics subscriptions (KIP-226, KIP-339, KIP-1131).

A change is valid if the whole resulting configuration is valid. If a key is set to its present value, no record is
written. A key of a broker is an exception: the record makes the broker read the key again, for example to load a
renewed key store (KIP-226).

A request may have thousands of resources or keys, so they are checked in steps. Then one decision changes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from kcli.config.client_metrics import CLIENT_METRICS
from kcli.config.definition import ConfigDef, ConfigType
from kcli.config.dynamic import validate_topic_overrides
from kcli.config.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kcli.config.group import GROUP
from kcli.config.security_keys import is_security_key, is_store_key
from kcli.config.topic import TOPIC
from kcli.controller.config_validation import NewValues, check_exists, validate
from kcli.controller.decision import (
    MAX_RECORDS_PER_BATCH,
    NAME_COST,
    NO_ERROR,
    ApiError,
    decide,
    in_steps,
    too_many_records,
)
from kcli.controller.policies import ConfigsToAlter
from kcli.controller.settings import ControllerSettings
from kcli.errors import (
    InvalidConfigurationException,
    InvalidRequestException,
    KafkaError,
)
from kcli.metadata.image import MetadataImage, TopicImage
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType
from kcli.model.java_order import hash_order, hash_order_in_slices
from kcli.model.java_text import trim
from kcli.model.pace import Pace, at_once, no_pause
from kcli.protocol.records.metadata import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)

MIN_INSYNC_REPLICAS = "min.insync.replicas"
MAX_VALUE_LENGTH = 32_767
"""The length limit of a configuration value, in characters. Kafka has this limit because the length field of its
strings is an int16."""
RESOURCE_COST = 100
"""The cost to check a resource, without its keys, in microseconds."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    operation: ConfigOperation
    value: str | None


def topic_config_records(
    image: MetadataImage, name: str, configs: NewValues, settings: ControllerSettings
) -> list[MetadataRecord]:
    """The records with the configuration of a new topic. Raises KafkaError if it is invalid."""
    if not configs:
        return []
    validate_topic_overrides(configs, remote_storage=settings.remote_log_storage_system_enable)
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    settings.policies.check_configs(ConfigsToAlter(resource.type.name, name, configs))
    records: list[MetadataRecord] = [_record(resource, key, configs[key]) for key in hash_order(configs)]
    return [*records, *clear_elr_records(image, records)]


async def incremental_values(
    image: MetadataImage, resource: ConfigResource, changes: Iterable[ConfigChange], pace: Pace
) -> NewValues:
    """The new values of the keys that the operations change.

    Raises InvalidConfigurationException for APPEND or SUBTRACT on a key that is not a list.
    """
    present = image.config(resource)
    values: dict[str, str | None] = {}
    for change in changes:
        await pace(NAME_COST)
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
    return [trim(item) for item in (text or "").split(",") if trim(item)]


async def replacing_values(
    image: MetadataImage, resource: ConfigResource, changes: Iterable[ConfigChange], pace: Pace
) -> NewValues:
    """The new values of all keys of the resource, for a legacy AlterConfigs, which replaces the whole configuration."""
    values: dict[str, str | None] = {}
    for change in changes:
        await pace(NAME_COST)
        values[change.name] = change.value
    return {**values, **{name: None for name in image.config(resource) if name not in values}}


async def alter(
    image: MetadataImage,
    resource: ConfigResource,
    values: NewValues,
    settings: ControllerSettings,
    pace: Pace,
) -> list[MetadataRecord]:
    """The records that change an existing resource. Raises KafkaError if the change is invalid."""
    present = image.config(resource)
    is_broker = resource.type is ConfigResourceType.BROKER
    changed = []
    after: dict[str, str | None] = dict(present)
    for name in await hash_order_in_slices(values, pace, NAME_COST):
        await pace(NAME_COST)
        value = values[name]
        if not is_broker and value == present.get(name):
            continue
        changed.append(name)
        _check_min_insync_replicas(image, resource, name, value)
        if value is None:
            after.pop(name, None)
            continue
        if len(value) > MAX_VALUE_LENGTH:
            raise InvalidConfigurationException(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MAX_VALUE_LENGTH} bytes."
            )
        if is_broker and is_security_key(name) and not is_store_key(name):
            # A request to a controller's own listener has not passed the checks of a broker.
            raise InvalidRequestException(f"Cannot update these configs dynamically: Set({name})")
        after[name] = value
    validate(resource, after, settings)
    check_exists(image, resource)
    new = {name: values[name] for name in changed}
    settings.policies.check_configs(ConfigsToAlter(resource.type.name, resource.name, new))
    records: list[MetadataRecord] = []
    for name in changed:
        await pace(NAME_COST)
        records.append(_record(resource, name, values[name]))
    return records


def _record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=int(resource.type), resource_name=resource.name, name=name, value=value)


def elr_enabled(image: MetadataImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def _check_min_insync_replicas(
    image: MetadataImage, resource: ConfigResource, name: str, value: str | None
) -> None:
    """Checks a change while ELR is enabled (KIP-966). Raises KafkaError if the change sets min.insync.replicas for one
    broker, or removes the cluster's default."""
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


def clear_elr_records(image: MetadataImage, records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """The records that clear the ELRs, if `records` change min.insync.replicas. The ELRs depend on this key.

    Unlike in Kafka, partitions with an empty ISR keep their ELR and their last known leader. No record was committed
    since the ISR became empty, so these replicas still have all committed records. Without these replicas, only an
    unclean election could elect a leader.
    """
    if not elr_enabled(image):
        return []
    changed = [
        record
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]
    if not changed:
        return []
    topics: Iterable[TopicImage | None] = image.topics
    cleared: list[MetadataRecord] = [ClearElrRecord(topic_name="")]
    if all(record.resource_type == ConfigResourceType.TOPIC for record in changed):
        names = [record.resource_name for record in changed]
        topics = map(image.topics.topic, names)
        cleared = [ClearElrRecord(topic_name=name) for name in names]
    room = MAX_RECORDS_PER_BATCH - len(records) - len(cleared)
    restored = (record for topic in topics if topic is not None for record in _candidates(topic))
    return [*cleared, *islice(restored, max(room, 0))]


def _candidates(topic: TopicImage) -> Iterator[PartitionChangeRecord]:
    """The records that restore the ELR and the last known leader of the partitions with an empty ISR."""
    for number, partition in topic.partitions.items():
        if not partition.isr and (partition.elr or partition.last_known_elr):
            yield PartitionChangeRecord(
                partition_id=number,
                topic_id=topic.topic_id,
                eligible_leader_replicas=partition.elr or None,
                last_known_elr=partition.last_known_elr or None,
            )


_DEFINITIONS: Mapping[ConfigResourceType, ConfigDef] = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """The change of one resource in a request: operations on single keys, or all new values (legacy AlterConfigs).

    `changes` is a function, because a request may have thousands of keys, and each key is read in its own step.
    """

    resource_type: int
    resource_name: str
    changes: Callable[[], Iterable[ConfigChange]]
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The records of one resource, or its error. `image` is the metadata on which they are based."""

    change: ResourceChange
    image: MetadataImage
    records: Sequence[MetadataRecord] = ()
    error: ApiError = NO_ERROR


def alter_all(
    image: Callable[[], MetadataImage],
    changes: Iterable[ResourceChange],
    settings: ControllerSettings,
    *,
    validate_only: bool,
) -> Generator[Sequence[MetadataRecord], None, tuple[tuple[MetadataRecord, ...], list[ApiError]]]:
    """The records of the valid changes, and the result of each change, in the order of the request.

    Checks the changes in steps. `image` returns the present metadata, so the records fit to the metadata of the last
    step. Raises PolicyViolationException if the records are too many for one batch.
    """
    prepared = yield from in_steps(
        lambda pace: _prepare_all(image, changes, settings, pace, validate_only=validate_only)
    )
    if validate_only:
        return (), [entry.error for entry in prepared]
    now = image()
    records: list[MetadataRecord] = []
    for place, entry in enumerate(prepared):
        # Between two steps, another request may have changed the resource.
        if entry.image is not now and entry.records and _has_changed(entry, now):
            prepared[place] = at_once(_prepare(now, entry.change, settings, no_pause))
        records += prepared[place].records
    decision = decide([*records, *clear_elr_records(now, records)], [entry.error for entry in prepared])
    return decision.records, decision.response


async def _prepare_all(
    image: Callable[[], MetadataImage],
    changes: Iterable[ResourceChange],
    settings: ControllerSettings,
    pace: Pace,
    *,
    validate_only: bool,
) -> list[_Prepared]:
    prepared = []
    count = 0
    for change in changes:
        await pace(RESOURCE_COST)
        prepared.append(await _prepare(image(), change, settings, pace))
        count += len(prepared[-1].records)
        if count > MAX_RECORDS_PER_BATCH and not validate_only:
            raise too_many_records()
    return prepared


async def _prepare(
    image: MetadataImage, change: ResourceChange, settings: ControllerSettings, pace: Pace
) -> _Prepared:
    try:
        return _Prepared(change, image, await _alter_one(image, change, settings, pace))
    except KafkaError as error:
        return _Prepared(change, image, error=ApiError.of(error))


def _has_changed(prepared: _Prepared, now: MetadataImage) -> bool:
    """Whether the present metadata may give other records for a resource."""
    resource, before = _resource(prepared.change), prepared.image
    if now.config(resource) != before.config(resource) or elr_enabled(now) != elr_enabled(before):
        return True
    try:
        check_exists(now, resource)
    except KafkaError:
        return True
    return False


def _resource(change: ResourceChange) -> ConfigResource:
    if change.resource_type not in _RESOURCE_TYPES:
        raise InvalidRequestException(f"Unknown resource type {change.resource_type}")
    return ConfigResource(ConfigResourceType(change.resource_type), change.resource_name)


_RESOURCE_TYPES = frozenset(ConfigResourceType)


async def _alter_one(
    image: MetadataImage, change: ResourceChange, settings: ControllerSettings, pace: Pace
) -> list[MetadataRecord]:
    resource = _resource(change)
    new_values = replacing_values if change.replace_all else incremental_values
    values = await new_values(image, resource, change.changes(), pace)
    return await alter(image, resource, values, settings, pace)
