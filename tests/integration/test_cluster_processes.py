"""A cluster of three real processes: a controller and two brokers, used by librdkafka, with kills and restarts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.local_cluster.layout import replication
from kcli.testing.cluster_processes import ClusterProcesses

PATIENCE_S = 60.0
PARTITIONS = 4
SESSION_S = 2
"""broker.session.timeout.ms of these clusters, so that a killed broker may soon register again."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    overrides = {
        "broker.session.timeout.ms": str(SESSION_S * 1000),
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        **replication(1),
    }
    with ClusterProcesses(tmp_path, brokers=2, overrides=overrides) as started:
        yield started


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics(
        [NewTopic(topic, PARTITIONS, 1)], operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S
    ).values()
    created.result(PATIENCE_S)


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    partitions = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, 10).topics[topic].partitions
    return {number: partition.leader for number, partition in partitions.items()}


def produce(bootstrap: str, topic: str, values: list[str], *, idempotent: bool = True) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": idempotent})
    failed: list[object] = []
    for index, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=index % PARTITIONS,
            on_delivery=lambda error, _message: failed.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def read(bootstrap: str, topic: str, count: int) -> list[str]:
    """The values of `count` records of all partitions, sorted."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    return sorted(collected(consumer, count))


def collected(consumer: Consumer, count: int) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value().decode() for message in consumer.consume(count, 0.5) if not message.error()]
    consumer.close()
    return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_topics_of_either_broker_are_spread_and_served(cluster: ClusterProcesses) -> None:
    first, second = (cluster.brokers[broker_id].bootstrap for broker_id in (1, 2))
    values = [f"{number:03}" for number in range(100)]
    for topic, bootstrap in (("by-first", first), ("by-second", second)):
        create(bootstrap, topic)
        until(lambda topic=topic: set(leaders(first, topic).values()) == {1, 2})  # type: ignore[misc]
        produce(bootstrap, topic, values)
        assert read(first, topic, 100) == read(second, topic, 100) == values
    grouped = Consumer(
        {"bootstrap.servers": first, "group.id": "group", "auto.offset.reset": "earliest"},
    )
    grouped.subscribe(["by-first"])
    assert sorted(collected(grouped, 100)) == values


def test_a_broker_and_the_controller_may_be_killed_and_started_again(cluster: ClusterProcesses) -> None:
    first, second = (cluster.brokers[broker_id].bootstrap for broker_id in (1, 2))
    values = [f"{number:03}" for number in range(40)]
    create(first, "before")
    produce(first, "before", values)

    cluster.brokers[2].kill()
    until(lambda: -1 in leaders(first, "before").values())
    cluster.brokers[2].start()
    until(lambda: set(leaders(first, "before").values()) == {1, 2})
    assert read(second, "before", 40) == values, "the records of a killed broker are on its disk"

    cluster.controller.kill()
    # Without a controller, a broker that has just started has no producer ids.
    produce(second, "before", values, idempotent=False)
    cluster.controller.start()
    create(second, "after")
    until(lambda: set(leaders(first, "after").values()) == {1, 2})
    produce(first, "after", values)
    assert read(second, "after", 40) == values

    assert cluster.brokers[1].stop() == 0
    until(lambda: set(leaders(second, "after").values()) == {-1, 2})
    assert cluster.brokers[2].stop() == 0
    assert cluster.controller.stop() == 0


def test_nodes_of_another_kind_start_with_the_same_files(tmp_path: Path) -> None:
    program = "import sys, time; print('Kafka Server started', sys.argv[1], flush=True); time.sleep(600)"
    other = (sys.executable, "-c", program)
    with ClusterProcesses(tmp_path, nodes=3, command=other) as cluster:
        for node in cluster.nodes.values():
            file = node.directory / "server.properties"
            assert node.log_path.read_text() == f"Kafka Server started {file}\n"
            assert (node.directory / "data" / "meta.properties").exists()
