"""ListConfigResources (key 74, versions 0-1): the resources that have, or could have, a configuration (KIP-1142).

Version 0 lists only client-metrics subscriptions. The name of this version in Kafka is ListClientMetricsResources. If a
request contains no types, the response lists all types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.errors import UnsupportedVersionException
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.context import RequestContext

# In the order of Kafka's answer.
LISTED_TYPES = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


RESOURCE_COST = 2
"""The cost to list a resource, in microseconds."""


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader


async def handle(
    context: RequestContext[Ports], request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    kinds = frozenset(request.resource_types or LISTED_TYPES)
    if context.api_version == 0:
        kinds = frozenset((ConfigResourceType.CLIENT_METRICS,))
    if not kinds <= set(LISTED_TYPES):
        raise UnsupportedVersionException
    image = context.ports.loader.image
    resources = []
    for kind in LISTED_TYPES:
        for name in _names(image, kind) if kind in kinds else ():
            await context.pace(RESOURCE_COST)
            resources.append(ConfigResource(resource_name=name, resource_type=int(kind)))
    return ListConfigResourcesResponse(config_resources=tuple(resources))


def _names(image: MetadataImage, kind: ConfigResourceType) -> Iterable[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return image.topics.names
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case _:
            return sorted(resource.name for resource in image.configs if resource.type is kind)
