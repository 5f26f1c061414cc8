"""The copy of a table that joins look up in: what it holds after each thing that can happen to its topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigs.librdkafka import produce

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from kcli.spark.streams.table_copy import TableCopy
    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]


def copy_of(bootstrap: str, topic: str) -> TableCopy:
    from kcli.spark.streams.table_copy import TableCopy, _read_options

    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
    }
    return TableCopy(_read_options(options))


def put(bootstrap: str, topic: str, **values: str | None) -> None:
    produce(bootstrap, topic, [{"key": key, "value": value} for key, value in values.items()])


def in_transaction(bootstrap: str, topic: str, *, committed: bool, **values: str | None) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for key, value in values.items():
        producer.produce(topic, key=key, value=value)
    producer.flush(30)
    if committed:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def held(bootstrap: str, topic: str) -> list[bytes | None]:
    """The keys that partition 0 holds, from its beginning to its end."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "held", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes | None] = []
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is None:
                values.append(message.key())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return values
    finally:
        consumer.close()


def test_follows_its_topic(broker: BrokerProcess, topic: Make) -> None:
    name = topic(3)
    copy = copy_of(broker.bootstrap, name)
    copy.follow()
    assert copy.values == {}
    put(broker.bootstrap, name, a="1", b="1", c="1", d="1")
    produce(broker.bootstrap, name, [{"key": None, "value": "no key"}, {"key": "", "value": "empty key"}])
    copy.follow()
    assert copy.values == {b"a": b"1", b"b": b"1", b"c": b"1", b"d": b"1", b"": b"empty key"}
    put(broker.bootstrap, name, a="2", b=None)
    in_transaction(broker.bootstrap, name, committed=False, a="3", c=None)
    in_transaction(broker.bootstrap, name, committed=True, d="")
    copy.follow()
    expected = {b"a": b"2", b"c": b"1", b"d": b"", b"": b"empty key"}
    assert copy.values == expected
    copy.follow()
    assert copy.values == expected
    anew = copy_of(broker.bootstrap, name)
    anew.follow()
    assert anew.values == expected


def test_one_that_was_left_for_long_misses_no_tombstone(
    broker: BrokerProcess, topic: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kcli.spark.streams import table_copy

    name = topic()
    put(broker.bootstrap, name, a="1")
    copy = copy_of(broker.bootstrap, name)
    copy.follow()
    copy.values[b"gone"] = b"its tombstone was cleaned away"
    copy.follow()
    assert b"gone" in copy.values
    monkeypatch.setattr(table_copy, "TOMBSTONE_SECONDS", 0.0)
    copy.follow()
    assert copy.values == {b"a": b"1"}


def test_a_topic_created_again_is_copied_from_its_start(broker: BrokerProcess, topic: Make) -> None:
    """With as many records as it had before, so that offsets tell nothing."""
    from confluent_kafka.admin import AdminClient

    from kcli.spark.client.cluster import Cluster

    name = topic()
    put(broker.bootstrap, name, a="1", b="1")
    copy = copy_of(broker.bootstrap, name)
    copy.follow()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([name])[name].result(30)
    with Cluster(copy.options.client) as cluster:
        cluster.create_topic(name, 1, {"cleanup.policy": "compact"})
        cluster.create_topic(name, 1, {})  # is there
    put(broker.bootstrap, name, b="2", c="2")
    copy.follow()
    assert copy.values == {b"b": b"2", b"c": b"2"}


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    from kcli.testing.broker_process import BrokerProcess

    settings = {
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.segment.bytes": "1048576",
        "log.initial.task.delay.ms": "100",
    }
    with BrokerProcess(tmp_path / "broker", settings) as process:
        yield process


def test_compaction_and_a_broker_that_is_away(own_broker: BrokerProcess) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "max.compaction.lag.ms": "100"}
    admin.create_topics([NewTopic("table", 1, 1, config=settings)])["table"].result(30)
    early = copy_of(own_broker.bootstrap, "table")
    put(own_broker.bootstrap, "table", a="0", z="0")
    early.follow()
    for nth in range(3):
        put(own_broker.bootstrap, "table", a=str(nth), b=str(nth), z=None)
        time.sleep(0.15)
    put(own_broker.bootstrap, "table", last="1")
    deadline = time.monotonic() + 120
    while len(values := held(own_broker.bootstrap, "table")) > 5:
        assert time.monotonic() < deadline, f"nothing is cleaned: {values}"
        time.sleep(0.1)
    own_broker.kill()
    followed = threading.Thread(target=early.follow)
    followed.start()
    time.sleep(1.0)
    own_broker.start()
    followed.join(120)
    expected = {b"a": b"2", b"b": b"2", b"last": b"1"}
    assert early.values == expected
    late = copy_of(own_broker.bootstrap, "table")
    late.follow()
    assert late.values == expected
