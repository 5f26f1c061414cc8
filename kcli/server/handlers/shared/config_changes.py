"""Checks config changes before the broker sends them to the controller.

The broker checks the names of resources and its own dynamic configs. The controller checks the configs of topics,
groups and client-metrics subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.controller.configs import ConfigChange, incremental_values, replacing_values
from kcli.controller.decision import NO_ERROR, ApiError
from kcli.errors import InvalidRequestException, KafkaError
from kcli.model.acl import CLUSTER_NAME, ResourceType
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.java_text import parse_int
from kcli.runtime.clock import Clock
from kcli.runtime.threads import LOOKUPS
from kcli.server.handlers.shared import broker_loggers
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import ALTER_CONFIGS, CLUSTER_ACTION
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import Need


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a handler that changes configs."""

    channel: ControllerChannel
    clock: Clock
    config: BrokerConfig
    dynamic_config: DynamicConfig
    loader: MetadataLoader


Context = RequestContext[Ports]


class Resource(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


class Config(Protocol):
    """A key of such a resource, with its value."""

    @property
    def name(self) -> str: ...


C = TypeVar("C", bound=Config)
ResultT = TypeVar("ResultT")
A = TypeVar("A", bound=Resource)


CHECK_COST = 20
"""The cost to check a resource or a key, in microseconds. A resource takes 5 µs, and a key takes 2 µs."""
CONFIGURATION_COST = 3000
"""The cost to check the whole configuration of a broker, in microseconds. A request may name the same broker as 1, 01,
001 and so on, so each check needs a slice of its own."""


async def checked(
    context: Context,
    resources: Sequence[A],
    check: Callable[[A], Awaitable[None]],
    changes_of: Callable[[A], Iterable[ConfigChange]],
    *,
    replace_all: bool,
) -> list[ApiError]:
    """Returns the error of each resource, or NO_ERROR, in the order of the request. First `check` checks the resource.
    If the resource is a broker, this broker then checks the configuration that would result from the change.

    A controller skips the second check of a forwarded request, because a broker has already made it. If a client sends
    the request to the controller, the controller checks only the new values, as for a broker with its own file.
    """
    errors = await _check_resources(context, resources, check)
    if context.is_forwarded:
        return errors
    for place, resource in enumerate(resources):
        await context.pace(REFUSAL_COST)
        if resource.resource_type != ConfigResourceType.BROKER or errors[place] is not NO_ERROR:
            continue
        changes = partial(changes_of, resource)
        try:
            if is_on_controller(context):
                new = {change.name: change.value for change in changes() if change.value is not None}
                await context.ports.dynamic_config.validate_values(new, context.pace)
            else:
                await _check_broker(context, resource.resource_name, changes, replace_all)
        except KafkaError as error:
            errors[place] = ApiError(error.code, error.message)
    return errors


async def _check_resources(
    context: Context, resources: Sequence[A], check: Callable[[A], Awaitable[None]]
) -> list[ApiError]:
    """The result of the check of each resource. If a resource occurs twice, both entries are refused."""
    counts: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        await context.pace(CHECK_COST)
        counts[resource.resource_type, resource.resource_name] += 1
    errors = []
    for resource in resources:
        await context.pace(CHECK_COST)
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequestException("Each resource must appear at most once.")
            await check(resource)
            errors.append(NO_ERROR)
        except KafkaError as error:
            errors.append(ApiError(error.code, error.message))
    return errors


async def merged(
    context: Context,
    resources: Sequence[A],
    errors: Sequence[ApiError],
    refused: Callable[[A, ApiError], ResultT],
    decided: Callable[[A], ResultT | None],
) -> tuple[ResultT, ...]:
    """Returns the result of each resource, in the order of the request. If a resource has no error, its result is the
    result of `decided`. Otherwise it is the result of `refused`."""
    results = []
    for resource, error in zip(resources, errors, strict=True):
        await context.pace(REFUSAL_COST)
        result = decided(resource) if error is NO_ERROR else None
        results.append(refused(resource, error) if result is None else result)
    return tuple(results)


async def passed(context: Context, resources: Sequence[A], errors: Sequence[ApiError]) -> tuple[A, ...]:
    """The resources without an error."""
    accepted = []
    for resource, error in zip(resources, errors, strict=True):
        await context.pace(REFUSAL_COST)
        if error is NO_ERROR:
            accepted.append(resource)
    return tuple(accepted)


def needed(needs: Mapping[ResourceType, Need], resource: Resource) -> tuple[Need, str]:
    """Returns the permission that a client needs to change this resource, and the resource name for the authorizer.
    Raises InvalidRequestException for an unknown type of resource.
    """
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return needs[ResourceType.TOPIC], resource.resource_name
        case ConfigResourceType.GROUP:
            return needs[ResourceType.GROUP], resource.resource_name
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER | ConfigResourceType.CLIENT_METRICS:
            return needs[ResourceType.CLUSTER], CLUSTER_NAME
        case unknown:
            raise InvalidRequestException(f"Unknown resource type {unknown}")


def require_alter(context: Context, resource: Resource) -> None:
    """Raises KafkaError if the client may not change the configs of the resource."""
    need, name = needed(ALTER_CONFIGS, resource)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER and is_on_controller(context):
        need = CLUSTER_ACTION
    context.rights.require_on(need, name)


def is_on_controller(context: Context) -> bool:
    """Whether a controller serves the request: on its own listener, or after a broker has forwarded it."""
    return context.is_forwarded or context.listener in context.ports.config.controller_listener_names


async def check_keys(context: Context, configs: Sequence[C], is_null: Callable[[C], bool]) -> None:
    """Raises KafkaError for duplicate keys, and for a null value if the operation needs a value. `is_null` returns True
    for such a value."""
    names = set()
    null_names = []
    for config in configs:
        await context.pace(CHECK_COST)
        names.add(config.name)
        if is_null(config):
            null_names.append(config.name)
    if null_names:
        raise InvalidRequestException(f"Null value not supported for : {', '.join(null_names)}")
    if len(names) < len(configs):
        raise InvalidRequestException("Error due to duplicate config keys")


def check_resource(
    context: Context, resource: Resource, changes: Callable[[], Iterable[ConfigChange]]
) -> None:
    """Raises KafkaError if this server does not change such a resource, or if a log level is invalid."""
    match resource.resource_type:
        case ConfigResourceType.TOPIC | ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS:
            return
        case ConfigResourceType.BROKER:
            if resource.resource_name and not is_on_controller(context):
                require_own_id(context.ports.config, resource.resource_name)
        case ConfigResourceType.BROKER_LOGGER:
            require_own_id(context.ports.config, resource.resource_name)
            broker_loggers.check(changes())  # the names of loggers are few, and any other name is refused
        case unknown:
            raise InvalidRequestException(f"Unknown resource type {unknown}")


def require_own_id(config: BrokerConfig, name: str, *, noun: str = "Node") -> None:
    """Raises KafkaError if `name` is not the id of this broker. If `name` is not a number, the error text begins with
    `noun`."""
    node_id = config.node_id
    try:
        named = parse_int(name)
    except ValueError:
        raise InvalidRequestException(f"{noun} id must be an integer, but it is: {name}") from None
    if named != node_id:
        raise InvalidRequestException(f"Unexpected broker id, expected {node_id}, but received {name}")


async def _check_broker(
    context: Context, name: str, changes: Callable[[], Iterable[ConfigChange]], replace_all: bool
) -> None:
    """Raises KafkaError if this broker cannot apply the change."""
    config = context.ports.dynamic_config
    overrides = await _overrides(context, name, changes, replace_all)
    preparation = await config.preparation(overrides, context.pace, own=bool(name))
    if preparation is not None:
        await LOOKUPS.run(preparation)
    await context.pace(CONFIGURATION_COST)
    overrides = await _overrides(context, name, changes, replace_all)
    await config.validate(overrides, context.pace, own=bool(name))


async def _overrides(
    context: Context, name: str, changes: Callable[[], Iterable[ConfigChange]], replace_all: bool
) -> dict[str, str]:
    """The dynamic configs of the broker, or the defaults of all brokers, as they will be after the change."""
    image = context.ports.loader.image
    resource = ConfigResource(ConfigResourceType.BROKER, name)
    new_values = replacing_values if replace_all else incremental_values
    values = await new_values(image, resource, changes(), context.pace)
    after = {**image.config(resource), **values}
    return {key: value for key, value in after.items() if value is not None}
