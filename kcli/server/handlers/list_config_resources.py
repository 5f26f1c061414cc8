"""ListConfigResources (key 74, versions 0-1): the resources that have, or could have, a configuration (KIP-1142).

Version 0 lists only client-metrics subscriptions. The name of this version in Kafka is ListClientMetricsResources. If a
request contains no types, the response lists all types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kcli.errors import UnsupportedVersionException
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.turns import Steps, run_in_turns

# In the order of Kafka's answer.
LISTED_TYPES = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


RESOURCES_PER_TURN = 500
"""Resources that are listed in one iteration of the event loop. A resource takes 1 µs."""


def handle(
    context: BrokerContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | Awaitable[ListConfigResourcesResponse]:
    wanted = frozenset(request.resource_types or LISTED_TYPES)
    if context.api_version == 0:
        wanted = frozenset((ConfigResourceType.CLIENT_METRICS,))
    if not wanted <= set(LISTED_TYPES):
        raise UnsupportedVersionException
    return run_in_turns(_listed(context.ports.metadata, wanted), RESOURCES_PER_TURN)


def _listed(image: MetadataImage, wanted: frozenset[int]) -> Steps[ListConfigResourcesResponse]:
    resources = []
    for kind in LISTED_TYPES:
        for name in _names(image, kind) if kind in wanted else ():
            resources.append(ConfigResource(resource_name=name, resource_type=int(kind)))
            yield
    return ListConfigResourcesResponse(config_resources=tuple(resources))


def _names(image: MetadataImage, kind: ConfigResourceType) -> Iterable[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return image.topics.names
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case _:
            return sorted(resource.name for resource in image.configs if resource.type is kind)
