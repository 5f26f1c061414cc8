"""ListConfigResources (key 74, versions 0-1): the resources that have, or could have, a configuration (KIP-1142).

Version 0 was called ListClientMetricsResources and lists only client-metrics subscriptions. A request without types
asks for all types.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.errors import UnsupportedVersionException
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_CONFIGS_CLUSTER, whole_request

ACCESS = whole_request(DESCRIBE_CONFIGS_CLUSTER)

# In the order of Kafka's answer.
LISTED_TYPES = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


def handle(context: BrokerContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    wanted: Iterable[int] = request.resource_types or LISTED_TYPES
    if context.api_version == 0:
        wanted = (ConfigResourceType.CLIENT_METRICS,)
    if not set(wanted) <= set(LISTED_TYPES):
        raise UnsupportedVersionException
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=int(kind))
            for kind in LISTED_TYPES
            if kind in wanted
            for name in _names(context.ports.metadata, kind)
        )
    )


def _names(image: MetadataImage, kind: ConfigResourceType) -> Iterable[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return image.topics.names
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case _:
            return sorted(resource.name for resource in image.configs if resource.type is kind)
