"""Three real processes with replicated partitions, used by librdkafka, while nodes are killed, paused and stopped.

Nothing that was acknowledged may be lost or be there twice, and at the end all replicas have the same bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.client.admin.admin import AdminClient as KcliAdminClient
from kcli.client.config import ClientConfig
from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.runtime.network import SystemNetwork
from kcli.testing.broker_process import BrokerProcess
from kcli.testing.cluster_processes import ClusterProcesses

TOPIC = "replicated"
PARTITIONS = 3
NODES = (1, 2, 3)
PATIENCE_S = 30.0
SESSION_S = 2.0
OVERRIDES = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "250",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
}
PAUSE_S = 0.02
"""The time between two records of the load. The load shows gaps, so it need not be heavy."""


@dataclass(slots=True)
class Load:
    """An idempotent producer with acks=all, which writes the numbers 0, 1, 2 … to each partition in its own thread."""

    bootstrap: str
    acknowledged: dict[int, list[int]] = field(
        default_factory=lambda: {each: [] for each in range(PARTITIONS)}
    )
    failed: list[str] = field(default_factory=list)
    ending: bool = False
    sent: int = 0

    def run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 500,
                # A paused broker answers nothing, and the default of 60 s is longer than this test.
                "socket.timeout.ms": 3_000,
                "request.timeout.ms": 3_000,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        while not self.ending:
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, str(self.sent), partition=partition, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(0)
            time.sleep(PAUSE_S)  # `poll` would return earlier, at the first acknowledgement
        if producer.flush(PATIENCE_S):
            self.failed.append("records are not answered")

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()].append(int(message.value()))

    @property
    def counts(self) -> list[int]:
        return [len(values) for values in self.acknowledged.values()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, nodes=len(NODES), overrides=OVERRIDES) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        new = NewTopic(TOPIC, PARTITIONS, len(NODES))
        admin.create_topics([new], request_timeout=PATIENCE_S)[TOPIC].result(PATIENCE_S)
        yield started


@contextlib.contextmanager
def loaded(cluster: ClusterProcesses) -> Iterator[Load]:
    load = Load(cluster.bootstrap)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.ending = True
        thread.join(2 * PATIENCE_S)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def active_controller(cluster: ClusterProcesses, *, besides: int = 0) -> int:
    """The node id of the quorum's leader, from a node that runs."""

    async def ask() -> int:
        async with KcliAdminClient(_config(cluster, besides), SystemNetwork()) as admin:
            return (await admin.describe_quorum()).leader_id

    return asyncio.run(ask())


@dataclass(frozen=True, slots=True)
class State:
    leader: int | None
    in_sync: tuple[int, ...]


def partitions(cluster: ClusterProcesses, *, besides: int = 0) -> dict[int, State]:
    async def ask() -> dict[int, State]:
        async with KcliAdminClient(_config(cluster, besides), SystemNetwork()) as admin:
            found = (await admin.describe_topics([TOPIC]))[TOPIC]
            if isinstance(found, KafkaError):
                return {}
            return {each.partition: State(each.leader, tuple(each.isr)) for each in found.partitions}

    return asyncio.run(ask())


def _config(cluster: ClusterProcesses, besides: int) -> ClientConfig:
    servers = tuple(
        Address("127.0.0.1", node.port)
        for node_id, node in cluster.nodes.items()
        if node.process is not None and node_id != besides
    )
    return ClientConfig(servers=servers, request_timeout_ms=5_000, default_api_timeout_ms=20_000)


def all_in_sync(cluster: ClusterProcesses) -> bool:
    found = partitions(cluster)
    return len(found) == PARTITIONS and all(set(each.in_sync) == set(NODES) for each in found.values())


def goes_on(load: Load) -> None:
    """Waits until every partition has acknowledged new records."""
    before = load.counts
    until(
        lambda: all(now > then for now, then in zip(load.counts, before, strict=True)),
        "records are acknowledged",
    )


def crash(cluster: ClusterProcesses, load: Load, node_id: int) -> None:
    node = cluster.nodes[node_id]
    node.kill()
    goes_on(load)
    node.start()
    until(lambda: all_in_sync(cluster), "the killed node is in sync again")


def test_kills_pauses_and_stops_lose_and_repeat_nothing(cluster: ClusterProcesses) -> None:
    until(lambda: all_in_sync(cluster), "all replicas are in sync")
    with loaded(cluster) as load:
        goes_on(load)
        leader = partitions(cluster)[0].leader
        assert leader is not None
        crash(cluster, load, leader)

        followers = [each for each in NODES if each != partitions(cluster)[1].leader]
        crash(cluster, load, followers[0])

        crash(cluster, load, active_controller(cluster))

        paused = partitions(cluster)[2].leader
        assert paused is not None
        _signal(cluster.nodes[paused], signal.SIGSTOP)
        until(
            lambda: partitions(cluster, besides=paused)[2].leader not in (paused, None),
            "another broker leads",
        )
        goes_on(load)
        _signal(cluster.nodes[paused], signal.SIGCONT)
        until(lambda: all_in_sync(cluster), "the paused node is in sync again")

        for node in cluster.nodes.values():
            assert node.stop() == 0
            goes_on(load)
            node.start()
            until(lambda: all_in_sync(cluster), "the stopped node is in sync again")
    assert not load.failed
    assert {each: read(cluster, each, load.sent) for each in range(PARTITIONS)} == load.acknowledged
    until(lambda: len({tuple(files(node)) for node in cluster.nodes.values()}) == 1, "all replicas are equal")
    for partition in range(PARTITIONS):
        assert files(cluster.nodes[1])[partition], "a partition without records shows nothing"


def _signal(node: BrokerProcess, number: signal.Signals) -> None:
    assert node.process is not None
    os.kill(node.process.pid, number)


def read(cluster: ClusterProcesses, partition: int, count: int) -> list[int]:
    """The values of a partition from its start. It waits for `count` values, and then for no more values."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING)])
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        news = [int(each.value()) for each in consumer.consume(10_000, 0.5) if not each.error()]
        found += news
        if len(found) >= count and not news:
            break
    consumer.close()
    return found


def files(node: BrokerProcess) -> list[bytes]:
    """The bytes of each partition of a node, from all its segments in order."""
    data = node.directory / "data"
    return [
        b"".join(each.read_bytes() for each in sorted((data / f"{TOPIC}-{partition}").glob("*.log")))
        for partition in range(PARTITIONS)
    ]
