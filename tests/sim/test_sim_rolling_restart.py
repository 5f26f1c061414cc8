"""Rolling restarts of clusters, on virtual time. A node that has stopped leaves nothing behind, and no log has an error
line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import eventually
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BOTH, BROKER_PORT, SimCluster, SimNode

SEPARATE = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"}
COMBINED = {1: BOTH, 2: BOTH, 3: BOTH}
ROUNDS = 2
# A controlled shutdown waits for heartbeats of other brokers, which come every 2 s, and perhaps for an election.
STOP_S = 8.0
TIMEOUT_S = 60.0


class Restarts:
    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.topics = 0

    async def restart_all(self) -> None:
        """Restarts one node after the other. The other nodes create a topic meanwhile."""
        for node in self.cluster.nodes.values():
            other = next(each for each in self.cluster.brokers if each is not node)
            creating = asyncio.ensure_future(self.create_topic(other))
            await self.stop(node)
            await creating
            await node.start()
        await eventually(self._is_complete, TIMEOUT_S, "all brokers are unfenced and know all topics")

    async def stop(self, node: SimNode) -> None:
        """Stops a node, and looks for what it leaves behind."""
        process, running = node.process, node.running
        assert process is not None and running is not None
        node.running = None
        async with asyncio.timeout(STOP_S):
            await process.spawn(running.stop())
        await asyncio.sleep(0)
        left = [task.get_name() for task in process._tasks if not task.done() and task is not node._guard]
        assert left == []
        network = self.cluster.network
        assert [address for address, server in network.servers.items() if server.process is process] == []
        assert [
            each for each in network.transports if each.process is process and not each.is_closing()
        ] == []
        assert [file.path for file in node.disk.open_files] == []
        assert not node.disk._locks
        node._end(silent=False)
        node.disk = node.disk.kill_clone()

    async def create_topic(self, broker: SimNode) -> None:
        self.topics += 1
        topic = CreatableTopic(name=f"topic-{self.topics}", num_partitions=3, replication_factor=1)
        host, address = self.cluster.network.host("client"), Address(broker.name, BROKER_PORT)
        connection = await Connection.open(host, address, "client", TIMEOUT_S)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
        response: Any = await connection.request(request, ApiKey.CREATE_TOPICS, version=7, timeout=TIMEOUT_S)
        connection.close()
        (result,) = response.topics
        # A forwarded request is sent again if the controller stops after it has created the topic.
        assert result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def _is_complete(self) -> bool:
        return all(
            len(node.running.metadata.topics.names) == self.topics
            and [each.fenced for each in node.running.metadata.brokers.values()] == [False] * 3
            for node in self.cluster.nodes.values()
            if node.running is not None
        )


@pytest.mark.parametrize(
    ("roles", "dynamic"), [(SEPARATE, True), (COMBINED, False)], ids=["separate", "combined"]
)
def test_rolling_restarts_leave_nothing_behind(roles: dict[int, str], dynamic: bool) -> None:
    async def main(_loop: SimLoop) -> None:
        async with SimCluster(1, roles=roles, dynamic=dynamic) as cluster:
            await cluster.start()
            restarts = Restarts(cluster)
            for _ in range(ROUNDS):
                await restarts.restart_all()

    simulate(1, main)


def test_a_whole_cluster_stops_together() -> None:
    async def main(_loop: SimLoop) -> None:
        async with SimCluster(2, roles=COMBINED) as cluster:
            await cluster.start()
            restarts = Restarts(cluster)
            await restarts.create_topic(cluster.node)
            await asyncio.gather(*(restarts.stop(node) for node in cluster.nodes.values()))
            await cluster.start()
            await eventually(restarts._is_complete, TIMEOUT_S, "the cluster is complete again")

    simulate(2, main)
