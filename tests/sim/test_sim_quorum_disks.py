"""Disks of controllers that fail: the node halts, another controller leads, and no answered change is lost."""

from __future__ import annotations

import asyncio

import pytest

from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.errors import KafkaError
from kcli.metadata.image import MetadataImage
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.protocol.messages import incremental_alter_configs as ia
from simulation.actors.client import eventually
from simulation.checks.quorum_watch import QuorumWatch
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import SimCluster, SimNode

METADATA = "__cluster_metadata-0"
KEY = "message.max.bytes"
PATIENCE_S = 60.0
# The first write and flush are those of the change itself. The later ones are those of the next records.
FAULTS = [("write", 1), ("write", 2), ("sync", 1), ("sync", 2), ("sync", 3)]


def change(value: int) -> ia.IncrementalAlterConfigsRequest:
    resource = ia.AlterConfigsResource(
        resource_type=int(CLUSTER_DEFAULT.type),
        resource_name="",
        configs=(ia.AlterableConfig(name=KEY, value=str(value)),),
    )
    return ia.IncrementalAlterConfigsRequest(resources=(resource,))


def written(image: MetadataImage) -> int:
    return int(image.config(CLUSTER_DEFAULT).get(KEY, "0"))


class Quorum:
    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.watch = QuorumWatch()
        self.answered = 0

    def look(self) -> None:
        for machine in self.cluster.nodes.values():
            if machine.running is not None:
                self.watch.check(machine.running)

    async def active(self) -> SimNode:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for machine in self.cluster.nodes.values():
                    node = machine.running
                    if node is not None and node.controller is not None and node.controller.is_active:
                        return machine
                await asyncio.sleep(0.05)

    async def write(self, value: int) -> None:
        """Changes the value once, until one controller has answered."""
        async with asyncio.timeout(PATIENCE_S):
            while self.answered != value:
                node = (await self.active()).running
                assert node is not None and node.controller is not None
                try:
                    await asyncio.wait_for(node.controller.send(INCREMENTAL_ALTER_CONFIGS, change(value)), 5)
                    self.answered = value
                except (KafkaError, TimeoutError):
                    await asyncio.sleep(0.05)

    def all_have(self, value: int) -> bool:
        nodes = [machine.running for machine in self.cluster.nodes.values()]
        return all(node is not None and written(node.metadata) == value for node in nodes)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(("operation", "nth"), FAULTS)
def test_a_controller_whose_disk_fails_is_replaced(operation: str, nth: int, dynamic: bool) -> None:
    async def story(loop: SimLoop) -> None:
        roles = dict.fromkeys((1, 2, 3), "controller")
        async with SimCluster(7, roles=roles, dynamic=dynamic) as cluster:
            quorum = Quorum(cluster)
            loop.on_turn.append(quorum.look)
            await cluster.start()
            await quorum.write(1000)
            failing = await quorum.active()
            cluster.error_watch.tolerates = True
            failing.disk.fail(operation, METADATA, nth=nth)
            await quorum.write(2000)
            await eventually(lambda: failing.running is None, PATIENCE_S, "the node halts")
            await quorum.write(3000)
            assert await quorum.active() is not failing
            failing.disk.heal()
            failing.kill()
            await failing.start()
            await eventually(lambda: quorum.all_have(3000), PATIENCE_S, "all nodes have the last change")
            assert quorum.watch.compared_images > 0

    simulate(5, story)
