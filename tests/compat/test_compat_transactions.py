"""Transactions as clients live them: commit, abort, fencing, offsets with records, readers of both isolation levels.

Also a consume-transform-produce loop whose process, and whose broker, are killed again and again.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

_NAMES = itertools.count()
TIMEOUT = 60  # far more than anything takes, on a machine that does other things, too


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("transactions")
    overrides = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with BrokerProcess(directory, overrides=overrides) as running:
        yield running


def new_topic(broker: BrokerProcess, partitions: int = 2) -> str:
    name = f"t{next(_NAMES)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT)
    return name


def transactional(broker: BrokerProcess, transactional_id: str, **settings: object) -> Producer:
    properties = {
        "bootstrap.servers": broker.bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": 60_000,
    }
    producer = Producer(properties | {name.replace("_", "."): value for name, value in settings.items()})
    producer.init_transactions(TIMEOUT)
    return producer


def read(broker: BrokerProcess, topic: str, isolation: str = "read_committed") -> list[str]:
    """Every value of a topic up to its (stable) end, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = consumer.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    values, ended = [], set()
    deadline = time.monotonic() + TIMEOUT
    while len(ended) < len(partitions) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
        else:
            values.append(message.value().decode())
    consumer.close()
    assert len(ended) == len(partitions), "the end was not reached"
    return sorted(values)


def test_committed_and_aborted(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    producer = transactional(broker, f"id-{topic}")
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, f"{number}-{partition}", partition=partition)
        if number % 2:
            producer.flush()
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
    assert read(broker, topic) == sorted(f"{n}-{p}" for n in (0, 2, 4) for p in (0, 1))
    assert len(read(broker, topic, "read_uncommitted")) == 12


def test_nothing_is_seen_before_the_commit(broker: BrokerProcess) -> None:
    topic = new_topic(broker, 1)
    producer = transactional(broker, f"id-{topic}")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, "before")
    plain.flush()
    producer.begin_transaction()
    producer.produce(topic, "within")
    producer.flush()
    plain.produce(topic, "after")
    plain.flush()
    assert read(broker, topic) == ["before"]
    producer.commit_transaction(TIMEOUT)
    assert read(broker, topic) == ["after", "before", "within"]


def test_a_new_incarnation_fences_the_old_one(broker: BrokerProcess) -> None:
    topic = new_topic(broker, 1)
    old = transactional(broker, f"id-{topic}")
    old.begin_transaction()
    old.produce(topic, "of the zombie")
    old.flush()
    new = transactional(broker, f"id-{topic}")
    new.begin_transaction()
    new.produce(topic, "of the living")
    new.commit_transaction(TIMEOUT)
    with pytest.raises(KafkaException) as caught:
        old.produce(topic, "too late")
        old.commit_transaction(TIMEOUT)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert read(broker, topic) == ["of the living"]


def test_a_transaction_that_takes_too_long_is_aborted(broker: BrokerProcess) -> None:
    topic = new_topic(broker, 1)
    producer = transactional(broker, f"id-{topic}", transaction_timeout_ms=1000)
    producer.begin_transaction()
    producer.produce(topic, "slow")
    producer.flush()
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, "plain")
    plain.flush()
    deadline = time.monotonic() + TIMEOUT
    while (found := read(broker, topic)) != ["plain"]:
        assert found == [] and time.monotonic() < deadline, found
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT)


def test_offsets_are_committed_with_the_transaction(broker: BrokerProcess) -> None:
    topic = new_topic(broker, 1)
    group = f"g-{topic}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    producer = transactional(broker, f"id-{topic}")
    for offset, commit in ((5, True), (9, False)):
        producer.begin_transaction()
        producer.produce(topic, f"{offset}")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), TIMEOUT
        )
        if commit:
            producer.commit_transaction(TIMEOUT)
        else:
            producer.abort_transaction(TIMEOUT)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT)
    assert committed.offset == 5
    consumer.close()


def test_transactions_of_aiokafka(broker: BrokerProcess) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    topic = new_topic(broker)

    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=f"id-{topic}"
        )
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept", partition=0)
                await producer.send_offsets_to_transaction(
                    {aiokafka.TopicPartition(topic, 0): 3}, f"g-{topic}"
                )
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"dropped", partition=1)
                    raise ZeroDivisionError
        finally:
            await producer.stop()

    asyncio.run(run())
    assert read(broker, topic) == ["kept"]


