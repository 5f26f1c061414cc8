"""Transactions over three brokers on virtual time: both protocols, and brokers that die between decision and markers.

Each partition has one replica, so a transaction has partitions on every broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.coordinator.hashing import partition_for
from kcli.errors import ErrorCode
from kcli.metadata.image import MetadataImage
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators.marker_sender import MarkerSender
from kcli.testing.actors.clients import TROUBLE
from kcli.testing.sim.cluster import BROKER_PORT, SimCluster, SimNode
from kcli.testing.sim.loop import SimLoop, simulate

CONTROLLER, BROKERS = 1, (2, 3, 4)
PARTITIONS = range(6)
ID = "tx"
TIMEOUT_S = 40.0
OVERRIDES = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
# Errors after which a client sends its request again, after it has asked for the leaders.
AGAIN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class Client:
    """A producer that knows the leaders, with a connection to each broker."""

    def __init__(self, cluster: SimCluster, *, new: bool) -> None:
        self.cluster = cluster
        self.new = new
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}
        self._host = cluster.network.host("client")
        self._connections: dict[int, Connection] = {}

    @property
    def image(self) -> MetadataImage:
        node = self.cluster.nodes[CONTROLLER].running
        assert node is not None
        return node.metadata

    @property
    def coordinator(self) -> SimNode:
        topic = self.image.topics.topic("__transaction_state")
        assert topic is not None
        return self.cluster.nodes[topic.partitions[partition_for(ID, 3)].leader]

    def leader(self, partition: int) -> int:
        topic = self.image.topics.topic("t")
        assert topic is not None
        return topic.partitions[partition].leader

    async def ask(self, broker: int, key: ApiKey, request: object, at_most: int = 99) -> Any:
        connection = self._connections.get(broker)
        if connection is None or connection.is_closed:
            address = Address(self.cluster.nodes[broker].name, BROKER_PORT)
            connection = await Connection.open(self._host, address, "app", TIMEOUT_S)
            self._connections[broker] = connection
        version = min(connection.version_for(key), at_most)
        return await connection.request(request, key, version=version, timeout=TIMEOUT_S)

    async def persist(
        self, attempt: Callable[[], Awaitable[Any]], code_of: Callable[[Any], ErrorCode]
    ) -> Any:
        """Repeats a request as clients do, and returns its answer."""
        while True:
            try:
                answer = await attempt()
            except TROUBLE:
                await asyncio.sleep(0.1)
                continue
            if code_of(answer) not in AGAIN:
                assert code_of(answer) is ErrorCode.NONE, code_of(answer)
                return answer
            await asyncio.sleep(0.02)

    async def begin(self) -> None:
        topic = ct.CreatableTopic(name="t", num_partitions=len(PARTITIONS), replication_factor=1)
        await self.ask(
            BROKERS[0], ApiKey.CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,), timeout_ms=9)
        )
        find = fc.FindCoordinatorRequest(key_type=1, coordinator_keys=(ID,))
        await self.persist(
            lambda: self.ask(BROKERS[0], ApiKey.FIND_COORDINATOR, find),
            lambda answer: answer.coordinators[0].error_code,
        )
        assert {self.leader(number) for number in PARTITIONS} == set(BROKERS)
        request = ip.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        given = await self.persist(
            lambda: self.ask(self.coordinator.node_id, ApiKey.INIT_PRODUCER_ID, request),
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
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        await self.persist(
            lambda: self.ask(self.coordinator.node_id, ApiKey.ADD_PARTITIONS_TO_TXN, request, at_most=3),
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    async def _produce(self, number: int, text: str) -> None:
        sequence = self.sequences.get(number, 0)
        batch = encode_batch(
            [Record(-1, self.coordinator.clock.now_ms(), None, text.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = p.PartitionProduceData(index=number, records=batch)
        request = p.ProduceRequest(
            transactional_id=ID,
            acks=-1,
            timeout_ms=5_000,
            topic_data=(p.TopicProduceData(name="t", partition_data=(data,)),),
        )
        await self.persist(
            lambda: self.ask(self.leader(number), ApiKey.PRODUCE, request, at_most=12 if self.new else 11),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self.sequences[number] = sequence + 1

    async def end(self, *, commits: bool) -> None:
        request = et.EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        answer = await self.persist(
            lambda: self.ask(self.coordinator.node_id, ApiKey.END_TXN, request, at_most=5 if self.new else 4),
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


def on_cluster(story: Story, *, new: bool) -> None:
    async def main(_loop: SimLoop) -> None:
        roles = {CONTROLLER: "controller"} | dict.fromkeys(BROKERS, "broker")
        async with SimCluster(5, roles=roles, overrides=OVERRIDES) as cluster:
            await cluster.start()
            client = Client(cluster, new=new)
            await client.begin()
            await story(cluster, client)

    simulate(5, main)


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
        killed = client.coordinator
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
        away = next(node for node in cluster.brokers if node is not client.coordinator)
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
        away = next(node for node in cluster.brokers if node is not client.coordinator)
        cluster.network.cut_link(client.coordinator.name, away.name)
        await client.end(commits=False)
        await asyncio.sleep(45)
        cluster.network.mend_links()
        await client.settled()

    on_cluster(story, new=new)


@both
def test_a_produce_waits_for_a_coordinator_that_is_away(new: bool) -> None:
    async def story(_cluster: SimCluster, client: Client) -> None:
        killed = client.coordinator
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
