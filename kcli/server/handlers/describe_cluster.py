"""DescribeCluster (key 60, versions 0-2): the brokers or the controllers of the cluster, and the active controller.

KIP-700 defines this API. A broker listener describes brokers, and a controller listener describes controllers (from
version 1 on, KIP-919). From version 2 on, the client may also ask for fenced brokers (KIP-1073).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kcli.config.broker import BrokerConfig
from kcli.errors import (
    ErrorCode,
    InvalidRequestException,
    KafkaError,
    MismatchedEndpointTypeException,
    UnsupportedEndpointTypeException,
)
from kcli.model.acl import ResourceType
from kcli.model.ids import NO_LEADER
from kcli.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kcli.runtime.rng import Rng
from kcli.server.handlers.shared.cluster_view import random_alive_broker
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.view import QuorumView
from kcli.server.requests.access import (
    ALTER_CLUSTER,
    DESCRIBE_CLUSTER,
    whole_request,
)
from kcli.server.requests.context import RequestContext
from kcli.server.requests.guard import require_whole
from kcli.server.requests.operations import NOT_REQUESTED

_ON_CONTROLLER = whole_request(ALTER_CLUSTER, shows_request=True)


@dataclass(frozen=True, slots=True)
class Ports:
    config: BrokerConfig
    loader: MetadataLoader
    quorum: QuorumView
    rng: Rng


Context = RequestContext[Ports]


class EndpointType(IntEnum):
    BROKER = 1
    CONTROLLER = 2


async def handle(context: Context, request: DescribeClusterRequest) -> DescribeClusterResponse:
    image = context.ports.loader.image
    served = _served_type(context)
    rights = context.rights
    if served is EndpointType.CONTROLLER:
        require_whole(context, _ON_CONTROLLER)
    _check_type(context, request, served)
    operations = NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = rights.operations(ResourceType.CLUSTER) if rights.allows(DESCRIBE_CLUSTER) else 0
    if served is EndpointType.BROKER:
        nodes, controller_id = _brokers(context, request), random_alive_broker(image, context.ports.rng)
    else:
        nodes = _controllers(context)
        leader_id = context.ports.quorum.leader_id
        # The response names the leader only if it also contains the leader's address.
        controller_id = leader_id if any(node.broker_id == leader_id for node in nodes) else NO_LEADER
    return DescribeClusterResponse(
        endpoint_type=int(served),
        cluster_id=image.cluster_id,
        controller_id=controller_id,
        brokers=nodes,
        cluster_authorized_operations=operations,
    )


def _served_type(context: Context) -> EndpointType:
    on_controller = context.listener in context.ports.config.controller_listener_names
    return EndpointType.CONTROLLER if on_controller else EndpointType.BROKER


def _check_type(context: Context, request: DescribeClusterRequest, served: EndpointType) -> None:
    """Raises KafkaError if this listener does not serve the endpoint type. In version 0, which has no endpoint types,
    the error is INVALID_REQUEST."""
    endpoint_type = EndpointType.BROKER if context.api_version == 0 else request.endpoint_type
    error: KafkaError
    if endpoint_type not in EndpointType.__members__.values():
        error = UnsupportedEndpointTypeException(f"Unsupported endpoint type {endpoint_type}")
    elif endpoint_type != served:
        error = MismatchedEndpointTypeException(
            f"The request was sent to an endpoint of type {served.name}, but we wanted an endpoint of type "
            f"{EndpointType(endpoint_type).name}"
        )
    else:
        return
    raise InvalidRequestException(error.message) if context.api_version == 0 else error


def _brokers(context: Context, request: DescribeClusterRequest) -> tuple[DescribeClusterBroker, ...]:
    nodes = []
    for _, broker in sorted(context.ports.loader.image.brokers.items()):
        endpoint = broker.endpoints.get(context.listener)
        if endpoint is None or (broker.fenced and not request.include_fenced_brokers):
            continue
        nodes.append(
            DescribeClusterBroker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
        )
    return tuple(nodes)


def _controllers(context: Context) -> tuple[DescribeClusterBroker, ...]:
    nodes = []
    for _, controller in sorted(context.ports.loader.image.controllers.items()):
        endpoint = controller.endpoints.get(context.listener)
        if endpoint is not None:
            nodes.append(
                DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)
            )
    return tuple(nodes)


async def error_response(
    context: Context, _request: DescribeClusterRequest, error: KafkaError
) -> DescribeClusterResponse:
    # As in Kafka, a client without rights does not learn the type of the endpoint.
    is_refused = error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    endpoint_type = EndpointType.BROKER if is_refused else _served_type(context)
    return DescribeClusterResponse(
        error_code=error.code, error_message=error.message, endpoint_type=int(endpoint_type)
    )
