"""Controllers without brokers in this process, on real sockets and a real disk: a quorum that can lose its members."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, Self

from kcli.client.connection import Connection
from kcli.config.start_up import node_config
from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.protocol.messages import describe_quorum as dq
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.protocol.wire.api import ApiKey
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from kcli.server.node import Node
from kcli.testing.broker_process import free_port
from rigs.loops import PATIENCE_S, until

CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"
CONFIG = "message.max.bytes"
# Short, so that an election takes less than a second, and long enough for a machine that does other things too.
TIMES_MS = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
}


class Controllers:
    """The quorum of the controllers `ids`. `dynamic`: kraft.version 1, else static voters. `overrides` are properties
    of all of them."""

    def __init__(
        self, directory: Path, ids: tuple[int, ...] = (1, 2, 3), *, dynamic: bool = True, **overrides: str
    ) -> None:
        self.directory = directory
        self.ids = ids
        self.dynamic = dynamic
        self.nodes: dict[int, Node] = {}
        self.ports = {node_id: free_port() for node_id in ids}
        self.directory_ids = {
            node_id: uuid.UUID(int=0x4000_0000_0000_8000_0000_0000_0000 + node_id) for node_id in ids
        }
        self.overrides = {key.replace("_", "."): text for key, text in overrides.items()}

    async def __aenter__(self) -> Self:
        for node_id in self.ids:
            self.format(node_id)
        await asyncio.gather(*(self.start(node_id) for node_id in self.ids))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for node_id in list(self.nodes):
            await self.kill(node_id)

    def address(self, node_id: int) -> Address:
        return Address("127.0.0.1", self.ports[node_id])

    def properties(self, node_id: int) -> dict[str, str]:
        servers = [self.address(each) for each in self.ids]
        voters = ",".join(f"{each}@{self.address(each)}" for each in self.ids)
        quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(map(str, servers))}
            if self.dynamic
            else {"controller.quorum.voters": voters}
        )
        return {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{self.address(node_id)}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / str(node_id)),
            "log.index.size.max.bytes": "65536",
            **quorum,
            **TIMES_MS,
            **self.overrides,
        }

    def voter(self, node_id: int) -> Voter:
        key = ReplicaKey(node_id, self.directory_ids[node_id])
        return Voter(key, {"CONTROLLER": self.address(node_id)})

    def format(self, node_id: int, *, initial: bool = True) -> None:
        """Formats the directory of a node. If not `initial`, the node is not one of the first voters."""
        (self.directory / str(node_id)).mkdir()
        machine = Machine(SystemDisk(), SystemClock(), SystemRng())
        first = VoterSet(tuple(self.voter(each) for each in self.ids)) if self.dynamic and initial else None
        request = FormatRequest(cluster_id=CLUSTER, voters=first, dynamic_quorum=self.dynamic)
        format_directories(node_config(self.properties(node_id)), request, machine, lambda _line: None)

    async def start(self, node_id: int) -> Node:
        node = Node(
            node_config(self.properties(node_id)),
            clock=SystemClock(),
            disk=SystemDisk(),
            network=SystemNetwork(),
            rng=SystemRng(),
        )
        await node.start()
        self.nodes[node_id] = node
        return node

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    async def kill(self, node_id: int) -> None:
        """Ends a node without a word to the others."""
        await self.nodes.pop(node_id).stop(clean=False)

    # The state of the quorum.

    @property
    def active_ids(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.controller.is_active]

    async def leader(self) -> int:
        """Waits for the active controller, and returns its id."""
        await until(lambda: self.active_ids)
        (leader,) = self.active_ids
        return leader

    async def follower(self) -> int:
        leader = await self.leader()
        return next(node_id for node_id in self.nodes if node_id != leader)

    async def write(self, value: str) -> None:
        """Commits a change of the metadata. Tries again while the controllers change."""
        resource = ia.AlterConfigsResource(
            resource_type=int(CLUSTER_DEFAULT.type),
            resource_name="",
            configs=(ia.AlterableConfig(name=CONFIG, value=value),),
        )
        request = ia.IncrementalAlterConfigsRequest(resources=(resource,))
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    node = self.nodes[await self.leader()]
                    await node.controller.send(INCREMENTAL_ALTER_CONFIGS, request)
                    return
                except KafkaError:
                    await asyncio.sleep(0.01)

    def written(self, node_id: int) -> str | None:
        """The newest change that a node has read."""
        return self.nodes[node_id].metadata.config(CLUSTER_DEFAULT).get(CONFIG)

    async def has_read(self, node_id: int, value: str) -> None:
        await until(lambda: self.written(node_id) == value)

    # Requests over the network.

    async def ask(self, node_id: int, key: ApiKey, request: object, version: int | None = None) -> Any:
        connection = await Connection.open(SystemNetwork(), self.address(node_id), "test", PATIENCE_S)
        try:
            chosen = connection.version_for(key) if version is None else version
            return await connection.request(request, key, version=chosen, timeout=PATIENCE_S)
        finally:
            connection.close()

    async def describe(self, node_id: int) -> dq.ResponsePartitionData:
        partition = dq.RequestPartitionData(partition_index=0)
        topic = dq.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        response = await self.ask(node_id, ApiKey.DESCRIBE_QUORUM, dq.DescribeQuorumRequest(topics=(topic,)))
        (row,) = response.topics[0].partitions
        assert isinstance(row, dq.ResponsePartitionData)
        return row
