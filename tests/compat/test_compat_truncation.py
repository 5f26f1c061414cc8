"""A consumer of librdkafka detects that an unclean election has truncated the log that it read (KIP-320)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.cluster_processes import ClusterProcesses

TOPIC = "unclean"
PATIENCE_S = 40.0
ANSWER_S = 5.0
OVERRIDES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.replication.factor": "1",
}
BOTH, LOST, NEW = 5, 10, 20
"""The number of records that both brokers have, that only the dead leader has, and that the new leader gets."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, brokers=2, overrides=OVERRIDES) as started:
        yield started


def test_a_consumer_stops_at_a_truncation_that_offsets_do_not_show(cluster: ClusterProcesses) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    admin.create_topics([NewTopic(TOPIC, 1, 2, config=config)])[TOPIC].result(PATIENCE_S)
    produce(cluster, b"both", BOTH)
    first = leader_of(admin)
    leader, follower = cluster.nodes[first], cluster.nodes[3 - first]
    follower.kill()
    until(lambda: in_sync(admin) == [first], "the ISR shrinks")
    produce(cluster, b"lost", LOST)

    consumer = consumer_at_the_end(cluster)
    leader.kill()
    follower.start()
    until(lambda: leader_of(admin) == 3 - first, "the other broker leads")
    # The new log is longer than the position of the consumer, so only the leader epochs show the loss.
    produce(cluster, b"new", NEW)
    message = next_message(consumer)
    assert message.error() is not None, (message.offset(), message.value())
    assert f"truncation detected at offset {BOTH + LOST}" in message.error().str()
    assert f"broker end offset is {BOTH} " in message.error().str()
    consumer.close()


def produce(cluster: ClusterProcesses, value: bytes, count: int) -> None:
    answers: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for _ in range(count):
        producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: answers.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert answers == [None] * count


def consumer_at_the_end(cluster: ClusterProcesses) -> Consumer:
    """A consumer that has read all records of the first leader."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    for offset in range(BOTH + LOST):
        message = next_message(consumer)
        assert (message.error(), message.offset()) == (None, offset)
    return consumer


def next_message(consumer: Consumer) -> Any:
    """The next record, or the next error of the partition. Errors of connections are passed over."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and (message.error() is None or message.topic() is not None):
            return message
    raise AssertionError(f"no record and no error within {PATIENCE_S} s")


def partition_of(admin: AdminClient) -> Any:
    """Asks again if no answer comes, because librdkafka may have sent its request to the broker that was killed."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return admin.list_topics(TOPIC, timeout=ANSWER_S).topics[TOPIC].partitions[0]
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def leader_of(admin: AdminClient) -> int:
    return partition_of(admin).leader


def in_sync(admin: AdminClient) -> list[int]:
    return list(partition_of(admin).isrs)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.1)
