"""Admin calls about the cluster itself: its id, its nodes, and the API versions of each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.client import (
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    Destination,
    Node,
    looking_up,
    raise_for,
)
from kcli.errors import KafkaError, ProtocolError, UnsupportedVersionException
from kcli.model.acl import AclOperation
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster. `nodes` are the brokers, or the controllers if the call requested them."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionRange:
    """The versions of one API that a node supports."""

    key: int
    min_version: int
    max_version: int


async def describe_cluster(client: Client, *, include_fenced: bool = False) -> ClusterDescription:
    """Returns the cluster's id, its controller, and its nodes sorted by id."""
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest

    endpoint_type = ENDPOINT_CONTROLLERS if client.config.servers_are_controllers else ENDPOINT_BROKERS

    async def attempt() -> ClusterDescription:
        request = DescribeClusterRequest(endpoint_type=endpoint_type, include_fenced_brokers=include_fenced)
        at_least = 2 if include_fenced else 1 if client.config.servers_are_controllers else 0
        response = await client.send(request, ApiKey.DESCRIBE_CLUSTER, at_least=at_least)
        raise_for(response.error_code, response.error_message)
        nodes = tuple(
            Node(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
            for broker in sorted(response.brokers, key=lambda node: node.broker_id)
        )
        return ClusterDescription(
            cluster_id=response.cluster_id, controller_id=response.controller_id, nodes=nodes
        )

    return await client.call("listNodes", attempt)


async def describe_registered(client: Client) -> ClusterDescription:
    """Returns the cluster with its fenced brokers, if the brokers can list them (DescribeCluster version 2,
    KIP-1073)."""
    try:
        return await describe_cluster(client, include_fenced=True)
    except UnsupportedVersionException:
        return await describe_cluster(client)


async def authorized_operations(client: Client) -> frozenset[AclOperation]:
    """Returns the operations that the user may do on the cluster itself. Returns none if the user may not describe the
    cluster, and all if the cluster has no authorizer."""
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest

    async def attempt() -> int:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await client.send(request, ApiKey.DESCRIBE_CLUSTER)
        raise_for(response.error_code, response.error_message)
        bits: int = response.cluster_authorized_operations
        return bits

    bits = await client.call("listNodes", attempt)
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)


async def api_versions(
    client: Client, nodes: tuple[Node, ...]
) -> dict[Node, tuple[ApiVersionRange, ...] | KafkaError]:
    """Returns for each node the versions of each API, sorted by API key, or the error of the node."""
    versions: dict[Node, tuple[ApiVersionRange, ...] | KafkaError] = {}
    for node in nodes:
        try:
            with looking_up():
                connection = await client.connection_to(node)
        except KafkaError as error:
            versions[node] = error
            continue
        except ProtocolError as error:
            versions[node] = KafkaError(str(error))
            continue
        versions[node] = tuple(
            ApiVersionRange(key=key, min_version=least, max_version=most)
            for key, (least, most) in sorted(connection.versions.items())
        )
    return versions


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregisters a broker. Raises BrokerIdNotRegisteredException if the broker is not registered."""
    from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest

    async def attempt() -> None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        response = await client.send(request, ApiKey.UNREGISTER_BROKER, to=Destination.CONTROLLER)
        raise_for(response.error_code, response.error_message)

    await client.call("unregisterBroker", attempt)
