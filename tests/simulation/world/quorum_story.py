"""One simulated run of a cluster with several controllers and brokers. A seed decides its nodes, settings and faults.

In the first phase, clients create topics through any broker, while nodes are killed, stopped or lose power, and links
are cut in one or both directions. In the second phase, all links are repaired and all nodes run. Within a time limit
there must be an active controller, every broker must be unfenced, and every node must have every topic whose creation
was acknowledged. Then all nodes start again, so that their images come from their own disks. `QuorumWatch` checks the
promises of the quorum after every iteration of the event loop.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from kcli.client.connection import Connection
from kcli.errors import ErrorCode, KafkaError, ProtocolError
from kcli.model.addresses import Address
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.server.node import Node
from simulation.actors.clients import eventually
from simulation.checks.quorum_watch import QuorumWatch
from simulation.runtime.loop import SimLoop, simulate_noted
from simulation.runtime.network import Weather
from simulation.world.cluster import BOTH, BROKER_PORT, SimCluster, SimNode

TROUBLE_S = 40.0
CALM_S = 180.0
STORY_S = 1200.0
CLIENTS = 3
# The pause between two searches for nodes whose start has failed.
SUPERVISOR_PAUSE_S = 1.0
# The time limit of a client for one creation. It is longer than a fail-over.
CREATE_TIMEOUT_S = 20.0
SHAPES: tuple[dict[int, str], ...] = (
    {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"},
    {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"},
    {1: BOTH, 2: BOTH, 3: BOTH},
    {1: BOTH, 2: "controller", 3: "controller", 4: "broker"},
)
"""The roles of the nodes. The shape with separate roles is the most common one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a seed has chosen."""

    roles: dict[int, str]
    dynamic: bool
    weather: Weather
    overrides: dict[str, str]

    @classmethod
    def of(cls, rng: random.Random) -> Settings:
        return cls(
            roles=rng.choice(SHAPES),
            dynamic=rng.random() < 0.5,
            weather=Weather(
                latency_s=rng.choice((0.0005, 0.01)),
                spike_chance=rng.choice((0.0, 0.01, 0.05)),
                spike_s=rng.choice((0.05, 0.5)),
                cut_chance=rng.choice((0.0, 0.2)),
            ),
            overrides={
                "metadata.log.max.record.bytes.between.snapshots": rng.choice(("1", "2000", "20971520")),
                "metadata.max.idle.interval.ms": rng.choice(("500", "500", "0")),
                "broker.session.timeout.ms": rng.choice(("3000", "9000")),
                "broker.heartbeat.interval.ms": rng.choice(("500", "1000")),
            },
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a story (one simulated run). The figures show that the run did real work."""

    trace: str
    turns: int
    lives: int
    epochs: int
    acknowledged: int
    fenced: int
    """The number of times that a broker was fenced after it had been unfenced."""
    compared_images: int


def run_seed(seed: int) -> Outcome:
    """Runs the story of a seed. Raises AssertionError, or its subclass Deadlock, if a promise is broken."""
    return simulate_noted(
        seed,
        lambda loop: QuorumStory(loop, seed).run(),
        f"pytest tests/sim/test_sim_quorum.py --sim-seed {seed}",
    )


