"""The load of bench/soak.py: each class is one kind of client, which works in its own thread until it is stopped.

Producers write to the *verified* topics. A ledger marks each record that was acknowledged, and each record that a
reader has seen. The readers are an auditor, which reads all partitions, a classic group and a KIP-848 group. Records
that every reader has seen are deleted, so the size of these topics does not grow.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kcli.protocol.messages import api_versions
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey

PLAIN, TRANSACTED = "verified-plain", "verified-transacted"
VERIFIED = (PLAIN, TRANSACTED)
COMPACTED, SHORT_LIVED = "compacted", "short-lived"
PARTITIONS = 4
COMPACTED_PARTITIONS = 2
VERIFIED_PARTITIONS = [TopicPartition(topic, each) for topic in VERIFIED for each in range(PARTITIONS)]
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
TOPICS = [
    *(NewTopic(topic, PARTITIONS, 1, config=SMALL_SEGMENTS) for topic in VERIFIED),
    NewTopic(
        COMPACTED,
        COMPACTED_PARTITIONS,
        1,
        config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", **SMALL_SEGMENTS},
    ),
    NewTopic(SHORT_LIVED, 2, 1, config={"retention.ms": "20000", **SMALL_SEGMENTS}),
]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUPS = {"classic": {}, "KIP-848": {"group.protocol": "consumer"}}
AUDITOR = "auditor"
READERS = (AUDITOR, *GROUPS)
MEMBERS = 3
PRODUCERS = 2
KEYS = 500
TIMEOUT_S = 60.0
PRODUCER_LIFE_S = (10.0, 30.0)
MEMBER_LIFE_S = (5.0, 25.0)
QUIET = {"log_level": 0}


class Ledger:
    """The fate of each record of the verified topics, and the errors of all clients.

    A record has a number, which is its whole value. Each field has one byte per record, by its number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self.acknowledged = bytearray()
        self.aborted = bytearray()
        self.seen = {reader: bytearray() for reader in READERS}
        self.audited: dict[
            tuple[str, int], int
        ] = {}  # the offset after the last record that the auditor has seen
        self.errors: list[str] = []
        self.done: Counter[str] = Counter()

    def next_number(self) -> int:
        with self._lock:
            for each in (self.acknowledged, self.aborted, *self.seen.values()):
                each.append(0)
            return next(self._numbers)

    def saw(self, reader: str, message: Message) -> None:
        number = int(message.value().partition(b" ")[0])
        self.seen[reader][number] = 1

    def error(self, client: str, error: object) -> None:
        self.errors.append(f"{time.strftime('%H:%M:%S')} {client}: {error}")

    def lost(self, reader: str) -> int:
        """The number of records that were acknowledged, and that a reader has not seen."""
        return sum(map(int.__gt__, self.acknowledged, self.seen[reader]))

    def seen_aborted(self, reader: str) -> int:
        """The number of records of aborted transactions that a reader has seen."""
        return sum(map(int.__and__, self.aborted, self.seen[reader]))


class Worker(threading.Thread):
    """Calls `rounds` until it is stopped. An exception is an error of the soak, and ends the worker."""

    def __init__(self, name: str, bootstrap: str, ledger: Ledger) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.ledger = ledger
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception:
            self.ledger.error(self.name, traceback.format_exc())

    def work(self) -> None:
        raise NotImplementedError

    def settings(self, **more: object) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap,
            **QUIET,
            **{k.replace("_", "."): v for k, v in more.items()},
        }

    def life(self, least_s: float, most_s: float) -> Iterator[None]:
        """Yields until a random time has passed, or until the worker is stopped."""
        until = time.monotonic() + random.uniform(least_s, most_s)
        while time.monotonic() < until and not self.stopping.is_set():
            yield


class PlainProducer(Worker):
    """An idempotent producer with each codec in turn. It starts again every 10 to 30 seconds."""

    def work(self) -> None:
        for compression in cycle(CODECS):
            producer = Producer(
                self.settings(enable_idempotence=True, compression_type=compression, linger_ms=20)
            )
            for _ in self.life(*PRODUCER_LIFE_S):
                for _ in range(10):
                    number = self.ledger.next_number()
                    producer.produce(
                        PLAIN,
                        b"%d %b" % (number, b"x" * random.randrange(500)),
                        on_delivery=self._delivered(number),
                    )
                producer.poll(0)
                self.stopping.wait(0.02)
            if producer.flush(TIMEOUT_S):
                self.ledger.error(self.name, "records were not acknowledged in time")
            self.ledger.done["producers"] += 1
            if self.stopping.is_set():
                return

    def _delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self.ledger.error(self.name, error)
            else:
                self.ledger.acknowledged[number] = 1

        return delivered


