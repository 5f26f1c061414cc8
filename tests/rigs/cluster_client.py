"""Three brokers and a controller on virtual time, and a client that sends each request to the right broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kcli.client.connection import Connection
from kcli.coordinator.hashing import partition_for
from kcli.errors import ErrorCode
from kcli.metadata.image import MetadataImage
from kcli.model.addresses import Address
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import TROUBLE, eventually
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BROKER_PORT, SimCluster, SimNode

CONTROLLER, BROKERS = 1, (2, 3, 4)
TIMEOUT_S = 40.0
OVERRIDES = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}
# Errors after which a client sends its request again, after it has asked for the leaders.
AGAIN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
TOPICS = {0: "__consumer_offsets", 1: "__transaction_state"}
"""The topic of each kind of coordinator."""


class ClusterClient:
    """Knows the leaders, and has a connection to each broker."""

    def __init__(self, cluster: SimCluster, replicas: int) -> None:
        self.cluster = cluster
        self.replicas = replicas
        self._host = cluster.network.host("client")
        self._connections: dict[int, Connection] = {}

    @property
    def image(self) -> MetadataImage:
        node = self.cluster.nodes[CONTROLLER].running
        assert node is not None
        return node.metadata

    @property
    def any_broker(self) -> int:
        """A broker that runs."""
        return next(node.node_id for node in self.cluster.brokers if node.is_up)

    def coordinator_id(self, key: str, kind: int) -> int:
        return self.leader(partition_for(key, 3), TOPICS[kind])

    def coordinator(self, key: str, kind: int) -> SimNode:
        return self.cluster.nodes[self.coordinator_id(key, kind)]

    def leader(self, partition: int, topic: str = "t") -> int:
        found = self.image.partition(topic, partition)
        assert found is not None
        return found.leader

    async def ask(self, broker: int, key: ApiKey, request: object, at_most: int = 99) -> Any:
        if broker not in self.cluster.nodes:
            raise ConnectionRefusedError("no broker leads the partition")
        connection = self._connections.get(broker)
        if connection is None or connection.is_closed:
            address = Address(self.cluster.nodes[broker].name, BROKER_PORT)
            connection = await Connection.open(self._host, address, "app", TIMEOUT_S)
            self._connections[broker] = connection
        version = min(connection.version_for(key), at_most)
        return await connection.request(request, key, version=version, timeout=TIMEOUT_S)

    async def persist(
        self,
        attempt: Callable[[], Awaitable[Any]],
        code_of: Callable[[Any], ErrorCode],
        *,
        fails: bool = False,
    ) -> Any:
        """Repeats a request as clients do, and returns its answer. If it `fails`, the answer may be an error."""
        while True:
            try:
                answer = await attempt()
            except TROUBLE:
                await asyncio.sleep(0.1)
                continue
            if code_of(answer) not in AGAIN:
                assert fails or code_of(answer) is ErrorCode.NONE, code_of(answer)
                return answer
            await asyncio.sleep(0.02)

    async def create(self, name: str, partitions: int) -> None:
        """Creates a topic with leaders on all brokers."""
        topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=self.replicas)
        request = ct.CreateTopicsRequest(topics=(topic,), timeout_ms=9)
        await self.ask(self.any_broker, ApiKey.CREATE_TOPICS, request)
        # The controller may answer before the broker has read the new metadata.
        numbers = range(partitions)
        await eventually(
            lambda: all(self.image.partition(name, number) for number in numbers),
            TIMEOUT_S,
            f"{name} is known",
        )
        assert {self.leader(number, name) for number in numbers} == set(BROKERS)

    async def find(self, key: str, kind: int) -> None:
        """Returns when the coordinator of a key exists."""
        find = fc.FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
        await self.persist(
            lambda: self.ask(self.any_broker, ApiKey.FIND_COORDINATOR, find),
            lambda answer: answer.coordinators[0].error_code,
        )


Story = Callable[[SimCluster, int], Awaitable[None]]


def on_brokers(story: Story, *, replicas: int, seed: int = 5) -> None:
    """Runs `story(cluster, replicas)` on a controller and three brokers. `replicas` is the replication factor of the
    internal topics."""

    async def main(_loop: SimLoop) -> None:
        roles = {CONTROLLER: "controller"} | dict.fromkeys(BROKERS, "broker")
        overrides = {
            **OVERRIDES,
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(replicas, 2)),
        }
        async with SimCluster(seed, roles=roles, overrides=overrides) as cluster:
            await cluster.start()
            await story(cluster, replicas)

    simulate(seed, main)
