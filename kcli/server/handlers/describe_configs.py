"""DescribeConfigs (key 32, versions 1-4): the keys of a resource, with their values and the source of each value.

KIP-226 defines synonyms (v1), KIP-569 defines type and documentation (v3), and KIP-1142 adds groups and subscriptions.
Kafka's response has entries in the order of Java's HashMap, and tools print this order. So the entries have the same
order here. A success has an empty error message, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.describe import ConfigEntry
from kcli.config.dynamic import DynamicConfig
from kcli.controller.decision import ApiError
from kcli.errors import (
    InvalidRequestException,
    KafkaError,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import MetadataImage
from kcli.model import topic_names
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.java_order import hash_order
from kcli.model.pace import mapped
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kcli.server.handlers.shared import broker_loggers
from kcli.server.handlers.shared.config_answers import ConfigAnswers, EntriesKind
from kcli.server.handlers.shared.config_changes import needed, require_own_id
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import DESCRIBE_CONFIGS
from kcli.server.requests.context import REFUSAL_COST, RequestContext

DESCRIBED = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}
"""The types of resources that a request may name. A request with any other type is refused as a whole."""

RESOURCE_COST = 500
"""The cost to describe a resource, in microseconds. A topic takes 300 µs, and a broker 2000 µs. If their
entries are cached, both take 2 µs."""


@dataclass(frozen=True, slots=True)
class Ports:
    config: BrokerConfig
    config_answers: ConfigAnswers
    dynamic_config: DynamicConfig
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    image = context.ports.loader.image  # one image for the whole answer
    results = await mapped(
        context.pace,
        RESOURCE_COST,
        request.resources,
        lambda resource: _describe(context, image, request, resource),
    )
    return DescribeConfigsResponse(results=results)


async def error_response(
    context: Context, request: DescribeConfigsRequest, error: KafkaError
) -> DescribeConfigsResponse:
    results = await mapped(
        context.pace,
        REFUSAL_COST,
        request.resources,
        lambda resource: _failed(resource, error, error.message),
    )
    return DescribeConfigsResponse(results=results)


def _describe(
    context: Context,
    image: MetadataImage,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> DescribeConfigsResult:
    if resource.resource_type not in DESCRIBED:
        raise InvalidRequestException  # refuses the whole request
    try:
        context.rights.require_on(*needed(DESCRIBE_CONFIGS, resource))
    except KafkaError as error:
        return _failed(resource, error, error.message)
    try:
        configs = _entries(context, image, request, resource)
    except UnknownTopicOrPartitionException as error:
        # The message is empty, as in Kafka, because tools print it.
        return _failed(resource, error, "")
    except KafkaError as error:
        return _failed(resource, error, ApiError.of(error).message)
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _failed(
    resource: DescribeConfigsResource, error: KafkaError, message: str | None
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _entries(
    context: Context,
    image: MetadataImage,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> tuple[DescribeConfigsResourceResult, ...]:
    """The wanted entries of a resource. Raises KafkaError if the resource is unknown or invalid."""
    _check(context, image, resource)
    dynamic = context.ports.dynamic_config
    # An empty list asks for all keys. Null asks for all keys too.
    names = frozenset(resource.configuration_keys) if resource.configuration_keys else None
    # Loggers are never read from the cache, because any library may add a logger.
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        return tuple(_results(broker_loggers.describe(), names, request))
    of_broker = resource.resource_type == ConfigResourceType.BROKER
    overrides = image.config(
        ConfigResource(ConfigResourceType(resource.resource_type), resource.resource_name)
    )
    kind = EntriesKind(
        context.api_version,
        request.include_synonyms,
        request.include_documentation,
        resource.resource_type,
        resource.resource_name if of_broker else "",
        frozenset(overrides.items()),
    )
    entries = context.ports.config_answers.entries(
        dynamic, kind, lambda: _results(_described(dynamic, resource, overrides), None, request)
    )
    return entries if names is None else tuple([entry for entry in entries if entry.name in names])


def _check(context: Context, image: MetadataImage, resource: DescribeConfigsResource) -> None:
    """Raises KafkaError for a resource that cannot be described."""
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            topic_names.validate(name)
            if name not in image.topics:
                raise UnknownTopicOrPartitionException
        case ConfigResourceType.BROKER:
            if name:
                require_own_id(context.ports.config, name, noun="Broker")
        case ConfigResourceType.BROKER_LOGGER:
            if not name:
                raise InvalidRequestException("Broker id must not be empty")
            require_own_id(context.ports.config, name, noun="Broker")
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequestException("Client metrics subscription name must not be empty")
        case ConfigResourceType.GROUP:
            if not name:
                raise InvalidRequestException("Group name must not be empty")


def _described(
    dynamic: DynamicConfig, resource: DescribeConfigsResource, overrides: Mapping[str, str]
) -> tuple[ConfigEntry, ...]:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return dynamic.describe_topic(overrides)
        case ConfigResourceType.BROKER:
            return dynamic.describe_broker() if resource.resource_name else dynamic.describe_broker_defaults()
        case ConfigResourceType.CLIENT_METRICS:
            return dynamic.describe_client_metrics(overrides)
        case _:
            return dynamic.describe_group(overrides)


def _results(
    entries: Iterable[ConfigEntry], names: frozenset[str] | None, request: DescribeConfigsRequest
) -> Iterator[DescribeConfigsResourceResult]:
    by_name = {entry.name: entry for entry in entries}
    ordered = (by_name[name] for name in hash_order(by_name))
    return (_result(entry, request) for entry in ordered if names is None or entry.name in names)


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int(synonym.source))
            for synonym in synonyms
        ),
        config_type=int(entry.type),
        documentation=entry.documentation if request.include_documentation else None,
    )
