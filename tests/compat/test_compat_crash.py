"""kill -9 in the middle of acks=all traffic: what was acknowledged is there."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import CLIENTS

pytestmark = pytest.mark.compat

PARTITIONS = 3
MESSAGE_BYTES = 120
FIRST_ACK_SECONDS = 60.0


def _traffic(bootstrap: str, round_number: int, broker: BrokerProcess) -> dict[tuple[int, int], bytes]:
    """Sends until the broker is killed under it; the acknowledged records by (partition, offset)."""
    from confluent_kafka import Producer

    acked: dict[tuple[int, int], bytes] = {}

    def note(error: object, message: Any) -> None:
        if error is None:
            acked[message.partition(), message.offset()] = message.value()

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 2, "message.timeout.ms": 2000,
         "log_level": 0, "on_delivery": note}
    )  # fmt: skip
    chance = random.Random(round_number)
    first_ack_by = time.monotonic() + FIRST_ACK_SECONDS
    kill_at = math.inf
    number = 0
    while time.monotonic() < min(kill_at, first_ack_by if not acked else kill_at):
        if acked and kill_at == math.inf:
            kill_at = time.monotonic() + 0.2 + chance.random() * 0.4
        value = b"%d:%d:" % (round_number, number) + b"." * chance.randrange(MESSAGE_BYTES)
        try:
            producer.produce("crash", value, partition=number % PARTITIONS)
        except BufferError:
            producer.poll(0.01)
            continue
        producer.poll(0)
        number += 1
    broker.kill()
    producer.purge()
    producer.flush(1)
    return acked


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.timeout(900)  # as many starts of a broker, which a busy machine makes slow
def test_acknowledged_records_survive_kill_9(tmp_path: Path, rounds: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    acked: dict[tuple[int, int], bytes] = {}
    overrides = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"}
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("crash", PARTITIONS, 1)])["crash"].result(30)
        del admin
        for round_number in range(rounds):
            acked.update(_traffic(broker.bootstrap, round_number, broker))
            broker.start()
        stored: dict[tuple[int, int], bytes] = {}
        for partition in range(PARTITIONS):
            stored.update(_read(broker.bootstrap, partition))
        assert len(acked) > rounds, "the rounds had traffic"
        lost = {place: value for place, value in acked.items() if stored.get(place) != value}
        assert lost == {}
        for partition in range(PARTITIONS):
            offsets = sorted(offset for part, offset in stored if part == partition)
            assert offsets == list(range(len(offsets))), "offsets are dense"
    _indexes_agree(tmp_path)


def _read(bootstrap: str, partition: int) -> dict[tuple[int, int], bytes]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False, "check.crcs": True}
    )
    end = consumer.get_watermark_offsets(TopicPartition("crash", partition), 30)[1]
    consumer.assign([TopicPartition("crash", partition, 0)])
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + 60
    while len(found) < end and time.monotonic() < deadline:
        for message in consumer.consume(1000, 1):
            assert message.error() is None, message.error()
            found[partition, message.offset()] = message.value()
    consumer.close()
    return found


def _indexes_agree(directory: Path) -> None:
    """Every index of the topic passes the sanity check of dump-log and points at its log."""
    indexes = [
        os.fspath(path) for path in directory.rglob("crash-*/*") if path.suffix in (".index", ".timeindex")
    ]
    assert indexes
    done = subprocess.run(
        [sys.executable, "-m", "kcli", "dump-log", "--verify-index-only", "--files", ",".join(indexes)],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    assert done.stdout.count("Dumping ") == len(indexes)
    assert "Mismatches" not in done.stderr + done.stdout, done.stderr
    assert "not found" not in done.stderr + done.stdout, done.stderr


def test_the_other_clients_read_what_survived(tmp_path: Path) -> None:
    """A torn tail is nothing that a reader sees."""
    from rigs.kafka_clients import Confluent, Sent

    with BrokerProcess(tmp_path) as broker:
        Confluent().produce(
            broker.bootstrap, "t", [Sent(None, b"%d" % number) for number in range(100)], "none"
        )
        broker.kill()
        (log,) = tmp_path.rglob("t-0/00000000000000000000.log")
        with log.open("ab") as file:
            file.write(os.urandom(7) + b"\0" * 50)
        broker.start()
        for client in CLIENTS[:3]:
            assert [got.value for got in client.consume(broker.bootstrap, "t", 100)] == [
                b"%d" % n for n in range(100)
            ]
        Confluent().produce(broker.bootstrap, "t", [Sent(None, b"after")], "none")
        assert Confluent().consume(broker.bootstrap, "t", 1, 100)[0].value == b"after"
