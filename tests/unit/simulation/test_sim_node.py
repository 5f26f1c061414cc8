"""A whole node on the simulated machine: what a stop, a kill and a loss of power leave behind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.config import ClientConfig
from kcli.model.addresses import Address
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BROKER_PORT, SimCluster


def on_cluster(story: Callable[[SimCluster], Awaitable[None]], seed: int = 1) -> None:
    async def main(_loop: SimLoop) -> None:
        async with SimCluster(seed) as cluster:
            await cluster.node.start()
            await story(cluster)

    simulate(seed, main)


def admin_of(cluster: SimCluster) -> AdminClient:
    config = ClientConfig(servers=(Address(cluster.node.name, BROKER_PORT),))
    return AdminClient(config, cluster.network.host("admin"))


async def topics_of(cluster: SimCluster) -> list[str]:
    async with admin_of(cluster) as admin:
        return [topic.name for topic in await admin.list_topics()]


@pytest.mark.parametrize("how", ["stop", "kill", "lose_power"])
def test_a_created_topic_survives_a_stop_a_kill_and_a_power_failure(how: str) -> None:
    async def story(cluster: SimCluster) -> None:
        async with admin_of(cluster) as admin:
            assert await admin.create_topics([NewTopic(name="orders", partitions=3)]) == {"orders": None}
        if how == "stop":
            await cluster.node.stop()
        else:
            getattr(cluster.node, how)()
        assert not cluster.node.is_up
        assert cluster.node.disk.exists("/data/.kafka_cleanshutdown") == (how == "stop")
        await cluster.node.start()
        assert cluster.node.life == 2
        assert await topics_of(cluster) == ["orders"]

    on_cluster(story)


def test_a_node_may_be_killed_while_it_starts() -> None:
    async def story(cluster: SimCluster) -> None:
        node = cluster.node
        for patience in (0.0, 0.001, 0.005):
            node.kill()
            assert not await node.start(patience)
        assert await node.start()
        assert await topics_of(cluster) == []

    on_cluster(story)


def test_a_node_without_its_disk_halts() -> None:
    async def story(cluster: SimCluster) -> None:
        cluster.error_watch.tolerates = True
        cluster.node.disk.fail("sync", "__cluster_metadata")
        async with admin_of(cluster) as admin:
            await admin.create_topics([NewTopic(name="orders", partitions=1)])

    with pytest.raises(Exception, match="createTopics"):
        on_cluster(story)


def test_an_error_in_a_log_is_a_failure() -> None:
    async def story(cluster: SimCluster) -> None:
        logging.getLogger("kcli.server").error("something went wrong")
        await topics_of(cluster)

    with pytest.raises(AssertionError, match="something went wrong"):
        on_cluster(story)
