"""DescribeConfigs (key 32, versions 1-4): the keys of a resource, with their values and the source of each value.

KIP-226 (synonyms, v1), KIP-569 (type and documentation, v3), KIP-1142 (groups and subscriptions). Entries are in the
order of Java's HashMap, because tools print entries in the order of the response.
A success has an empty error message, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.config.describe import ConfigEntry
from kcli.controller.decision import ApiError
from kcli.errors import (
    InvalidRequestException,
    KafkaError,
    UnknownTopicOrPartitionException,
)
from kcli.model import topic_names
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.java_order import hash_order
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared import broker_loggers
from kcli.server.handlers.shared.config_changes import require_own_id
from kcli.server.requests.access import (
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    per_resource,
)

ACCESS = per_resource(DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER)

_Results = tuple[DescribeConfigsResourceResult, ...]
_OfTopics = dict[tuple[frozenset[tuple[str, str]], frozenset[str] | None], _Results]
"""The answers for topics of this request, by their configs and the wanted keys, because most topics have the same ones.
"""


def handle(context: NodeContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    of_topics: _OfTopics = {}
    return DescribeConfigsResponse(
        results=tuple(_describe(context, request, resource, of_topics) for resource in request.resources)
    )


def error_response(
    _context: NodeContext, request: DescribeConfigsRequest, error: KafkaError
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(_failed(resource, error, error.message) for resource in request.resources)
    )


def _describe(
    context: NodeContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    of_topics: _OfTopics,
) -> DescribeConfigsResult:
    # An empty list asks for all keys, as null does.
    wanted = frozenset(resource.configuration_keys) if resource.configuration_keys else None
    try:
        if resource.resource_type == ConfigResourceType.TOPIC:
            overrides = _topic_overrides(context, resource.resource_name)
            alike = (frozenset(overrides.items()), wanted)
            if alike not in of_topics:
                entries = context.ports.dynamic_config.describe_topic(overrides)
                of_topics[alike] = _results(entries, wanted, request)
            configs = of_topics[alike]
        else:
            configs = _results(_entries(context, resource), wanted, request)
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


def _topic_overrides(context: NodeContext, name: str) -> Mapping[str, str]:
    image = context.ports.metadata
    topic_names.validate(name)
    if name not in image.topics:
        raise UnknownTopicOrPartitionException
    return image.topic_config(name)


def _entries(context: NodeContext, resource: DescribeConfigsResource) -> tuple[ConfigEntry, ...]:
    image, dynamic = context.ports.metadata, context.ports.dynamic_config
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.BROKER:
            if not name:
                return dynamic.describe_broker_defaults()
            require_own_id(context, name)
            return dynamic.describe_broker()
        case ConfigResourceType.BROKER_LOGGER:
            if not name:
                raise InvalidRequestException("Broker id must not be empty")
            require_own_id(context, name)
            return broker_loggers.describe()
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequestException("Client metrics subscription name must not be empty")
            return dynamic.describe_client_metrics(
                image.config(ConfigResource(ConfigResourceType.CLIENT_METRICS, name))
            )
        case ConfigResourceType.GROUP:
            if not name:
                raise InvalidRequestException("Group name must not be empty")
            return dynamic.describe_group(image.config(ConfigResource(ConfigResourceType.GROUP, name)))
        case unknown:
            raise InvalidRequestException(f"Unsupported resource type: {unknown}")


def _results(
    entries: Iterable[ConfigEntry], wanted: frozenset[str] | None, request: DescribeConfigsRequest
) -> _Results:
    by_name = {entry.name: entry for entry in entries}
    ordered = (by_name[name] for name in hash_order(by_name))
    return tuple(_result(entry, request) for entry in ordered if wanted is None or entry.name in wanted)


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
