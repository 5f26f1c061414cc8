"""The topic to which random transactions write, and its committed values."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.broker_process import BrokerProcess

TOPIC = "registers"
PARTITIONS = 4
TIMEOUT = 120  # far longer than any wait, even if other programs use the machine


@contextlib.contextmanager
def broker_with_topic(directory: Path) -> Iterator[BrokerProcess]:
    """A new broker with the topic. The test kills this broker, so other tests cannot use it."""
    with BrokerProcess(directory) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT)
        yield running


def committed_log(broker: BrokerProcess) -> dict[int, list[str]]:
    """The committed values of each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    log: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"read to the end of {sorted(ended)} only"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
        else:
            log[message.partition()].append(message.value().decode())
    consumer.close()
    return log
