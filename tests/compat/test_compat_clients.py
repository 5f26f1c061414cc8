"""Real clients over real sockets: what one writes, every other reads, and groups share the work."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import CLIENTS, CODECS, Client, Confluent, Sent, is_here

pytestmark = pytest.mark.compat

START_MS = 1_760_000_000_000


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    if not is_here(found):
        pytest.skip(f"{found.name} is not installed")
    return found


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.translate(str.maketrans("[]_", "---")).strip("-")
    create_topic(broker.bootstrap, name, 1)
    yield name


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)


def _records(codec: str) -> list[Sent]:
    """Keys and values of every kind and size; kcat's separators are left out of them."""
    return [
        Sent(b"key", b"value"),
        Sent(None, b"no key"),
        Sent(b"tombstone", None),
        Sent(b"k", b"x"),
        Sent(b"headers", b"v", (("a", b"1"), ("b", b"two"), ("a", b"3"))),
        Sent("ключ".encode(), "日本 ☃".encode()),
        Sent(b"big", bytes(range(65, 91)) * (900_000 // 26)),
    ] + [Sent(b"%d" % number, f"{codec} {number} ".encode() * 20) for number in range(20)]


@pytest.mark.parametrize("codec", CODECS)
def test_produce_and_consume(client: Client, codec: str, broker: BrokerProcess, topic: str) -> None:
    records = _records(codec)
    client.produce(broker.bootstrap, topic, records, codec)
    for reader in {client, CLIENTS[0]}:
        got = reader.consume(broker.bootstrap, topic, len(records))
        assert [record.offset for record in got] == list(range(len(records)))
        for sent, read in zip(records, got, strict=True):
            assert (read.key, read.value, read.headers) == (sent.key, sent.value, sent.headers), reader.name


def test_seek_by_timestamp(client: Client, broker: BrokerProcess, topic: str) -> None:
    records = [Sent(None, b"%d" % number, timestamp_ms=START_MS + number * 1000) for number in range(50)]
    Confluent().produce(broker.bootstrap, topic, records, "lz4")
    offset = client.offset_at(broker.bootstrap, topic, START_MS + 20_500)
    assert offset == 21
    (read,) = client.consume(broker.bootstrap, topic, 1, offset)
    assert (read.value, read.timestamp_ms) == (b"21", START_MS + 21_000)


def test_commit_and_resume(client: Client, broker: BrokerProcess, topic: str) -> None:
    Confluent().produce(broker.bootstrap, topic, [Sent(None, b"%d" % number) for number in range(30)], "none")
    group = f"resume-{client.name}"
    first = client.read_as_group(broker.bootstrap, topic, group, 10)
    second = client.read_as_group(broker.bootstrap, topic, group, 10)
    assert first == [b"%d" % number for number in range(10)]
    assert second == [b"%d" % number for number in range(10, 20)]


def test_three_members_share_a_topic_while_it_grows(client: Client, broker: BrokerProcess) -> None:
    """Members come and go; every record is read, and in the end nothing is left over."""
    topic, group = f"shared-{client.name}", f"sharers-{client.name}"
    create_topic(broker.bootstrap, topic, 6)
    seen: dict[int, set[int]] = defaultdict(set)
    readers: dict[int, set[int]] = defaultdict(set)
    total = 0

    def send(count: int) -> None:
        nonlocal total
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % 6)
        assert producer.flush(30) == 0
        total += count

    def start(number: int) -> tuple[threading.Thread, threading.Event]:
        stop = threading.Event()

        def note(partition: int, offset: int) -> None:
            seen[partition].add(offset)
            readers[number].add(partition)

        thread = threading.Thread(target=client.run_member, args=(broker.bootstrap, topic, group, note, stop))
        thread.start()
        return thread, stop

    def wait_for_all() -> None:
        deadline = time.monotonic() + 60
        while sum(map(len, seen.values())) < total and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sum(map(len, seen.values())) == total

    send(60)
    members = [start(0)]
    wait_for_all()
    members += [start(1), start(2)]
    deadline = time.monotonic() + 60
    while len(readers) < 3 and time.monotonic() < deadline:
        send(60)
        time.sleep(0.3)
    wait_for_all()
    assert len(readers) == 3, "all three members had work"
    members[0][1].set()
    members[0][0].join(60)
    send(60)
    wait_for_all()
    for thread, stop in members:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_a_group_survives_a_restart_of_the_broker(client: Client, tmp_path: Path) -> None:
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with BrokerProcess(tmp_path, overrides=overrides) as process:
        create_topic(process.bootstrap, "kept", 1)
        Confluent().produce(
            process.bootstrap, "kept", [Sent(None, b"%d" % number) for number in range(20)], "zstd"
        )
        first = client.read_as_group(process.bootstrap, "kept", "g", 8)
        process.restart()
        second = client.read_as_group(process.bootstrap, "kept", "g", 8)
    assert first + second == [b"%d" % number for number in range(16)]
