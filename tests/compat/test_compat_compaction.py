"""A compacted topic on a real broker: what a reader from the start finds, before and after a crash of the broker."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.model.topic_partition import TopicPartition
from kcli.runtime.disk import SystemDisk
from kcli.storage.checkpoint import read_offsets
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

OVERRIDES = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.roll.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
KEYS = 20
TIMEOUT_SECONDS = 60


def create(broker: BrokerProcess, **config: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = NewTopic("kv", 1, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([topic])["kv"].result(30)


def write(broker: BrokerProcess, values: dict[str, str | None], **config: object) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **config})
    for key, value in values.items():
        producer.produce("kv", value, key)
    assert producer.flush(30) == 0


def read(broker: BrokerProcess) -> list[tuple[int, str, str | None]]:
    """Everything from the start to the end, as a consumer sees it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False,
                         "enable.partition.eof": True, "check.crcs": True})  # fmt: skip
    found = []
    try:
        consumer.assign([TopicPartition("kv", 0, 0)])
        while True:
            message = consumer.poll(10)
            assert message is not None, "nothing came for ten seconds"
            if message.error():
                return found
            value = message.value()
            found.append(
                (message.offset(), message.key().decode(), None if value is None else value.decode())
            )
    finally:
        consumer.close()


def read_all_but_end(broker: BrokerProcess) -> list[tuple[int, str, str | None]]:
    return [each for each in read(broker) if each[1] != "end"]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def rounds(broker: BrokerProcess, count: int, start: int = 0) -> dict[str, str]:
    """Writes every key in each round, each time as another producer; returns the last values."""
    for number in range(start, start + count):
        # What is left of a batch with a producer's last sequence is its header, which a consumer must get over.
        values = {f"k{nth}": f"{number}-{nth}" for nth in range(KEYS)}
        write(broker, values, **{"enable.idempotence": True})
        time.sleep(0.25)  # message time rolls segments
    return {f"k{nth}": f"{start + count - 1}-{nth}" for nth in range(KEYS)}


def test_a_compacted_topic(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, overrides=OVERRIDES) as broker:
        create(broker, cleanup_policy="compact", delete_retention_ms="100")
        last = rounds(broker, 4)
        write(broker, {"k0": None})
        ends = itertools.count()

        def is_forgotten() -> bool:
            """Tombstones go with the first pass after their horizon, and a pass needs something dirty."""
            time.sleep(0.25)
            write(broker, {"end": str(next(ends))})  # seals what is before it
            return "k0" not in {key for _, key, _ in read_all_but_end(broker)}

        wait_until(is_forgotten)
        found = read_all_but_end(broker)
        values = {key: value for _, key, value in found}
        assert values == {key: value for key, value in last.items() if key != "k0"}
        offsets = {key: offset for offset, key, _ in found}
        assert offsets["k1"] == 3 * KEYS + 1
        broker.kill()
        broker.start()
        assert read_all_but_end(broker) == found
        broker.restart()
        last = rounds(broker, 3, start=10)
        wait_until(lambda: len(read(broker)) < 2 * KEYS + 5)
        assert {key: value for _, key, value in read_all_but_end(broker)} == last
    checkpoint = read_offsets(SystemDisk(), str(tmp_path / "data" / "cleaner-offset-checkpoint"))
    assert checkpoint[TopicPartition("kv", 0)] >= 4 * KEYS


def test_committed_offsets_are_compacted(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, TopicPartition

    with BrokerProcess(tmp_path, overrides=OVERRIDES) as broker:
        create(broker)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        directory = tmp_path / "data" / "__consumer_offsets-0"

        def size() -> int:
            total = 0
            for path in directory.glob("*.log"):
                with contextlib.suppress(FileNotFoundError):  # the cleaner has just put another in its place
                    total += path.stat().st_size
            return total

        write(broker, {"a": "1"})
        biggest = 0
        for number in range(12):
            for _ in range(20):
                consumer.commit(offsets=[TopicPartition("kv", 0, number % 2)], asynchronous=False)
            biggest = max(biggest, size())
            time.sleep(0.1)
        consumer.commit(offsets=[TopicPartition("kv", 0, 1)], asynchronous=False)
        wait_until(lambda: size() < biggest / 2)
        broker.restart()
        (committed,) = consumer.committed([TopicPartition("kv", 0)], timeout=TIMEOUT_SECONDS)
        assert committed.offset == 1
        consumer.close()


def test_a_broker_that_stops_while_it_cleans(tmp_path: Path) -> None:
    slow = {**OVERRIDES, "log.cleaner.io.max.bytes.per.second": "2000"}
    directory = tmp_path / "data" / "kv-0"
    with BrokerProcess(tmp_path, overrides=slow) as broker:
        create(broker, cleanup_policy="compact", compression_type="uncompressed")
        for number in range(4):
            write(broker, {"k": f"{number}" * 20_000})
            time.sleep(0.25)
        wait_until(lambda: children_of(broker) != [])
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 30
        assert not [path for path in directory.iterdir() if path.name.endswith((".cleaned", ".swap"))]
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        broker.overrides = OVERRIDES
        broker.start()
        wait_until(lambda: len(read(broker)) < 4)


def children_of(broker: BrokerProcess) -> list[str]:
    assert broker.process is not None
    found = []
    for tasks in Path(f"/proc/{broker.process.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found += tasks.read_text().split()
    return found


def test_the_cleaner_can_be_switched_off(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, overrides={**OVERRIDES, "log.cleaner.enable": "false"}) as broker:
        create(broker, cleanup_policy="compact")
        rounds(broker, 3)
        time.sleep(1)
        assert len(read(broker)) == 3 * KEYS
    assert not (tmp_path / "data" / "cleaner-offset-checkpoint").exists()
