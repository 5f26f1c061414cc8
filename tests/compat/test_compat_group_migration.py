"""Groups that several clients share: classic members of every client beside one of the broker's protocol (KIP-848),
and what librdkafka's callbacks and commits see in the latter."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import CLIENTS, PATIENCE_S, Client, Confluent, KafkaPython, is_here

pytestmark = pytest.mark.compat

PARTITIONS = 6
_NAMES = itertools.count()


class NewProtocol(Confluent):
    """librdkafka as a member of a consumer group."""

    name = "confluent-kafka, group.protocol=consumer"

    def _consumer(self, bootstrap: str, **more: object) -> Any:
        settings = {
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        return Consumer({"bootstrap.servers": bootstrap, **settings, **more})


class Cooperative(Confluent):
    name = "confluent-kafka, cooperative-sticky"

    def _consumer(self, bootstrap: str, **more: object) -> Any:
        return super()._consumer(bootstrap, **more, **{"partition.assignment.strategy": "cooperative-sticky"})


class CooperativePython(KafkaPython):
    name = "kafka-python, cooperative-sticky"

    def _consumer(self, bootstrap: str, *topics: str, **more: Any) -> Any:
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        strategy = [CooperativeStickyAssignor]
        return super()._consumer(bootstrap, *topics, **more, partition_assignment_strategy=strategy)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks consumers for many heartbeats."""
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with BrokerProcess(tmp_path_factory.mktemp("migration"), overrides=overrides) as process:
        yield process


@pytest.fixture
def topic(quick: BrokerProcess) -> str:
    name = f"migrating-{next(_NAMES)}"
    admin = AdminClient({"bootstrap.servers": quick.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)
    return name


class Readers:
    """Members in threads, and what each has read."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str) -> None:
        self.broker, self.topic, self.group = broker, topic, group
        self.seen: dict[int, set[int]] = defaultdict(set)
        self.last: dict[str, float] = {}
        self.sent = 0
        self._running: dict[str, tuple[threading.Thread, threading.Event]] = {}
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})

    def join(self, name: str, client: Client) -> None:
        stop = threading.Event()

        def note(partition: int, offset: int) -> None:
            self.seen[partition].add(offset)
            self.last[name] = time.monotonic()

        words = (self.broker.bootstrap, self.topic, self.group, note, stop)
        thread = threading.Thread(target=client.run_member, args=words, daemon=True)
        thread.start()
        self._running[name] = (thread, stop)

    def leave(self, name: str) -> None:
        thread, stop = self._running.pop(name)
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), name

    def send(self) -> None:
        for number in range(PARTITIONS * 2):
            self._producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
        assert self._producer.flush(PATIENCE_S) == 0
        self.sent += PARTITIONS * 2

    def share(self) -> None:
        """Records come until everybody who is there has read some, and nothing is left over."""
        since, end = time.monotonic(), time.monotonic() + PATIENCE_S
        while any(self.last.get(name, 0.0) < since for name in self._running):
            assert time.monotonic() < end, (
                f"these read nothing: {[n for n in self._running if self.last.get(n, 0) < since]}"
            )
            self.send()
            time.sleep(0.2)
        while sum(map(len, self.seen.values())) < self.sent:
            assert time.monotonic() < end, f"{self.seen}: not all of {self.sent}"
            time.sleep(0.02)

    def group_type(self) -> ConsumerGroupType:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        found = admin.list_consumer_groups().result(PATIENCE_S).valid
        return next(each.type for each in found if each.group_id == self.group)

    def close(self) -> None:
        for name in tuple(self._running):
            self.leave(name)


@pytest.fixture
def readers(quick: BrokerProcess, topic: str) -> Iterator[Readers]:
    with contextlib.closing(Readers(quick, topic, f"group-{topic}")) as made:
        yield made


@pytest.mark.parametrize(
    "client", [each for each in CLIENTS if each.name != "confluent-kafka"], ids=lambda each: each.name
)
def test_a_classic_group_lives_on_beside_a_member_of_the_new_protocol(
    client: Client, readers: Readers
) -> None:
    """Its members do not know of the other protocol: the group changes to it under them, and back."""
    if not is_here(client):
        pytest.skip(f"{client.name} is not installed")
    readers.join("old one", client)
    readers.join("old two", client)
    readers.share()
    assert readers.group_type() is ConsumerGroupType.CLASSIC
    readers.join("new", NewProtocol())
    readers.share()
    assert readers.group_type() is ConsumerGroupType.CONSUMER
    readers.leave("old one")
    readers.share()
    readers.leave("new")
    readers.share()
    assert readers.group_type() is ConsumerGroupType.CLASSIC


def test_members_of_two_clients_rebalance_cooperatively_in_one_group(readers: Readers) -> None:
    readers.join("librdkafka", Cooperative())
    readers.join("kafka-python", CooperativePython())
    readers.share()
    readers.join("another", Cooperative())
    readers.share()
    readers.leave("librdkafka")
    readers.share()
    assert readers.group_type() is ConsumerGroupType.CLASSIC


class Callbacks:
    """A member that assigns by itself, step by step, and commits what it gives up."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str) -> None:
        self.owned: set[int] = set()
        self.given_up: list[int] = []
        self.committed: list[tuple[KafkaError | None, int]] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "on_commit": self._on_commit,
            }
        )
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        self.owned |= {each.partition for each in partitions}

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = [each for each in consumer.position(partitions) if each.offset >= 0]
        if places:
            consumer.commit(offsets=places, asynchronous=False)
        consumer.incremental_unassign(partitions)
        self.owned -= {each.partition for each in partitions}
        self.given_up += [each.partition for each in partitions]

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self.committed += [(error, each.partition) for each in partitions]


def poll(members: list[Callbacks], until: Callable[[], bool], read: list[tuple[int, int]]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, [member.owned for member in members]
        for member in members:
            message = member.consumer.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                read.append((message.partition(), message.offset()))


def test_callbacks_move_only_what_moves_and_nothing_is_read_twice(quick: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": quick.bootstrap})

    def send(count: int) -> None:
        for number in range(count * PARTITIONS):
            producer.produce(topic, b"x", partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0

    read: list[tuple[int, int]] = []
    send(5)
    first = Callbacks(quick, topic, f"group-{topic}")
    poll([first], lambda: len(read) == 5 * PARTITIONS, read)
    first.consumer.commit(asynchronous=True)
    poll([first], lambda: len(first.committed) == PARTITIONS, read)
    assert all(error is None for error, _ in first.committed)

    second = Callbacks(quick, topic, f"group-{topic}")
    both = [first, second]
    poll(both, lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2, read)
    assert len(first.given_up) == PARTITIONS // 2, "it kept the others all along"
    assert first.owned | second.owned == set(range(PARTITIONS))
    send(5)
    poll(both, lambda: len(read) == 10 * PARTITIONS, read)
    second.consumer.close()
    poll([first], lambda: first.owned == set(range(PARTITIONS)), read)
    send(1)
    poll([first], lambda: len(read) == 11 * PARTITIONS, read)
    assert len(set(read)) == len(read), "what was committed on the way out is not read again"
    first.consumer.close()
    committed = Consumer({"bootstrap.servers": quick.bootstrap, "group.id": f"group-{topic}"})
    places = committed.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], PATIENCE_S)
    assert {each.offset for each in places} == {11}
    committed.close()
