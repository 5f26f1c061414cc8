"""ACLs on three nodes on virtual time: a change holds on every node within a bound, and after restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kcli.client.connection import Connection
from kcli.errors import ErrorCode
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.addresses import Address
from kcli.protocol.messages import create_acls as ca
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_acls as da
from kcli.protocol.messages import metadata as md
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.configured import STANDARD
from kcli.security.acls.standard import StandardAuthorizer
from kcli.server.node import Node
from simulation.actors.client import eventually
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BROKER_PORT, CONTROLLER_PORT, SimCluster

CONTROLLER, FIRST, SECOND = 1, 2, 3
TIMEOUT_S = 100.0
BOUND_S = 0.6
"""A follower of the metadata log waits at most 500 ms for new records, and gets a commit with its next fetch."""
SETTINGS = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}

Story = Callable[[SimCluster], Awaitable[None]]


def on_cluster(story: Story, seed: int) -> None:
    """Runs the story on a controller and two brokers. Resources without ACLs are open to all."""

    async def main(_loop: SimLoop) -> None:
        roles = {CONTROLLER: "controller", FIRST: "broker", SECOND: "broker"}
        async with SimCluster(seed, roles=roles, overrides=SETTINGS) as cluster:
            await cluster.start()
            await story(cluster)

    simulate(seed, main)


async def ask(cluster: SimCluster, node_id: int, key: ApiKey, request: object) -> Any:
    port = CONTROLLER_PORT if node_id == CONTROLLER else BROKER_PORT
    address = Address(cluster.nodes[node_id].name, port)
    connection = await Connection.open(cluster.network.host("client"), address, "app", TIMEOUT_S)
    try:
        version = connection.version_for(key)
        return await connection.request(request, key, version=version, timeout=TIMEOUT_S)
    finally:
        connection.close()


async def is_denied(cluster: SimCluster, node_id: int) -> bool:
    """Whether a client of this node may neither see nor change the topic."""
    if node_id == CONTROLLER:
        topic = cp.CreatePartitionsTopic(name="t", count=9, assignments=None)
        request = cp.CreatePartitionsRequest(topics=(topic,), timeout_ms=1000, validate_only=True)
        answer = await ask(cluster, node_id, ApiKey.CREATE_PARTITIONS, request)
        code = answer.results[0].error_code
    else:
        asked = md.MetadataRequest(topics=(md.MetadataRequestTopic(name="t"),))
        answer = await ask(cluster, node_id, ApiKey.METADATA, asked)
        code = answer.topics[0].error_code
    assert code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return bool(code is ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def held_everywhere(cluster: SimCluster, *, denied: bool) -> float:
    """Returns when the change holds on every node. Returns the seconds that this took."""
    began = cluster.loop.time()
    for node_id in cluster.nodes:
        while await is_denied(cluster, node_id) is not denied:
            assert cluster.loop.time() - began < TIMEOUT_S
            await asyncio.sleep(0.01)
    return cluster.loop.time() - began


async def create_topic(cluster: SimCluster) -> None:
    topic = ct.CreatableTopic(name="t", num_partitions=1, replication_factor=2)
    request = ct.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)
    created = await ask(cluster, FIRST, ApiKey.CREATE_TOPICS, request)
    assert created.topics[0].error_code is ErrorCode.NONE
    brokers = [node_of(cluster, node_id) for node_id in (FIRST, SECOND)]
    await eventually(
        lambda: all("t" in broker.metadata.topics for broker in brokers), 5, "the brokers know the topic"
    )


def node_of(cluster: SimCluster, node_id: int) -> Node:
    node = cluster.nodes[node_id].running
    assert node is not None
    return node


async def deny(cluster: SimCluster, by: int) -> None:
    acl = ca.AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="t",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:*",
        host="*",
        operation=AclOperation.ALL,
        permission_type=AclPermissionType.DENY,
    )
    answer = await ask(cluster, by, ApiKey.CREATE_ACLS, ca.CreateAclsRequest(creations=(acl,)))
    assert answer.results[0].error_code is ErrorCode.NONE


async def allow(cluster: SimCluster, by: int) -> None:
    every = da.DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermissionType.ANY,
    )
    answer = await ask(cluster, by, ApiKey.DELETE_ACLS, da.DeleteAclsRequest(filters=(every,)))
    assert len(answer.filter_results[0].matching_acls) == 1


def test_a_change_holds_on_every_node_within_a_bound(sim_seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await create_topic(cluster)
        for by in cluster.nodes:
            await deny(cluster, by)
            assert await held_everywhere(cluster, denied=True) <= BOUND_S
            assert [await is_denied(cluster, node_id) for node_id in cluster.nodes] == [True] * 3
            await allow(cluster, by)
            assert await held_everywhere(cluster, denied=False) <= BOUND_S

    on_cluster(story, sim_seed)


def test_acls_survive_the_restart_of_every_node(sim_seed: int) -> None:
    """A restarted node denies from its first request on."""

    async def story(cluster: SimCluster) -> None:
        await create_topic(cluster)
        await deny(cluster, FIRST)
        await held_everywhere(cluster, denied=True)
        for node in cluster.nodes.values():
            node.lose_power()
        await cluster.start()
        assert [await is_denied(cluster, node_id) for node_id in (FIRST, SECOND)] == [True, True]
        await held_everywhere(cluster, denied=True)
        for node_id in cluster.nodes:
            node = node_of(cluster, node_id)
            assert isinstance(node.listeners.authorizer, StandardAuthorizer)
            assert dict(node.listeners.authorizer.acls()) == dict(node.metadata.acls)

    on_cluster(story, sim_seed)
