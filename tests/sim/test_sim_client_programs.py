"""Programs on a simulated cluster: members of a group and tables in topics, while brokers are killed and start again.

They use the library of the client over the simulated network. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.client.group.assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from kcli.client.group.consumer import ConsumerProtocol
from kcli.client.group.member import Member
from kcli.client.group.membership import State
from kcli.client.group.requests import GroupSettings
from kcli.client.topic_table.table import TopicTable
from kcli.client.topic_table.topic import TableTopic
from kcli.client.topic_table.writers import IdempotentWriter, TransactionalWriter, Writer
from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from rigs.cluster_client import BROKERS, ClusterClient, on_brokers
from simulation.world.cluster import BROKER_PORT, SimCluster

PARTITIONS = 6
SESSION_MS = 6_000
TROUBLES = 2
CALM_S = 20.0
"""The time after the trouble in which everything must be in order again."""


def client_of(cluster: SimCluster, name: str) -> AdminClient:
    servers = tuple(Address(node.name, BROKER_PORT) for node in cluster.brokers)
    config = ClientConfig(servers=servers, request_timeout_ms=5_000, default_api_timeout_ms=30_000)
    return AdminClient(config, cluster.network.host(name))


async def make_trouble(cluster: SimCluster, rng: random.Random) -> None:
    """Kills one broker after another. Each of them starts again before the next one is killed."""
    for _ in range(TROUBLES):
        node = cluster.nodes[rng.choice(BROKERS)]
        await asyncio.sleep(rng.uniform(2, 8))
        node.kill()
        await asyncio.sleep(rng.uniform(1, 8))
        await node.start()


class Ownership:
    """Checks that no partition has two owners in one generation. `events` is the trace of the run."""

    def __init__(self) -> None:
        self.owners: dict[tuple[int, TopicPartition], str] = {}
        self.events: list[tuple[float, str, str, int]] = []

    def note(self, name: str, event: str, count: int) -> None:
        self.events.append((asyncio.get_running_loop().time(), name, event, count))


class Consumer:
    """One consumer, which is also the listener of its partitions."""

    def __init__(
        self, cluster: SimCluster, name: str, ownership: Ownership, assignor: Assignor, instance: str | None
    ) -> None:
        self.name = name
        self.client = client_of(cluster, name)
        self._ownership = ownership
        self.protocol = ConsumerProtocol(["t"], self, self._partition_counts, [assignor])
        settings = GroupSettings(
            group_id="g",
            group_instance_id=instance,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=10_000,
            heartbeat_interval_ms=1_000,
            request_timeout_ms=5_000,
        )
        self.member = Member(self.client, settings, self.protocol, SystemRng(1))
        self.task = asyncio.create_task(self.member.run())

    async def _partition_counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        return dict.fromkeys(topics, PARTITIONS)

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._ownership.note(self.name, "assigned", len(partitions))
        for partition in self.protocol.owned:
            owner = self._ownership.owners.setdefault((self.member.generation.id, partition), self.identity)
            assert owner == self.identity, f"{partition} has two owners in {self.member.generation}"

    @property
    def identity(self) -> str:
        return self.member.settings.group_instance_id or self.name

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._ownership.note(self.name, "revoked", len(partitions))

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._ownership.note(self.name, "lost", len(partitions))

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.client.close()


def run_of_members(seed: int, assignor: Assignor) -> list[tuple[float, str, str, int]]:
    ownership = Ownership()

    async def story(cluster: SimCluster, replicas: int) -> None:
        await ClusterClient(cluster, replicas).create("t", PARTITIONS)
        rng = random.Random(seed)
        lives = 3

        def consumer(number: int) -> Consumer:
            instance = "static" if number == 0 else None
            return Consumer(cluster, f"consumer-{number}", ownership, assignor, instance)

        consumers = [consumer(number) for number in range(3)]
        trouble = asyncio.create_task(make_trouble(cluster, rng))
        while not trouble.done():
            await asyncio.sleep(rng.uniform(1, 10))
            number = rng.randrange(3)
            if rng.random() < 0.5:
                await consumers[number].die()
            else:
                await consumers[number].member.leave()
                await consumers[number].client.close()
            consumers[number] = consumer(number)
            lives += 1
        await trouble
        await asyncio.sleep(CALM_S)
        assert [each.member.state for each in consumers] == [State.STABLE] * 3, f"after {lives} lives"
        owned = sorted(number for each in consumers for _, number in each.protocol.owned)
        assert owned == list(range(PARTITIONS))
        for each in consumers:
            await each.member.leave()
            await each.task
            await each.client.close()

    on_brokers(story, replicas=3, seed=seed)
    return ownership.events


def test_each_partition_has_one_owner_while_members_and_brokers_come_and_go() -> None:
    assert run_of_members(1, CooperativeStickyAssignor())


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_of_members(4, RangeAssignor()) == run_of_members(4, RangeAssignor())


@pytest.mark.parametrize(("seed", "is_transactional"), [(1, False), (2, True)])
def test_a_table_has_each_value_that_was_put_while_brokers_are_killed(
    seed: int, is_transactional: bool
) -> None:
    async def story(cluster: SimCluster, replicas: int) -> None:
        client = client_of(cluster, "writer")
        writer: Writer = TransactionalWriter(client, "tx") if is_transactional else IdempotentWriter(client)
        topic = TableTopic(name="table", partitions=3, replication_factor=3)
        rng = random.Random(seed)
        latest: dict[bytes, bytes] = {}
        uncertain: dict[bytes, set[bytes]] = {}

        async with (
            client,
            client_of(cluster, "fetching") as fetching,
            TopicTable(
                topic, client, fetching=fetching, writer=writer, read_committed=is_transactional
            ) as table,
        ):
            trouble = asyncio.create_task(make_trouble(cluster, rng))
            number = 0
            while not trouble.done():
                number += 1
                key, value = b"%d" % rng.randrange(8), b"%d" % number
                try:
                    await table.put(key, value)
                except KafkaError:
                    uncertain.setdefault(key, set()).add(value)
                else:
                    latest[key] = value
                    assert table.get(key) == value
                await asyncio.sleep(rng.uniform(0, 0.5))
            await trouble
            await table.read_to_end()
            for key, value in latest.items():
                assert table.get(key) in {value} | uncertain.get(key, set())
            async with (
                client_of(cluster, "other") as other,
                TopicTable(topic, other, fetching=fetching, read_committed=is_transactional) as copy,
            ):
                assert {key: each.value for key, each in copy.entries.items()} == {
                    key: each.value for key, each in table.entries.items()
                }
            assert number > 20

    on_brokers(story, replicas=3, seed=seed)