class TransactionalProducer(Worker):
    """Runs transactions of 20 records. Every fourth one is aborted."""

    def work(self) -> None:
        self.transactions = count()
        while not self.stopping.is_set():
            producer = Producer(self.settings(transactional_id=self.name, compression_type="lz4"))
            producer.init_transactions(TIMEOUT_S)
            for _ in self.life(*PRODUCER_LIFE_S):
                self._transaction(producer)
                self.stopping.wait(0.1)

    def _transaction(self, producer: Producer) -> None:
        numbers = [self.ledger.next_number() for _ in range(20)]
        producer.begin_transaction()
        for number in numbers:
            producer.produce(TRANSACTED, b"%d" % number)
        if next(self.transactions) % 4:
            producer.commit_transaction(TIMEOUT_S)
            fate = self.ledger.acknowledged
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            fate = self.ledger.aborted
        for number in numbers:
            fate[number] = 1
        self.ledger.done["transactions"] += 1


class OtherProducer(Worker):
    """Overwrites the keys of the compacted topic, and fills the topic whose records live for 20 seconds."""

    def __init__(self, name: str, bootstrap: str, ledger: Ledger) -> None:
        super().__init__(name, bootstrap, ledger)
        self.last: dict[bytes, bytes] = {}  # the value of each key that was acknowledged last

    def work(self) -> None:
        producer = Producer(self.settings(enable_idempotence=True, linger_ms=20))
        for number in count():
            if self.stopping.is_set():
                break
            key = b"key-%d" % random.randrange(KEYS)
            producer.produce(COMPACTED, b"%d %b" % (number, b"x" * 500), key=key, on_delivery=self._delivered)
            producer.produce(SHORT_LIVED, b"x" * 1000, on_delivery=self._delivered)
            producer.poll(0)
            if number % 10 == 0:
                self.stopping.wait(0.02)
        producer.flush(TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.ledger.error(self.name, error)
        elif message.topic() == COMPACTED:
            self.last[message.key()] = message.value()


class Auditor(Worker):
    """Reads every partition of the verified topics from its beginning."""

    def work(self) -> None:
        consumer = Consumer(
            self.settings(group_id="auditor", isolation_level="read_committed", enable_auto_commit=False)
        )
        consumer.assign([TopicPartition(topic, each, 0) for topic in VERIFIED for each in range(PARTITIONS)])
        while not self.stopping.is_set():
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    self.ledger.error(self.name, message.error())
                else:
                    self.ledger.saw(self.name, message)
                    self.ledger.audited[message.topic(), message.partition()] = message.offset() + 1
        consumer.close()


class Member(Worker):
    """A member of a group: joins, reads for 5 to 25 seconds, commits, leaves, and joins again."""

    def __init__(self, name: str, bootstrap: str, ledger: Ledger, group: str) -> None:
        super().__init__(name, bootstrap, ledger)
        self.group = group

    def work(self) -> None:
        while not self.stopping.is_set():
            consumer = Consumer({
                **self.settings(group_id=self.group, isolation_level="read_committed", auto_offset_reset="earliest"),
                **GROUPS[self.group], "enable.auto.commit": False,
            })  # fmt: skip
            consumer.subscribe([*VERIFIED, SHORT_LIVED])
            for _ in self.life(*MEMBER_LIFE_S):
                self._read(consumer)
            consumer.close()
            self.ledger.done[f"members of the {self.group} group"] += 1

    def _read(self, consumer: Consumer) -> None:
        messages = consumer.consume(500, 0.2)
        for message in messages:
            if message.error() is not None:
                self.ledger.error(self.name, message.error())
            elif message.topic() in VERIFIED:
                self.ledger.saw(self.group, message)
        if messages:
            _commit(consumer)


def _commit(consumer: Consumer) -> None:
    """Commits. A rebalance may have given the partitions to another member, which then reads the records again."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in COMMIT_LATER:
            raise


COMMIT_LATER = {
    KafkaError._NO_OFFSET,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}


class Connector(Worker):
    """Opens connections, and drops them in each state: unused, served, with half a request, and with a reset."""

    def work(self) -> None:
        request = api_versions.ApiVersionsRequest(client_software_name="soak", client_software_version="1")
        frame = codec.encode_request(request, ApiKey.API_VERSIONS, 3, 1, "soak")
        host, _, port = self.bootstrap.partition(":")
        for number in count():
            if self.stopping.wait(0.05):
                return
            with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
                if number % 4 == 1:
                    connection.sendall(frame)
                    connection.recv(4096)
                elif number % 4 == 2:
                    connection.sendall(frame[: len(frame) // 2])
                elif number % 4 == 3:
                    connection.sendall(frame * 10)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.ledger.done["connections"] += 1


class TopicMaker(Worker):
    """Creates a topic, writes to it, and deletes it."""

    def work(self) -> None:
        admin = AdminClient(self.settings())
        for number in count():
            if self.stopping.wait(2):
                return
            name = f"passing-{number}"
            admin.create_topics([NewTopic(name, 8, 1)])[name].result(TIMEOUT_S)
            producer = Producer(self.settings())
            for partition in range(8):
                producer.produce(name, b"x" * 100, partition=partition)
            if producer.flush(TIMEOUT_S):
                self.ledger.error(self.name, f"{name}: records were not acknowledged in time")
            admin.delete_topics([name])[name].result(TIMEOUT_S)
            self.ledger.done["topics"] += 1


class Administrator(Worker):
    """Describes and lists, changes a config, and deletes the records that every reader has seen."""

    def work(self) -> None:
        admin = AdminClient(self.settings())
        readers = [Consumer(self.settings(group_id=group)) for group in GROUPS]
        for number in count():
            if self.stopping.wait(2):
                break
            self._look(admin)
            entry = ConfigEntry(
                "max.message.bytes", str(1_000_000 + number % 2), incremental_operation=AlterConfigOpType.SET
            )
            changed = ConfigResource(ResourceType.TOPIC, SHORT_LIVED, incremental_configs=[entry])
            admin.incremental_alter_configs([changed])[changed].result(TIMEOUT_S)
            read = [reader.committed(VERIFIED_PARTITIONS, TIMEOUT_S) for reader in readers]
            ends = [self._all_have_read(offsets) for offsets in zip(*read, strict=True)]
            if wanted := [end for end in ends if end.offset > 0]:
                for deleted in admin.delete_records(wanted).values():
                    deleted.result(TIMEOUT_S)
            self.ledger.done["rounds of admin calls"] += 1
        for reader in readers:
            reader.close()

    def _look(self, admin: AdminClient) -> None:
        admin.list_topics(timeout=TIMEOUT_S)
        admin.list_consumer_groups().result(TIMEOUT_S)
        resource = ConfigResource(ResourceType.TOPIC, SHORT_LIVED)
        futures = [
            *admin.describe_configs([resource]).values(),
            *admin.describe_consumer_groups(list(GROUPS)).values(),
            *admin.list_offsets({each: OffsetSpec.latest() for each in VERIFIED_PARTITIONS}).values(),
        ]
        for future in futures:
            future.result(TIMEOUT_S)

    def _all_have_read(self, committed: tuple[TopicPartition, ...]) -> TopicPartition:
        """Returns the offset of one partition before which every reader has seen every record."""
        topic, partition = committed[0].topic, committed[0].partition
        audited = self.ledger.audited.get((topic, partition), 0)
        return TopicPartition(topic, partition, min(audited, *(each.offset for each in committed)))


@dataclass(frozen=True, slots=True)
class Load:
    """All clients, by the order in which they are stopped."""

    writers: list[Worker]
    others: list[Worker]
    keys: OtherProducer

    @classmethod
    def of(cls, bootstrap: str, ledger: Ledger) -> Load:
        keys = OtherProducer("keys", bootstrap, ledger)
        writers: list[Worker] = [keys]
        for number in range(PRODUCERS):
            writers.append(PlainProducer(f"plain-{number}", bootstrap, ledger))
            writers.append(TransactionalProducer(f"transactional-{number}", bootstrap, ledger))
        others: list[Worker] = [
            Member(f"{group}-{number}", bootstrap, ledger, group)
            for group in GROUPS
            for number in range(MEMBERS)
        ]
        others.append(Auditor(AUDITOR, bootstrap, ledger))
        others += [kind(kind.__name__, bootstrap, ledger) for kind in (Connector, TopicMaker, Administrator)]
        return cls(writers, others, keys)

    def start(self) -> None:
        for worker in (*self.others, *self.writers):
            worker.start()

    def stop(self, ledger: Ledger) -> None:
        """Stops the writers, waits until the readers have seen every record, and stops the others."""
        _stop(self.writers, ledger)
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until and any(ledger.lost(reader) for reader in ledger.seen):
            time.sleep(1)
        _stop(self.others, ledger)


def _stop(workers: list[Worker], ledger: Ledger) -> None:
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.join(2 * TIMEOUT_S)
        if worker.is_alive():
            ledger.error(worker.name, "it does not end")


def read_keys(bootstrap: str) -> dict[bytes, bytes]:
    """Reads the compacted topic. Returns the last value of each key."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": AUDITOR, **QUIET})
    partitions = [TopicPartition(COMPACTED, each, 0) for each in range(COMPACTED_PARTITIONS)]
    consumer.assign(partitions)
    values: dict[bytes, bytes] = {}
    ends = [consumer.get_watermark_offsets(each)[1] for each in partitions]
    while [each.offset for each in consumer.position(partitions)] != ends:
        for message in consumer.consume(1000, 0.2):
            values[message.key()] = message.value()
    consumer.close()
    return values
