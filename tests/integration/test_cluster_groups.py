"""Consumers of librdkafka on three brokers in their own processes, whose coordinator is killed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.coordinator.hashing import partition_for
from kcli.testing.broker_process import BrokerProcess
from kcli.testing.cluster_processes import ClusterProcesses

PATIENCE_S = 60.0
PARTITIONS, MESSAGES = 6, 300
TOPIC, GROUP = "events", "readers"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    overrides = {
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    with ClusterProcesses(tmp_path, brokers=3, overrides=overrides) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(PATIENCE_S)
        yield started


def coordinator(cluster: ClusterProcesses) -> BrokerProcess:
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=PATIENCE_S).topics
    partitions = topics["__consumer_offsets"].partitions
    return cluster.brokers[partitions[partition_for(GROUP, len(partitions))].leader]


def produce(cluster: ClusterProcesses, name: str) -> set[str]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    values = {f"{name} {number}" for number in range(MESSAGES)}
    for at, value in enumerate(sorted(values)):
        producer.produce(TOPIC, value, partition=at % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


def consumer(cluster: ClusterProcesses, protocol: str) -> Consumer:
    times = {} if protocol == "consumer" else {"session.timeout.ms": 10_000}
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **times,
        }
    )
    made.subscribe([TOPIC])
    return made


def read(consumers: list[Consumer], expected: set[str]) -> list[str]:
    """Reads until everything that is expected was read. Commits after each batch."""
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while not expected <= set(found) and time.monotonic() < deadline:
        for each in consumers:
            messages = [message for message in each.consume(100, 0.1) if not message.error()]
            found += [message.value().decode() for message in messages]
            if messages:
                commit(each)
    return found


def commit(reader: Consumer) -> None:
    """Commits the positions. Tries again while the group has no coordinator."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            reader.commit(asynchronous=False)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_offsets_survive_their_coordinator(cluster: ClusterProcesses, protocol: str) -> None:
    consumers = [consumer(cluster, protocol) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        for each in consumers:
            stack.callback(each.close)
        first = produce(cluster, "first")
        assert set(read(consumers, first)) == first
        killed = coordinator(cluster)
        killed.kill()
        second = produce(cluster, "second")
        found = read(consumers, second)
        assert set(found) == second, "offsets of the first messages were kept"
        killed.start()
        third = produce(cluster, "third")
        assert set(read(consumers, third)) == third
        deadline = time.monotonic() + PATIENCE_S
        while sorted(len(each.assignment()) for each in consumers) != [3, 3]:
            assert time.monotonic() < deadline, "the group never became even again"
            for each in consumers:
                each.poll(0.1)
    late = consumer(cluster, protocol)
    fourth = produce(cluster, "fourth")
    assert set(read([late], fourth)) == fourth
    late.close()