def test_transactions_of_kafka_python(broker: BrokerProcess) -> None:
    kafka = pytest.importorskip("kafka")
    topic = new_topic(broker)

    def begun() -> Any:
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"id-{topic}")
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    old = begun()
    old.send(topic, b"kept", partition=0)
    offsets = {kafka.TopicPartition(topic, 0): kafka.structs.OffsetAndMetadata(3, "", -1)}
    old.send_offsets_to_transaction(offsets, f"g-{topic}")
    old.commit_transaction()
    old.begin_transaction()
    old.send(topic, b"dropped", partition=1).get(TIMEOUT)
    new = begun()
    new.send(topic, b"of the living", partition=1)
    new.commit_transaction()
    with pytest.raises(kafka.errors.KafkaError):
        old.commit_transaction()
    for producer in (old, new):
        producer.close(timeout=TIMEOUT)
    assert read(broker, topic) == ["kept", "of the living"]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"g-{topic}"})
    (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT)
    consumer.close()
    assert committed.offset == 3


def test_transactions_outlive_a_clean_restart_and_a_crash(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topic = new_topic(broker, 2)
        producer = transactional(broker, "mover")
        producer.begin_transaction()
        producer.produce(topic, "before", partition=0)
        producer.flush()
        broker.stop()
        broker.start()
        producer.produce(topic, "between", partition=1)
        producer.flush()
        broker.kill()
        broker.start()
        producer.commit_transaction(TIMEOUT)
        assert read(broker, topic) == ["before", "between"]


LOOP = """
import sys
from confluent_kafka import Consumer, Producer, KafkaException
bootstrap, source, target = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "loop", "linger.ms": 1})
producer.init_transactions(30)
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "loop", "enable.auto.commit": False,
    "auto.offset.reset": "earliest", "isolation.level": "read_committed", "session.timeout.ms": 6000,
    "group.instance.id": "only"})
consumer.subscribe([source])
while True:
    messages = consumer.consume(7, 0.5)
    if not messages:
        continue
    producer.begin_transaction()
    for message in messages:
        assert not message.error(), message.error()
        producer.produce(target, message.value().upper(), partition=message.partition())
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()),
        consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    print("committed", flush=True)
"""


VALUES_PER_KILL = 120
"""More than a loop moves before it is killed: at most 7 values in each of 6 transactions and of those that follow."""


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.timeout(900)  # as many starts of a process, which a busy machine makes slow
def test_a_loop_killed_again_and_again_neither_loses_nor_repeats(tmp_path: Path, kills: int) -> None:
    """Killed at any moment after a few transactions, together with the broker every fifth time."""
    chosen = random.Random()
    with BrokerProcess(tmp_path, overrides={"group.initial.rebalance.delay.ms": "0"}) as broker:
        source, target = new_topic(broker), new_topic(broker)
        plain = Producer({"bootstrap.servers": broker.bootstrap})
        wanted = [f"v{number:05}" for number in range(kills * VALUES_PER_KILL)]
        for number, value in enumerate(wanted):
            plain.produce(source, value, partition=number % 2)
        plain.flush()
        script = tmp_path / "loop.py"
        script.write_text(textwrap.dedent(LOOP))
        command = [sys.executable, str(script), broker.bootstrap, source, target]
        expected = sorted(value.upper() for value in wanted)
        for kill in range(kills):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert process.stdout is not None
            for _ in range(chosen.randint(1, 6)):
                assert process.stdout.readline() == b"committed\n"
            time.sleep(chosen.uniform(0, 0.02))
            if kill % 5 == 4:
                broker.kill()
                broker.start()
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        assert len(read(broker, target)) < len(expected), "the work was done before the last kill"
        last = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 6 * TIMEOUT
            while (found := read(broker, target)) != expected and time.monotonic() < deadline:
                assert len(found) <= len(expected), "something was repeated"
                time.sleep(0.5)
        finally:
            last.kill()
            last.wait()
        assert found == expected
