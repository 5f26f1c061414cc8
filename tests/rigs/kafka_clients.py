"""Four clients of other projects with the same few methods, so that every test runs with every client."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as a test wants it stored."""

    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Got:
    """A record as a client read it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


class Client(Protocol):
    name: str

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
        """Sends to partition 0 with acks=all, and waits for every acknowledgement."""

    def consume(self, bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Got]:
        """Reads `count` records of partition 0 from `offset` on."""

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int) -> int:
        """The offset of the first record of partition 0 at or after a time."""

    def read_as_group(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        """Joins, reads `count` values from the committed offset on, commits the offset after them, and leaves."""

    def run_member(
        self, bootstrap: str, topic: str, group: str, seen: Callable[[int, int], None], stop: threading.Event
    ) -> None:
        """Is a member of a group until `stop`. Calls `seen` with partition and offset of every record, and commits
        before it leaves."""


class Confluent:
    name = "confluent-kafka"

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
        from confluent_kafka import Producer

        failures: list[Any] = []
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all", "linger.ms": 5,
             "on_delivery": lambda error, message: failures.append(error) if error else None}
        )  # fmt: skip
        for record in records:
            producer.produce(topic, record.value, record.key, 0, headers=list(record.headers) or None,
                             timestamp=record.timestamp_ms or 0)  # fmt: skip
        assert producer.flush(PATIENCE_S) == 0
        assert failures == []

    def _consumer(self, bootstrap: str, **more: object) -> Any:
        from confluent_kafka import Consumer

        return Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "heartbeat.interval.ms": 500,
                         "check.crcs": True, **more})  # fmt: skip

    def consume(self, bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Got]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(bootstrap)
        consumer.assign([TopicPartition(topic, 0, offset)])
        got: list[Got] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(got), 1):
                assert message.error() is None, message.error()
                headers = tuple((name, value) for name, value in message.headers() or ())
                got.append(
                    Got(message.offset(), message.key(), message.value(), headers, message.timestamp()[1])
                )
        consumer.close()
        return got

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int) -> int:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(bootstrap)
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], PATIENCE_S)
        consumer.close()
        return int(found.offset)

    def read_as_group(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        consumer = self._consumer(bootstrap, **{"group.id": group})
        consumer.subscribe([topic])
        values: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value())
                consumer.commit(message, asynchronous=False)
        consumer.close()
        return values

    def run_member(
        self, bootstrap: str, topic: str, group: str, seen: Callable[[int, int], None], stop: threading.Event
    ) -> None:
        consumer = self._consumer(bootstrap, **{"group.id": group, "enable.auto.commit": True,
                                                "auto.commit.interval.ms": 200})  # fmt: skip
        consumer.subscribe([topic])
        while not stop.is_set():
            for message in consumer.consume(100, 0.2):
                if message.error() is None:
                    seen(message.partition(), message.offset())
        consumer.close()


def subscribe_kafka_python(consumer: Any, topic: str) -> None:
    """Subscribes, and waits until the client knows the topic, before the first poll joins the group.

    If a leader of kafka-python 3.0.12 joins too early, it assigns no partitions, and joins again when it gets the
    metadata. A poll between the answers to JoinGroup and SyncGroup then makes the client forget that it has joined. The
    member sends no heartbeats, reads nothing and never joins again, so its session times out.
    """
    consumer.subscribe([topic])
    while topic not in consumer.topics():
        time.sleep(0.05)


class KafkaPython:
    name = "kafka-python"

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5,
                                 compression_type=None if codec == "none" else codec)  # fmt: skip
        futures = [
            producer.send(
                topic, record.value, record.key, list(record.headers) or None, 0, record.timestamp_ms
            )
            for record in records
        ]
        producer.flush(PATIENCE_S)
        for future in futures:
            future.get(timeout=PATIENCE_S)
        producer.close()

    def _consumer(self, bootstrap: str, **more: Any) -> Any:
        from kafka import KafkaConsumer

        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "session_timeout_ms": 6000,
                   "heartbeat_interval_ms": 500, "request_timeout_ms": 30_000, **more}  # fmt: skip
        return KafkaConsumer(bootstrap_servers=bootstrap, **options)

    def consume(self, bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Got]:
        from kafka import TopicPartition

        consumer = self._consumer(bootstrap, fetch_max_bytes=52_428_800)
        part = TopicPartition(topic, 0)
        consumer.assign([part])
        consumer.seek(part, offset)
        got: list[Got] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < count and time.monotonic() < deadline:
            for message in consumer.poll(1000).get(part, []):
                headers = tuple((name, value) for name, value in message.headers)
                got.append(Got(message.offset, message.key, message.value, headers, message.timestamp))
        consumer.close()
        return got[:count]

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int) -> int:
        from kafka import TopicPartition

        consumer = self._consumer(bootstrap)
        part = TopicPartition(topic, 0)
        found = consumer.offsets_for_times({part: timestamp_ms})[part]
        consumer.close()
        return int(found.offset)

    def read_as_group(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        consumer = self._consumer(bootstrap, group_id=group, max_poll_records=1)
        subscribe_kafka_python(consumer, topic)
        values: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < count and time.monotonic() < deadline:
            for messages in consumer.poll(1000).values():
                values += [message.value for message in messages]
                consumer.commit()
        consumer.close()
        return values

    def run_member(
        self, bootstrap: str, topic: str, group: str, seen: Callable[[int, int], None], stop: threading.Event
    ) -> None:
        consumer = self._consumer(
            bootstrap, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=200
        )
        subscribe_kafka_python(consumer, topic)
        while not stop.is_set():
            for part, messages in consumer.poll(200).items():
                for message in messages:
                    seen(part.partition, message.offset)
        consumer.close()


class AioKafka:
    name = "aiokafka"

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
        from aiokafka import AIOKafkaProducer

        async def main() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5,
                                        compression_type=None if codec == "none" else codec)  # fmt: skip
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic, record.value, record.key, 0, record.timestamp_ms, list(record.headers)
                    )
                    for record in records
                ]
                await asyncio.gather(*futures)
            finally:
                await producer.stop()

        asyncio.run(main())

    def _consumer(self, bootstrap: str, *topics: str, **more: Any) -> Any:
        from aiokafka import AIOKafkaConsumer

        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "session_timeout_ms": 6000,
                   "heartbeat_interval_ms": 500, **more}  # fmt: skip
        return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **options)

    def consume(self, bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Got]:
        from aiokafka import TopicPartition

        async def main() -> list[Got]:
            consumer = self._consumer(bootstrap)
            await consumer.start()
            part = TopicPartition(topic, 0)
            consumer.assign([part])
            consumer.seek(part, offset)
            got: list[Got] = []
            try:
                while len(got) < count:
                    message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
                    headers = tuple((name, value) for name, value in message.headers)
                    got.append(Got(message.offset, message.key, message.value, headers, message.timestamp))
            finally:
                await consumer.stop()
            return got

        return asyncio.run(main())

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int) -> int:
        from aiokafka import TopicPartition

        async def main() -> int:
            consumer = self._consumer(bootstrap)
            await consumer.start()
            part = TopicPartition(topic, 0)
            found = (await consumer.offsets_for_times({part: timestamp_ms}))[part]
            await consumer.stop()
            return int(found.offset)

        return asyncio.run(main())

    def read_as_group(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        async def main() -> list[bytes]:
            consumer = self._consumer(bootstrap, topic, group_id=group)
            await consumer.start()
            values: list[bytes] = []
            try:
                while len(values) < count:
                    message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
                    values.append(message.value)
                    await consumer.commit()
            finally:
                await consumer.stop()
            return values

        return asyncio.run(main())

    def run_member(
        self, bootstrap: str, topic: str, group: str, seen: Callable[[int, int], None], stop: threading.Event
    ) -> None:
        async def main() -> None:
            consumer = self._consumer(
                bootstrap, topic, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=200
            )
            await consumer.start()
            try:
                while not stop.is_set():
                    for part, messages in (await consumer.getmany(timeout_ms=200)).items():
                        for message in messages:
                            seen(part.partition, message.offset)
            finally:
                await consumer.stop()

        asyncio.run(main())


class Kcat:
    """Debian's kcat with librdkafka 2.0. Keys and values in these tests contain no separator bytes."""

    name = "kcat"
    separator = "\x1e"
    end = "\x1d"

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
        for record in records:
            command = [
                "kcat",
                "-P",
                "-b",
                bootstrap,
                "-t",
                topic,
                "-p",
                "0",
                "-z",
                codec,
                "-X",
                "acks=all",
                "-Z",
            ]
            command += ["-D", self.end, "-K", self.separator]
            for name, value in record.headers:
                command += ["-H", f"{name}={value.decode()}"]
            text = (record.key or b"") + self.separator.encode() + (record.value or b"")
            subprocess.run(command, input=text, check=True, timeout=PATIENCE_S, capture_output=True)

    def consume(self, bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Got]:
        layout = self.separator.join(["%o", "%K", "%k", "%S", "%s", "%h", "%T"]) + self.end
        command = [
            "kcat",
            "-C",
            "-b",
            bootstrap,
            "-t",
            topic,
            "-p",
            "0",
            "-o",
            str(offset),
            "-c",
            str(count),
            "-f",
            layout,
            "-q",
        ]
        done = subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)
        return [self._got(line) for line in done.stdout.split(self.end.encode()) if line]

    def _got(self, line: bytes) -> Got:
        offset, key_size, key, size, value, headers, timestamp = line.split(self.separator.encode())
        pairs = tuple(pair.split("=", 1) for pair in headers.decode().split(",") if pair)
        return Got(
            int(offset),
            None if int(key_size) < 0 else key,
            None if int(size) < 0 else value,
            tuple((name, text.encode()) for name, text in pairs),
            int(timestamp),
        )

    def offset_at(self, bootstrap: str, topic: str, timestamp_ms: int) -> int:
        command = ["kcat", "-Q", "-b", bootstrap, "-t", f"{topic}:0:{timestamp_ms}"]
        done = subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True, text=True)
        return int(done.stdout.split("offset ")[-1].strip())

    def read_as_group(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        command = [
            "kcat",
            "-b",
            bootstrap,
            "-c",
            str(count),
            "-q",
            "-X",
            "auto.offset.reset=earliest",
            "-D",
            self.end,
        ]
        done = subprocess.run(
            [*command, "-G", group, topic], check=True, timeout=PATIENCE_S, capture_output=True
        )
        return [value for value in done.stdout.split(self.end.encode()) if value]

    def run_member(
        self, bootstrap: str, topic: str, group: str, seen: Callable[[int, int], None], stop: threading.Event
    ) -> None:
        command = ["kcat", "-b", bootstrap, "-q", "-u", "-f", "%p %o\n", "-X", "auto.offset.reset=earliest",
                   "-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500", "-G", group,
                   topic]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        threading.Thread(target=_end_on, args=(stop, process), daemon=True).start()
        with process:
            for line in process.stdout:
                partition, offset = line.split()
                seen(int(partition), int(offset))


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka(), Kcat())


def is_here(client: Client) -> bool:
    return client.name != "kcat" or shutil.which("kcat") is not None


def _end_on(stop: threading.Event, process: subprocess.Popen[bytes]) -> None:
    stop.wait()
    process.terminate()
