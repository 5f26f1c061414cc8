"""A topic is deleted while a broker is off for so long that it gets a snapshot of the leader at its next start."""

from __future__ import annotations

import asyncio

from kcli.client.connection import Connection
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import eventually
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BROKER_PORT, DATA, SimCluster, SimNode

CONTROLLER, FIRST, SECOND = 1, 2, 3
TIMEOUT_S = 100.0
AFTER_DELETION_S = 90.0
"""More than `file.delete.delay.ms`."""
SHORT_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "9000",
    "internal.metadata.log.segment.bytes": "2000",
}
"""The leader soon has only its snapshots, and not the removal of the topic."""


async def ask(connection: Connection, key: ApiKey, request: object) -> list[ErrorCode]:
    answer = await connection.request(request, key, version=connection.version_for(key), timeout=TIMEOUT_S)
    found = answer.topics if key is ApiKey.CREATE_TOPICS else answer.responses
    return [each.error_code for each in found]


async def create(connection: Connection, name: str, replicas: int, partitions: int = 2) -> None:
    topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    request = ct.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)
    assert await ask(connection, ApiKey.CREATE_TOPICS, request) == [ErrorCode.NONE]


async def delete(connection: Connection, name: str) -> None:
    request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name=name),), timeout_ms=10_000)
    assert await ask(connection, ApiKey.DELETE_TOPICS, request) == [ErrorCode.NONE]


def test_the_broker_deletes_the_topic_too() -> None:
    async def main(_loop: SimLoop) -> None:
        roles = {CONTROLLER: "controller", FIRST: "broker", SECOND: "broker"}
        async with SimCluster(1, roles=roles, overrides=SHORT_LOG) as cluster:
            await cluster.start()
            address = Address(cluster.nodes[FIRST].name, BROKER_PORT)
            connection = await Connection.open(cluster.network.host("client"), address, "app", TIMEOUT_S)
            for name in ("deleted", "kept"):
                await create(connection, name, replicas=2)
            second = cluster.nodes[SECOND]
            await eventually(lambda: len(directories(second)) == 4, TIMEOUT_S, "both topics are there")
            second.kill()
            await delete(connection, "deleted")
            controller = cluster.nodes[CONTROLLER].running
            assert controller is not None
            removed_before = controller.metadata.offset
            for number in range(40):
                await create(connection, f"other-{number}", replicas=1, partitions=5)
                await delete(connection, f"other-{number}")
            log = controller.quorum.log.log
            await eventually(
                lambda: log.log_start_offset > removed_before, 4000, "the removal is not in the log any more"
            )
            assert await second.start()
            await asyncio.sleep(AFTER_DELETION_S)
            assert directories(second) == ["kept-0", "kept-1"]

    def directories(node: SimNode) -> list[str]:
        return sorted(name for name in node.disk.directories(DATA) if name.startswith(("deleted-", "kept-")))

    simulate(1, main)
