"""Workers of Connect on a simulated cluster, while workers and brokers are killed, stop and start again.

No work runs twice at a time, and none waits for longer than the delay. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.group.requests import GroupSettings
from kcli.connect.decisions.assignment import configured_work
from kcli.connect.model import CONNECTOR
from kcli.model.addresses import Address
from rigs.cluster_client import BROKERS, on_brokers
from rigs.connect_workers import TASKS_KEY, Ledger, Worker
from simulation.runtime.clock import SimClock
from simulation.world.cluster import BROKER_PORT, SimCluster

WORKERS = 3
CONNECTORS = 5
EVENTS = 6
DELAY_MS = 10_000
CALM_S = 60.0
"""The time after the trouble in which everything must be in order again."""

GROUP = GroupSettings(
    group_id="g",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=20_000,
    heartbeat_interval_ms=1_000,
    request_timeout_ms=5_000,
)
REACTION_S = 30.0
"""The time for which work may wait in addition to the delay: a session, the rebalances, and a broker that is down."""


class World:
    def __init__(self, cluster: SimCluster, seed: int) -> None:
        self.cluster = cluster
        self.ledger = Ledger()
        self.workers: dict[str, Worker] = {}
        self.rng = random.Random(seed)
        self.lives = 0
        self.longest_wait_s = 0.0

    def start(self, number: int) -> Worker:
        self.lives += 1
        name = f"worker-{number}"
        network = self.cluster.network.host(name)
        servers = tuple(Address(node.name, BROKER_PORT) for node in self.cluster.brokers)
        config = ClientConfig(servers=servers, request_timeout_ms=5_000, default_api_timeout_ms=30_000)

        def open_client(settings: ClientConfig) -> Client:
            return Client(settings, network)

        return Worker(
            name,
            self.ledger,
            self.workers,
            config,
            open_client,
            SimClock(asyncio.get_running_loop()),
            GROUP,
            DELAY_MS,
            self.lives,
        )

    async def configure(self, number: int, tasks: int) -> None:
        """Changes a connector, as any worker may without exactly once."""
        worker = self.rng.choice(list(self.workers.values()))
        await worker.herder.started()
        config = {"name": f"c{number}", TASKS_KEY: str(tasks)}
        await worker.configs.put_connector(f"c{number}", config, None)

    async def cut_off(self, number: int, seconds: float) -> None:
        """Cuts a worker off from all brokers for some time. The worker stays alive."""
        name = f"worker-{number}"
        for node in self.cluster.brokers:
            self.cluster.network.cut_link(name, node.name)
            self.cluster.network.cut_link(node.name, name)
        await asyncio.sleep(seconds)
        self.cluster.network.mend_links()

    async def watch(self) -> None:
        """Looks again and again for how long work has had no owner."""
        while True:
            await asyncio.sleep(0.5)
            for worker in self.workers.values():
                wait_s = self.ledger.longest_wait_s(worker.configs.state)
                self.longest_wait_s = max(self.longest_wait_s, wait_s)
                break


async def trouble(world: World, workers: list[Worker]) -> None:
    rng = world.rng
    for _ in range(EVENTS):
        await asyncio.sleep(rng.uniform(3, 15))
        number = rng.randrange(WORKERS)
        match rng.randrange(5):
            case 0:
                await workers[number].kill()
                await asyncio.sleep(rng.uniform(0, 15))
                workers[number] = world.start(number)
            case 1:
                await workers[number].stop()
                workers[number] = world.start(number)
            case 2:
                node = world.cluster.nodes[rng.choice(BROKERS)]
                node.kill()
                await asyncio.sleep(rng.uniform(1, 8))
                await node.start()
            case 3:
                await world.cut_off(number, rng.uniform(1, 25))
            case _:
                await world.configure(rng.randrange(CONNECTORS), rng.randrange(1, 6))


@pytest.mark.parametrize("seed", [1, 27])
def test_work_runs_once_while_workers_and_brokers_come_and_go(seed: int) -> None:
    async def story(cluster: SimCluster, _replicas: int) -> None:
        world = World(cluster, seed)
        workers = [world.start(number) for number in range(WORKERS)]
        for number in range(CONNECTORS):
            await world.configure(number, 1 + number % 3)
        watch = asyncio.create_task(world.watch())
        await asyncio.sleep(20)
        await trouble(world, workers)
        await asyncio.sleep(CALM_S)
        watch.cancel()
        state = workers[0].configs.state
        assert all(worker.configs.state == state for worker in workers)
        work = configured_work(state)
        counts = [int(state.connectors[f"c{number}"][TASKS_KEY]) for number in range(CONNECTORS)]
        assert len(work) == CONNECTORS + sum(counts)
        assert sorted(world.ledger.owners) == sorted(work)
        for is_connector in (True, False):
            loads = [
                sum((id.task == CONNECTOR) is is_connector for id in world.ledger.of(worker.name))
                for worker in workers
            ]
            assert max(loads) - min(loads) <= 1, loads
        assert world.longest_wait_s <= DELAY_MS / 1000 + REACTION_S
        for worker in workers:
            await worker.stop()
        assert not world.ledger.owners

    on_brokers(story, replicas=3, seed=seed)