class QuorumStory:
    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop = loop
        self.rng = random.Random(seed)
        self.settings = settings = Settings.of(self.rng)
        self.cluster = SimCluster(
            seed,
            overrides=settings.overrides,
            weather=settings.weather,
            roles=settings.roles,
            dynamic=settings.dynamic,
        )
        self.watch = QuorumWatch()
        self.acknowledged: list[str] = []
        self.unfenced: set[int] = set()
        self.fenced = 0
        self._ends_at = 0.0

    async def run(self) -> Outcome:
        loop, cluster = self.loop, self.cluster
        async with cluster, asyncio.timeout(STORY_S):
            loop.on_turn.append(self._check)
            await cluster.start()
            loop.note("all nodes are ready")
            await self._trouble()
            await self._calm()
            await self._restart()
            lives = sum(node.life for node in cluster.nodes.values())
            return Outcome(
                loop.trace,
                loop.turns,
                lives,
                len(self.watch.leaders),
                len(self.acknowledged),
                self.fenced,
                self.watch.compared_images,
            )

    def _check(self) -> None:
        for node in self._running:
            self.watch.check(node)
        if self._running:
            self._count_fenced(self._running[0])

    def _count_fenced(self, node: Node) -> None:
        for broker in node.metadata.brokers.values():
            if not broker.fenced:
                self.unfenced.add(broker.id)
            elif broker.id in self.unfenced:
                self.unfenced.remove(broker.id)
                self.fenced += 1

    @property
    def _running(self) -> list[Node]:
        return [node.running for node in self.cluster.nodes.values() if node.running is not None]

    # Trouble.

    async def _trouble(self) -> None:
        self._ends_at = self.loop.time() + TROUBLE_S
        async with asyncio.TaskGroup() as group:
            group.create_task(self._make_trouble())
            for number in range(CLIENTS):
                group.create_task(self._create_topics(f"client-{number}"))

    async def _make_trouble(self) -> None:
        cluster, rng = self.cluster, self.rng
        while self.loop.time() < self._ends_at:
            await asyncio.sleep(rng.random() * 4)
            node = self._victim()
            match rng.choice(("kill", "power", "stop", "isolate", "isolate", "deaf", "mute", "mend", "cut")):
                case "kill":
                    node.kill()
                case "power":
                    node.lose_power()
                case "stop" if node.is_up:
                    self.loop.note(f"{node.name} is stopped")
                    await self._stop(node)
                case "isolate":
                    cluster.isolate(node)
                case "deaf":
                    cluster.isolate(node, speaks=True)
                case "mute":
                    cluster.isolate(node, hears=True)
                case "cut":
                    cluster.network.cut(rng.choice((0.3, 1.0)))
                case _:
                    cluster.network.mend_links()
            if rng.random() < 0.6:
                await self._start_some()

    def _victim(self) -> SimNode:
        """A node for the next fault. The active controller is chosen often, because its loss matters most."""
        nodes = list(self.cluster.nodes.values())
        if self.rng.random() < 0.4:
            for node in nodes:
                if node.running is not None and node.running.quorum.view.is_leader:
                    return node
        return self.rng.choice(nodes)

    async def _stop(self, node: SimNode) -> None:
        """Stops a node, or kills it if its controlled shutdown finds no controller."""
        stopping = asyncio.ensure_future(node.stop())
        done, _ = await asyncio.wait((stopping,), timeout=self.rng.choice((1.0, 10.0)))
        if not done:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            node.kill()
        else:
            stopping.result()

    async def _start_some(self) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 0.5, 3.0)))
        for node in self.cluster.nodes.values():
            if not node.is_up:
                await node.start(0.0)

    async def _create_topics(self, name: str) -> None:
        """Creates topics through any broker, until the faults end. Stores the names of the acknowledged topics."""
        number = 0
        while self.loop.time() < self._ends_at:
            await asyncio.sleep(self.rng.random())
            number += 1
            broker = self.rng.choice(self.cluster.brokers)
            try:
                async with asyncio.timeout(CREATE_TIMEOUT_S):
                    created = await self._create(name, broker, f"{name}-topic-{number}")
            except (OSError, TimeoutError, KafkaError, ProtocolError):
                continue  # the topic may exist or not
            if created:
                self.acknowledged.append(f"{name}-topic-{number}")

    async def _create(self, client: str, broker: SimNode, topic: str) -> bool:
        """Returns True if the creation of the topic is acknowledged."""
        host = self.cluster.network.host(client)
        address = Address(broker.name, BROKER_PORT)
        connection = await Connection.open(host, address, client, CREATE_TIMEOUT_S)
        try:
            request = CreateTopicsRequest(
                topics=(CreatableTopic(name=topic, num_partitions=2, replication_factor=1),),
                timeout_ms=10_000,
            )
            response: Any = await connection.request(
                request, ApiKey.CREATE_TOPICS, version=7, timeout=CREATE_TIMEOUT_S
            )
        finally:
            connection.close()
        (result,) = response.topics
        return result.error_code is ErrorCode.NONE

    # Calm.

    async def _calm(self) -> None:
        self.loop.note("calm")
        self.cluster.network.mend_links()
        for node in self.cluster.nodes.values():
            if not node.is_up:
                await node.start(0.0)
        supervisor = asyncio.create_task(self._start_failed_nodes_again())
        try:
            await eventually(self._has_settled, CALM_S, "the cluster settles")
        finally:
            supervisor.cancel()

    async def _start_failed_nodes_again(self) -> None:
        """Repeats the start of nodes whose start has failed, as a service manager does.

        A node that was started during a fault may still give up its registration after the end of the fault.
        """
        while True:
            await asyncio.sleep(SUPERVISOR_PAUSE_S)
            for node in self.cluster.nodes.values():
                if node.has_failed_to_start:
                    node.kill()
                    await node.start(0.0)

    def _has_settled(self) -> bool:
        """Whether all nodes run and know the same leader, all brokers and all acknowledged topics."""
        nodes = self._running
        if len(nodes) < len(self.cluster.nodes):
            return False
        leaders = [(node.quorum.view.leader_id, node.quorum.view.epoch) for node in nodes]
        if leaders.count(leaders[0]) < len(leaders) or leaders[0][0] < 0:
            return False
        return all(self._is_complete(node) for node in nodes)

    def _is_complete(self, node: Node) -> bool:
        image = node.metadata
        brokers = [broker for broker in image.brokers.values() if not broker.fenced]
        if len(brokers) < len(self.cluster.brokers):
            return False
        if set(image.controllers) != {each.node_id for each in self.cluster.controllers}:
            return False
        topics = [image.topics.topic(name) for name in self.acknowledged]
        return all(
            topic is not None and all(each.leader >= 0 for each in topic.partitions.values())
            for topic in topics
        )

    async def _restart(self) -> None:
        """Stops and starts all nodes, so that each image comes from the disk of its node."""
        self.loop.note("all nodes start again")
        for node in self.cluster.nodes.values():
            node.kill()
        for node in self.cluster.nodes.values():
            await node.start(0.0)
        await eventually(self._has_settled, CALM_S, "the cluster settles again")
        await asyncio.sleep(3.0)
