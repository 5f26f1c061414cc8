"""Admin calls about the configuration of topics, brokers, groups and client metrics (KIP-133, KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kcli.client.admin.parts import ask_in_parts
from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import ErrorCode, KafkaError
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_text import parse_int
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.messages.describe_configs import DescribeConfigsResourceResult


RESOURCES_PER_REQUEST = 500
"""The most resources of one request. A topic has about 40 settings, so the answer has 1 to 3 megabytes."""

E = TypeVar("E", bound=IntEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A setting that can supply the value of a config. The value comes from the first synonym in the list."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting. The value of a sensitive setting is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()


Settings = tuple[ConfigEntry, ...] | KafkaError
"""The settings of a resource, in the server's order, or its error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfig:
    """A change of one setting."""

    name: str
    value: str | None
    op: ConfigOperation = ConfigOperation.SET


async def describe_configs(
    client: Client, resources: Iterable[ConfigResource], *, synonyms: bool = False
) -> dict[ConfigResource, Settings]:
    """Returns all settings of each resource, in the server's order, or the error of the resource.

    A request for a broker or its loggers goes to that broker. Other requests go to any broker. Resources with equal
    settings share the same `ConfigEntry` objects.
    """
    by_target: dict[int | Destination, list[ConfigResource]] = {}
    for resource in resources:
        by_target.setdefault(_target(resource), []).append(resource)
    settings: dict[ConfigResource, Settings] = {}
    for target, of_target in by_target.items():
        ask = partial(_describe, client, target=target, synonyms=synonyms)
        for part in await ask_in_parts(of_target, RESOURCES_PER_REQUEST, ask):
            settings |= part
    return settings


async def incremental_alter_configs(
    client: Client, changes: Mapping[ConfigResource, Iterable[AlterConfig]], *, validate_only: bool = False
) -> dict[ConfigResource, KafkaError | None]:
    """Changes single settings of resources. Returns the error of each resource, or None."""
    by_target: dict[int | Destination, dict[ConfigResource, tuple[AlterConfig, ...]]] = {}
    for resource, ops in changes.items():
        target = Destination.ANY if client.config.servers_are_controllers else _target(resource)
        by_target.setdefault(Destination.CONTROLLER if target is Destination.ANY else target, {})[
            resource
        ] = tuple(ops)
    errors: dict[ConfigResource, KafkaError | None] = {}
    for target, part in by_target.items():
        errors |= await _alter(client, part, target, validate_only)
    return errors


async def list_config_resources(client: Client, types: Iterable[ConfigResourceType]) -> list[ConfigResource]:
    """Returns the resources of these types that have a configuration (KIP-1142)."""
    from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest

    resource_types = tuple(types)

    async def attempt() -> list[ConfigResource]:
        request = ListConfigResourcesRequest(
            resource_types=tuple(int(resource_type) for resource_type in resource_types)
        )
        response = await client.send(request, ApiKey.LIST_CONFIG_RESOURCES)
        raise_for(response.error_code)
        return [
            ConfigResource(_enum(ConfigResourceType, resource.resource_type), resource.resource_name)
            for resource in response.config_resources
        ]

    return await client.call("listConfigResources", attempt)


def _target(resource: ConfigResource) -> int | Destination:
    if resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name:
        return parse_int(resource.name)
    return Destination.ANY


async def _describe(
    client: Client, resources: Sequence[ConfigResource], *, target: int | Destination, synonyms: bool
) -> dict[ConfigResource, Settings]:
    from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=int(resource.type), resource_name=resource.name, configuration_keys=None
            )
            for resource in resources
        ),
        include_synonyms=synonyms,
    )

    async def attempt() -> dict[ConfigResource, Settings]:
        response = await client.send(request, ApiKey.DESCRIBE_CONFIGS, to=target)
        # The results share equal entries, so only a few entries must be converted.
        entries = {id(entry): entry for result in response.results for entry in result.configs}
        converted = {key: _entry(entry) for key, entry in entries.items()}
        return {
            ConfigResource(_enum(ConfigResourceType, result.resource_type), result.resource_name): (
                error_of(result.error_code, result.error_message)
                or tuple([converted[id(entry)] for entry in result.configs])
            )
            for result in response.results
        }

    return await client.call("describeConfigs", attempt)


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=_enum(ConfigSource, entry.config_source),
        is_sensitive=entry.is_sensitive,
        is_read_only=entry.read_only,
        synonyms=tuple(
            ConfigSynonym(name=synonym.name, value=synonym.value, source=_enum(ConfigSource, synonym.source))
            for synonym in entry.synonyms
        ),
    )


async def _alter(
    client: Client,
    changes: Mapping[ConfigResource, tuple[AlterConfig, ...]],
    target: int | Destination,
    validate_only: bool,
) -> dict[ConfigResource, KafkaError | None]:
    from kcli.protocol.messages import incremental_alter_configs as messages

    async def attempt() -> dict[ConfigResource, KafkaError | None]:
        request = messages.IncrementalAlterConfigsRequest(
            resources=tuple(
                messages.AlterConfigsResource(
                    resource_type=int(resource.type),
                    resource_name=resource.name,
                    configs=tuple(
                        messages.AlterableConfig(name=op.name, config_operation=int(op.op), value=op.value)
                        for op in ops
                    ),
                )
                for resource, ops in changes.items()
            ),
            validate_only=validate_only,
        )
        response = await client.send(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, to=target)
        errors: dict[ConfigResource, KafkaError | None] = {}
        for result in response.responses:
            if result.error_code is ErrorCode.NOT_CONTROLLER:
                raise_for(result.error_code, result.error_message)
            resource = ConfigResource(_enum(ConfigResourceType, result.resource_type), result.resource_name)
            errors[resource] = error_of(result.error_code, result.error_message)
        return errors

    return await client.call("incrementalAlterConfigs", attempt)


def _enum(kind: type[E], value: int) -> E:
    """Returns the member of an enum. If a newer server sends an unknown value, returns UNKNOWN."""
    return kind(value) if value in kind._value2member_map_ else kind(0)
