"""An administrator of a simulated cluster, who removes brokers: moves their replicas away, and unregisters them."""

from __future__ import annotations

import asyncio

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import TROUBLE, Client, World
from simulation.world.cluster import SimNode

LIMIT_S = 120.0
"""The time limit of a step. Another administrator may cancel or repeat moves meanwhile."""
REPEAT_S = 1.0
TIMEOUT_MS = 8_000


class BrokerChanges:
    """Sends the requests to any broker, and repeats them until the change is done. The broker that is removed must not
    belong to the cluster (`SimNode.is_member`), so that no other client gives it replicas."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.emptied = 0
        """The number of partitions that were moved away from brokers."""
        self._client = Client(world, "administrator of brokers")

    async def move_replicas(self, node: SimNode) -> None:
        """Moves all replicas of a broker to other brokers. Raises AssertionError if this takes longer than LIMIT_S."""
        end = self._world.cluster.loop.time() + LIMIT_S
        before = len(self._hosted(node))
        while hosted := self._hosted(node):
            assert self._world.cluster.loop.time() < end, f"{node.name} still has replicas: {hosted}"
            try:
                await self._move(hosted)
            except TROUBLE as error:
                self._client.note(repr(error))
            await asyncio.sleep(REPEAT_S)
        self.emptied += before
        self._client.note(f"{node.name} has no replicas")

    async def unregister(self, node: SimNode) -> None:
        """Unregisters a broker. Raises AssertionError if this takes longer than LIMIT_S."""
        end = self._world.cluster.loop.time() + LIMIT_S
        request = UnregisterBrokerRequest(broker_id=node.node_id)
        last: object = None
        while node.node_id in self._world.watch.image.brokers:
            assert self._world.cluster.loop.time() < end, f"{node.name} is still registered: {last!r}"
            try:
                last = await self._client.ask(self._client.any_broker(), request, ApiKey.UNREGISTER_BROKER)
            except TROUBLE as error:
                last = error
            await asyncio.sleep(REPEAT_S)
        self._client.note(f"{node.name} is not registered")

    def _hosted(self, node: SimNode) -> dict[TopicPartition, tuple[int, ...]]:
        """The partitions with a replica on a broker, each with the replicas that it should have."""
        brokers = [each.node_id for each in self._world.cluster.brokers]
        wanted = {}
        for name, partition in self._world.watch.partitions.items():
            image = partition.image
            if image is None or node.node_id not in image.replicas:
                continue
            kept = [each for each in image.replicas if each in brokers and each not in image.adding]
            others = [each for each in brokers if each not in kept]
            count = len(image.replicas) - len(image.adding)
            wanted[name] = (*kept, *self._client.rng.sample(others, count - len(kept)))
        return wanted

    async def _move(self, wanted: dict[TopicPartition, tuple[int, ...]]) -> None:
        topics: dict[str, list[ar.ReassignablePartition]] = {}
        for (topic, index), replicas in wanted.items():
            partition = ar.ReassignablePartition(partition_index=index, replicas=replicas)
            topics.setdefault(topic, []).append(partition)
        request = ar.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=tuple(
                ar.ReassignableTopic(name=name, partitions=tuple(each)) for name, each in topics.items()
            ),
        )
        answer: ar.AlterPartitionReassignmentsResponse = await self._client.ask(
            self._client.any_broker(), request, ApiKey.ALTER_PARTITION_REASSIGNMENTS
        )
        if answer.error_code is not ErrorCode.NONE:
            self._client.note(f"no move: {answer.error_code!r}")
