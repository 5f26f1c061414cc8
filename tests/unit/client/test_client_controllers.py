"""A client whose bootstrap servers are controllers (KIP-919) asks the active one, also after a failover."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from kcli.client.admin.configs import AlterConfig, incremental_alter_configs
from kcli.client.admin.quorum import describe_quorum
from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.messages import describe_cluster
from kcli.protocol.messages import describe_quorum as dq
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedServer

T = TypeVar("T")


class Controllers:
    """Two controllers. `known` is the active controller that they name, `active` the one that answers."""

    def __init__(self) -> None:
        self.known = self.active = 2
        self.asked: list[int] = []
        self.servers = {
            node: ScriptedServer(
                {
                    ApiKey.DESCRIBE_CLUSTER: self.describe_cluster,
                    ApiKey.DESCRIBE_QUORUM: partial(self.describe_quorum, node),
                    ApiKey.INCREMENTAL_ALTER_CONFIGS: partial(self.alter_configs, node),
                }
            )
            for node in (1, 2)
        }

    def describe_cluster(self, _request: Any, _version: int) -> describe_cluster.DescribeClusterResponse:
        known, self.known = self.known, self.active
        return describe_cluster.DescribeClusterResponse(
            endpoint_type=2,
            controller_id=known,
            brokers=tuple(
                describe_cluster.DescribeClusterBroker(broker_id=node, host="127.0.0.1", port=server.port)
                for node, server in self.servers.items()
            ),
        )

    def describe_quorum(self, node: int, _request: Any, _version: int) -> dq.DescribeQuorumResponse:
        self.asked.append(node)
        code = ErrorCode.NONE if node == self.active else ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = dq.ResponsePartitionData(error_code=code, leader_id=self.active)
        topic = dq.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
        return dq.DescribeQuorumResponse(topics=(topic,))

    def alter_configs(self, node: int, request: Any, _version: int) -> ic.IncrementalAlterConfigsResponse:
        self.asked.append(node)
        return ic.IncrementalAlterConfigsResponse(
            responses=tuple(
                ic.AlterConfigsResourceResponse(
                    resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            )
        )

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """The answer to a client with controller 1 as bootstrap server."""

        async def ask() -> T:
            servers = (Address("127.0.0.1", self.servers[1].port),)
            async with Client(ClientConfig(servers=servers, servers_are_controllers=True)) as client:
                return await question(client)

        with self.servers[1], self.servers[2]:
            return asyncio.run(ask())

    def leader(self) -> int:
        return self.ask(describe_quorum).leader_id


def test_the_active_controller_is_asked() -> None:
    controllers = Controllers()
    assert controllers.leader() == 2
    assert controllers.asked == [2]


def test_after_a_failover_the_client_finds_the_new_one() -> None:
    controllers = Controllers()
    controllers.active = 1
    assert controllers.leader() == 1
    assert controllers.asked == [2, 1]


def test_configs_of_any_broker_are_changed_at_the_active_controller() -> None:
    controllers = Controllers()
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    change = AlterConfig(name="leader.replication.throttled.rate", value=None, op=ConfigOperation.DELETE)
    changed = controllers.ask(lambda client: incremental_alter_configs(client, {broker: [change]}))
    assert changed == {broker: None}
    assert controllers.asked == [2]
