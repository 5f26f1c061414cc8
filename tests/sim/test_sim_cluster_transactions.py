"""Transactions over three brokers on virtual time: both protocols, and brokers that die between decision and markers.

A transaction has partitions on every broker. With one replica, a killed broker must come back. With three replicas,
other brokers take over its partitions and its coordinators.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators.marker_sender import MarkerSender
from rigs.cluster_client import AGAIN, ClusterClient, on_brokers
from simulation.actors.client import eventually
from simulation.world.cluster import SimCluster, SimNode

PARTITIONS = range(6)
TRANSACTION = 1
"""The key type of FindCoordinator."""


class Client(ClusterClient):
    """A producer. If it is `new`, it uses TV2."""

    def __init__(self, cluster: SimCluster, *, new: bool, replicas: int, name: str = "tx") -> None:
        super().__init__(cluster, replicas)
        self.new = new
        self.name = name
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    @property
    def owner_id(self) -> int:
        """The coordinator of the transaction."""
        return self.coordinator_id(self.name, TRANSACTION)

    @property
    def owner(self) -> SimNode:
        return self.coordinator(self.name, TRANSACTION)

    async def begin(self) -> None:
        await self.find(self.name, TRANSACTION)
        request = ip.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        given = await self.persist(
            lambda: self.ask(self.owner_id, ApiKey.INIT_PRODUCER_ID, request),
            lambda answer: answer.error_code,
        )
        self._set_identity(given.producer_id, given.producer_epoch)

    def _set_identity(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}

    async def write(self, text: str) -> None:
        """Writes a record to every partition."""
        if not self.new:
            await self._add()
        for number in PARTITIONS:
            await self._produce(number, f"{text} {number}")

    async def _add(self) -> None:
        topics = (ap.AddPartitionsToTxnTopic(name="t", partitions=tuple(PARTITIONS)),)
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        await self.persist(
            lambda: self.ask(self.owner_id, ApiKey.ADD_PARTITIONS_TO_TXN, request, at_most=3),
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    async def _produce(self, number: int, text: str) -> None:
        sequence = self.sequences.get(number, 0)
        batch = encode_batch(
            [Record(-1, self.cluster.node.clock.now_ms(), None, text.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = p.PartitionProduceData(index=number, records=batch)
        request = p.ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=5_000,
            topic_data=(p.TopicProduceData(name="t", partition_data=(data,)),),
        )
        await self.persist(
            lambda: self.ask(self.leader(number), ApiKey.PRODUCE, request, at_most=12 if self.new else 11),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self.sequences[number] = sequence + 1

    def end_request(self, *, commits: bool) -> et.EndTxnRequest:
        return et.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )

    async def end(self, *, commits: bool) -> None:
        request = self.end_request(commits=commits)
        answer = await self.persist(
            lambda: self.ask(self.owner_id, ApiKey.END_TXN, request, at_most=5 if self.new else 4),
            lambda answer: answer.error_code,
        )
        if self.new:
            self._set_identity(answer.producer_id, answer.producer_epoch)

    async def read(self, number: int) -> list[str] | None:
        """The committed values of a partition. None if a transaction is open, or if the broker does not lead the
        partition yet."""
        node = self.cluster.nodes.get(self.leader(number))
        broker = None if node is None or node.running is None else node.running.broker
        if broker is None or broker.replicas.find("t", number) is None:
            return None
        wants = f.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1_000_000)
        request = f.FetchRequest(
            max_wait_ms=0, isolation_level=1, topics=(f.FetchTopic(topic="t", partitions=(wants,)),)
        )
        answer = await self.persist(
            lambda: self.ask(self.leader(number), ApiKey.FETCH, request, at_most=12),
            lambda answer: answer.responses[0].partitions[0].error_code,
        )
        (row,) = answer.responses[0].partitions
        if row.last_stable_offset < row.high_watermark:
            return None
        aborted = {each.first_offset for each in row.aborted_transactions or ()}
        return [
            (record.value or b"").decode()
            for at, header in iter_batches(row.records or b"")
            if not header.is_control and header.base_offset not in aborted
            for record in read_records(row.records or b"", at)
        ]

    async def committed(self, number: int) -> list[str]:
        """The committed values of a partition, when no transaction is open there any more."""
        async with asyncio.timeout(120):
            while True:
                found = await self.read(number)
                if found is not None:
                    return found
                await asyncio.sleep(0.1)

    async def settled(self, *texts: str) -> None:
        """Checks that each partition has these values of committed transactions."""
        for number in PARTITIONS:
            assert await self.committed(number) == [f"{text} {number}" for text in texts]


Story = Callable[[SimCluster, Client], Awaitable[None]]


def on_cluster(story: Story, *, new: bool, replicas: int = 1) -> None:
    async def main(cluster: SimCluster, replicas: int) -> None:
        client = Client(cluster, new=new, replicas=replicas)
        await client.create("t", len(PARTITIONS))
        await client.begin()
        await story(cluster, client)

    on_brokers(main, replicas=replicas)


both = pytest.mark.parametrize("new", [False, True], ids=["TV1", "TV2"])


@both
def test_transactions_over_three_brokers_commit_and_abort(new: bool) -> None:
    async def story(_cluster: SimCluster, client: Client) -> None:
        for number in range(6):
            await client.write(f"{number}")
            await client.end(commits=number % 2 == 0)
        await client.settled("0", "2", "4")

    on_cluster(story, new=new)


@both
@pytest.mark.parametrize("commits", [True, False])
def test_a_coordinator_that_dies_before_the_markers_writes_them_after_its_restart(
    monkeypatch: pytest.MonkeyPatch, new: bool, commits: bool
) -> None:
    async def story(_cluster: SimCluster, client: Client) -> None:
        await client.write("before")
        with monkeypatch.context() as patch:
            patch.setattr(MarkerSender, "write_all", lambda *_: asyncio.sleep(3600))
            await client.end(commits=commits)
        killed = client.owner
        killed.kill()
        await asyncio.sleep(10)
        await killed.start()
        await client.settled(*(["before"] if commits else []))
        await client.write("after")
        await client.end(commits=True)
        await client.settled(*(["before", "after"] if commits else ["after"]))

    on_cluster(story, new=new)


@both
def test_a_broker_that_is_away_gets_its_markers_when_it_is_back(new: bool) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        await client.write("first")
        away = next(node for node in cluster.brokers if node is not client.owner)
        away.kill()
        await client.end(commits=True)
        await asyncio.sleep(20)
        await away.start()
        await client.settled("first")

    on_cluster(story, new=new)


@both
def test_a_broker_that_hangs_gets_its_markers_when_its_link_heals(new: bool) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        await client.write("first")
        away = next(node for node in cluster.brokers if node is not client.owner)
        cluster.network.cut_link(client.owner.name, away.name)
        await client.end(commits=False)
        await asyncio.sleep(45)
        cluster.network.mend_links()
        await client.settled()

    on_cluster(story, new=new)


@both
def test_a_produce_waits_for_a_coordinator_that_is_away(new: bool) -> None:
    async def story(_cluster: SimCluster, client: Client) -> None:
        killed = client.owner
        if not new:
            await client._add()
        elsewhere = next(number for number in PARTITIONS if client.leader(number) != killed.node_id)
        killed.kill()
        writing = asyncio.ensure_future(client._produce(elsewhere, "late"))
        await asyncio.sleep(10)
        assert not writing.done()
        await killed.start()
        await writing
        await client.end(commits=True)
        assert await client.committed(elsewhere) == ["late"]

    on_cluster(story, new=new)


@both
def test_a_transaction_continues_at_the_next_coordinator(new: bool) -> None:
    async def story(_cluster: SimCluster, client: Client) -> None:
        await client.write("first")
        await client.end(commits=True)
        await client.write("second")
        client.owner.kill()
        await client.end(commits=True)
        await client.write("third")
        await client.end(commits=False)
        await client.write("fourth")
        await client.end(commits=True)
        await client.settled("first", "second", "fourth")

    on_cluster(story, new=new, replicas=3)


@both
@pytest.mark.parametrize("commits", [True, False])
def test_the_next_coordinator_writes_the_markers_of_a_dead_one(
    monkeypatch: pytest.MonkeyPatch, new: bool, commits: bool
) -> None:
    async def story(_cluster: SimCluster, client: Client) -> None:
        await client.write("before")
        with monkeypatch.context() as patch:
            patch.setattr(MarkerSender, "write_all", lambda *_: asyncio.sleep(3600))
            await client.end(commits=commits)
        client.owner.kill()
        await client.settled(*(["before"] if commits else []))
        await client.write("after")
        await client.end(commits=True)
        await client.settled(*(["before", "after"] if commits else ["after"]))

    on_cluster(story, new=new, replicas=3)


@both
def test_a_decision_that_was_not_replicated_is_not_a_decision(new: bool) -> None:
    """The coordinator is cut off, so its decision stays on its disk only. The client repeats its request at the next
    coordinator, with another decision. When the old coordinator is back, it follows."""

    async def story(cluster: SimCluster, client: Client) -> None:
        await client.write("first")
        old = client.owner
        cluster.isolate(old)
        lost = asyncio.ensure_future(
            client.ask(old.node_id, ApiKey.END_TXN, client.end_request(commits=True))
        )
        await eventually(lambda: client.owner_id not in (-1, old.node_id), 60, "another coordinator")
        await client.end(commits=False)
        cluster.network.mend_links()
        answer = (await asyncio.gather(lost, return_exceptions=True))[0]
        assert not isinstance(answer, et.EndTxnResponse) or answer.error_code in AGAIN
        await client.write("second")
        await client.end(commits=True)
        await client.settled("second")

    on_cluster(story, new=new, replicas=3)


@both
def test_a_new_producer_fences_the_old_one_at_the_next_coordinator(new: bool) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        await client.write("old")
        client.owner.kill()
        after = Client(cluster, new=new, replicas=3)
        await after.begin()
        assert (after.producer_id, after.epoch > client.epoch) == (client.producer_id, True)
        answer = await client.ask(client.owner_id, ApiKey.END_TXN, client.end_request(commits=True))
        assert answer.error_code is ErrorCode.PRODUCER_FENCED
        await after.write("new")
        await after.end(commits=True)
        await after.settled("new")

    on_cluster(story, new=new, replicas=3)


@pytest.mark.parametrize("seed", [1, 2])
def test_transactions_stay_atomic_while_brokers_die_and_return(seed: int) -> None:
    """Three producers of both protocols run transactions, while one broker after the other has trouble."""

    async def main(cluster: SimCluster, replicas: int) -> None:
        cluster.error_watch.tolerates = True  # a broker that was cut off may log that it was fenced
        rng = random.Random(seed)
        clients = [
            Client(cluster, new=number != 1, replicas=replicas, name=f"tx-{number}") for number in range(3)
        ]
        await clients[0].create("t", len(PARTITIONS))
        for client in clients:
            await client.begin()
        is_calm = asyncio.Event()
        works = [asyncio.ensure_future(transactions(client, rng, is_calm)) for client in clients]
        for _ in range(2):
            await asyncio.sleep(rng.uniform(1, 4))
            await trouble(cluster, rng)
        is_calm.set()
        async with asyncio.timeout(300):
            committed = [await work for work in works]
        for number in PARTITIONS:
            found = await clients[0].committed(number)
            for client, texts in zip(clients, committed, strict=True):
                mine = [value for value in found if value.startswith(f"{client.name} ")]
                assert mine == [f"{text} {number}" for text in texts]

    on_brokers(main, replicas=3, seed=seed)


async def transactions(client: Client, rng: random.Random, is_calm: asyncio.Event) -> list[str]:
    """Runs transactions until `is_calm`. Returns the texts of the committed ones."""
    committed = []
    for count in itertools.count():
        if is_calm.is_set():
            return committed
        text, commits = f"{client.name} {count}", rng.random() < 0.6
        await client.write(text)
        await client.end(commits=commits)
        committed += [text] * commits
        await asyncio.sleep(rng.random())
    return committed


async def trouble(cluster: SimCluster, rng: random.Random) -> None:
    """Cuts a broker off, or kills it and starts it again."""
    node = rng.choice(cluster.brokers)
    if rng.random() < 0.5:
        cluster.isolate(node)
        await asyncio.sleep(rng.uniform(1, 12))
        cluster.network.mend_links()
        return
    node.kill()
    await asyncio.sleep(rng.uniform(1, 12))
    await node.start()
