"""Transactions over three brokers in their own processes, with librdkafka: commits, aborts, and brokers that die.

The leaders of a transaction's partitions are different brokers. With one replica, a killed broker must come back. With
three replicas, the other brokers take over.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.coordinator.hashing import partition_for
from kcli.testing.broker_process import BrokerProcess
from kcli.testing.cluster_processes import ClusterProcesses

PATIENCE_S = 60.0
PARTITIONS = 6
TOPIC, GROUP = "ledger", "copier"


@contextlib.contextmanager
def running(directory: Path, replicas: int) -> Iterator[ClusterProcesses]:
    overrides = {
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(replicas, 2)),
        "group.initial.rebalance.delay.ms": "0",
    }
    with ClusterProcesses(directory, brokers=3, overrides=overrides) as started:
        create(started.bootstrap, TOPIC, replicas)
        until(lambda: set(leaders(started, TOPIC).values()) == {1, 2, 3})
        yield started


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """A cluster whose partitions have one replica."""
    with running(tmp_path, 1) as started:
        yield started


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """A cluster whose partitions have three replicas."""
    with running(tmp_path, 3) as started:
        yield started


def create(bootstrap: str, topic: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics(
        [NewTopic(topic, PARTITIONS, replicas)], operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S
    ).values()
    created.result(PATIENCE_S)


def leaders(cluster: ClusterProcesses, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partitions = admin.list_topics(topic, 10).topics[topic].partitions
    return {number: partition.leader for number, partition in partitions.items()}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def transactional(cluster: ClusterProcesses, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def send(producer: Producer, text: str, partitions: range = range(PARTITIONS)) -> None:
    for number in partitions:
        producer.produce(TOPIC, f"{text} {number}", partition=number)


def read(cluster: ClusterProcesses, count: int) -> list[str]:
    """The values that a read_committed consumer finds, sorted. Waits for `count` values, and for the end of each
    partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value().decode() for message in consumer.consume(count, 0.5) if not message.error()]
    found += [message.value().decode() for message in consumer.consume(10, 1.0) if not message.error()]
    consumer.close()
    return sorted(found)


def of(*texts: str) -> list[str]:
    return sorted(f"{text} {number}" for text in texts for number in range(PARTITIONS))


def coordinator(cluster: ClusterProcesses, name: str) -> BrokerProcess:
    led = leaders(cluster, "__transaction_state")
    return cluster.brokers[led[partition_for(name, len(led))]]


def signal_to(broker: BrokerProcess, number: signal.Signals) -> None:
    assert broker.process is not None
    os.kill(broker.process.pid, number)


def test_transactions_over_three_brokers_commit_and_abort(cluster: ClusterProcesses) -> None:
    names = [f"producer-{number}" for number in range(4)]
    producers = [transactional(cluster, name) for name in names]
    assert len({coordinator(cluster, name).port for name in names}) > 1, "several brokers coordinate"
    for round_number in range(3):
        for name, producer in zip(names, producers, strict=True):
            producer.begin_transaction()
            send(producer, f"{name} round {round_number}")
            assert producer.flush(PATIENCE_S) == 0, "an abort drops the records that are not sent yet"
        for index, producer in enumerate(producers):
            if (index + round_number) % 2:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
    committed = [
        f"{name} round {round_number}"
        for round_number in range(3)
        for index, name in enumerate(names)
        if (index + round_number) % 2
    ]
    assert read(cluster, len(of(*committed))) == of(*committed)


def test_offsets_of_a_transaction_are_committed_by_another_broker(cluster: ClusterProcesses) -> None:
    """The group, the transaction and the records have different brokers."""
    source = transactional(cluster, "source")
    source.begin_transaction()
    send(source, "in")
    source.commit_transaction(PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    until(lambda: len(consumer.assignment()) == PARTITIONS or bool(consumer.poll(0.1)))
    copier = transactional(cluster, "copier")
    for end, offset in ((copier.abort_transaction, 3), (copier.commit_transaction, 7)):
        copier.begin_transaction()
        send(copier, f"copy {offset}")
        copier.send_offsets_to_transaction(
            [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)],
            consumer.consumer_group_metadata(),
            PATIENCE_S,
        )
        end(PATIENCE_S)
    found = consumer.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], PATIENCE_S)
    assert {each.offset for each in found} == {7}
    consumer.close()
    assert read(cluster, len(of("in", "copy 7"))) == of("in", "copy 7")


def test_a_coordinator_killed_before_the_markers_finishes_after_its_restart(
    cluster: ClusterProcesses,
) -> None:
    name = "killed"
    producer = transactional(cluster, name)
    killed = coordinator(cluster, name)
    stopped = next(broker for broker in cluster.brokers.values() if broker is not killed)
    producer.begin_transaction()
    send(producer, "kept")
    assert producer.flush(PATIENCE_S) == 0
    signal_to(stopped, signal.SIGSTOP)  # so that it cannot write its markers
    try:
        producer.commit_transaction(PATIENCE_S)  # the decision is on the disk of the coordinator
        killed.kill()
    finally:
        signal_to(stopped, signal.SIGCONT)
    killed.start()
    until(lambda: -1 not in leaders(cluster, TOPIC).values())
    assert read(cluster, PARTITIONS) == of("kept")


def test_another_broker_finishes_the_transactions_of_a_killed_coordinator(
    replicated: ClusterProcesses,
) -> None:
    name = "replicated"
    producer = transactional(replicated, name)
    killed = coordinator(replicated, name)
    stopped = next(broker for broker in replicated.brokers.values() if broker is not killed)
    producer.begin_transaction()
    send(producer, "kept")
    assert producer.flush(PATIENCE_S) == 0
    signal_to(stopped, signal.SIGSTOP)
    try:
        with contextlib.suppress(KafkaException):
            producer.commit_transaction(1.0)  # in doubt: the stopped broker has not replicated the decision
        killed.kill()
    finally:
        signal_to(stopped, signal.SIGCONT)
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(producer, "dropped")
    assert producer.flush(PATIENCE_S) == 0
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(producer, "after")
    producer.commit_transaction(PATIENCE_S)
    assert read(replicated, len(of("kept", "after"))) == of("kept", "after")


def test_a_partition_whose_broker_dies_gets_its_marker_when_the_broker_is_back(
    cluster: ClusterProcesses,
) -> None:
    name = "patient"
    producer = transactional(cluster, name)
    killed = next(broker for broker in cluster.brokers.values() if broker is not coordinator(cluster, name))
    producer.begin_transaction()
    send(producer, "dropped")
    assert producer.flush(PATIENCE_S) == 0
    killed.kill()
    producer.abort_transaction(PATIENCE_S)
    until(lambda: -1 in leaders(cluster, TOPIC).values())
    killed.start()
    until(lambda: -1 not in leaders(cluster, TOPIC).values())
    producer.begin_transaction()
    send(producer, "after")
    producer.commit_transaction(PATIENCE_S)
    assert read(cluster, PARTITIONS) == of("after")


def test_a_new_producer_of_the_same_id_fences_the_old_one_on_every_broker(cluster: ClusterProcesses) -> None:
    old = transactional(cluster, "same")
    old.begin_transaction()
    send(old, "old")
    assert old.flush(PATIENCE_S) == 0
    new = transactional(cluster, "same")
    new.begin_transaction()
    send(new, "new")
    new.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException):
        old.commit_transaction(PATIENCE_S)
    assert read(cluster, PARTITIONS) == of("new")
