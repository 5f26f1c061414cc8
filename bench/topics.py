"""Measures the administration of many topics, and two clients that send many small requests at once.

    python bench/topics.py [--topics 10000] [--strays 10000]

The parts, in their order:

* One write has 1,200 Produce requests of one record, beside a Fetch that waits for the first record.
* The topics are created. Then a topic with 2,000 partitions is created, until their names are on the device.
* librdkafka sends one record to each topic.
* One write has 3,000 Metadata requests for all topics, beside a neighbour.
* 500 topics are deleted, and the broker is killed.
* The broker starts with directories of topics that do not exist (strays).
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from measure import Bench

from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import fetch, metadata, produce
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.testing.broker_process import BrokerProcess

TOPICS_PER_REQUEST = 1000
NEW_PARTITIONS = 2_000
DELETED_TOPICS = 500
METADATA_REQUESTS = 3_000
PRODUCE_REQUESTS = 1_200
ROUNDS = 6
PING_EVERY_SECONDS = 0.005


class Topics(Bench):
    """One broker and its topics."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        super().__init__(broker, 1)
        self.names = [f"topic-{number}" for number in range(count)]

    @property
    def data(self) -> Path:
        return self.broker.directory / "data"

    def create(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        began = time.monotonic()
        for first in range(0, len(self.names), TOPICS_PER_REQUEST):
            wanted = [NewTopic(name, 1, 1) for name in self.names[first : first + TOPICS_PER_REQUEST]]
            for created in admin.create_topics(wanted, request_timeout=60).values():
                created.result(120)
        self.add(f"create {len(self.names)} topics", time.monotonic() - began, "s")
        began = time.monotonic()
        self.topic("wide", NEW_PARTITIONS)
        longest = asyncio.run(self._longest_ping_until(self._wide_is_named))
        self.add(
            f"{NEW_PARTITIONS} partitions, until their names are on the device", time.monotonic() - began, "s"
        )
        self.add("  meanwhile the longest delay of a neighbour", longest * 1000, "ms")

    def _wide_is_named(self) -> bool:
        return all(
            (self.data / f"wide-{nth}" / "partition.metadata").exists() for nth in range(NEW_PARTITIONS)
        )

    async def _longest_ping_until(self, is_over: object) -> float:
        assert callable(is_over)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.broker.port)
        request = metadata.MetadataRequest(topics=())
        longest = 0.0
        while not is_over():
            began = time.monotonic()
            writer.write(codec.encode_request(request, ApiKey.METADATA, 12, 1, "neighbour"))
            await _answer(reader)
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(PING_EVERY_SECONDS)
        writer.close()
        return longest

    def one_record_each(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        began, cpu_s = time.monotonic(), self.cpu_s()
        for name in self.names:
            producer.produce(name, b"x")
            producer.poll(0)
        left = producer.flush(600)
        self.add("one record of librdkafka to each topic", time.monotonic() - began, "s")
        self.add("  CPU of the broker", self.cpu_s() - cpu_s, "s")
        self.add("  records that were not delivered", left, "records", "0")

    def pipelined_metadata(self) -> None:
        async def run() -> None:
            done = False

            async def attack() -> None:
                nonlocal done
                frame = codec.encode_request(
                    metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12, 1, "hostile"
                )
                reader, writer = await asyncio.open_connection("127.0.0.1", self.broker.port)
                writer.write(frame * METADATA_REQUESTS)
                for _ in range(METADATA_REQUESTS):
                    await _answer(reader)
                writer.close()
                done = True

            attacking = asyncio.create_task(attack())
            longest = await self._longest_ping_until(lambda: done)
            await attacking
            self.add(
                f"{METADATA_REQUESTS} Metadata in one write: longest delay of a neighbour",
                longest * 1000,
                "ms",
            )

        asyncio.run(run())

    def parked_fetch(self) -> None:
        rounds = [asyncio.run(self._parked_round(self.topic(f"parked-{nth}", 1))) for nth in range(ROUNDS)]
        self.add("a parked Fetch beside 1,200 Produce: first round", rounds[0][0] * 1000, "ms")
        self.add(
            "  median of the later rounds", statistics.median(each[0] for each in rounds[1:]) * 1000, "ms"
        )
        self.add("  records in its answer: median", statistics.median(each[1] for each in rounds), "records")

    async def _parked_round(self, name: str) -> tuple[float, int]:
        """Returns the time from the Produce requests to the answer of the Fetch, and the records in this answer."""
        parked, waiting = await asyncio.open_connection("127.0.0.1", self.broker.port)
        wants = fetch.FetchPartition(partition=0, partition_max_bytes=1_000_000)
        request = fetch.FetchRequest(
            max_wait_ms=30_000,
            min_bytes=1,
            max_bytes=1_000_000,
            session_epoch=-1,
            topics=(fetch.FetchTopic(topic=name, partitions=(wants,)),),
        )
        waiting.write(codec.encode_request(request, ApiKey.FETCH, 12, 1, "parked"))
        await asyncio.sleep(1)
        batch = encode_batch([Record(-1, int(time.time() * 1000), None, b"x")])
        data = produce.PartitionProduceData(index=0, records=batch)
        topic = produce.TopicProduceData(name=name, partition_data=(data,))
        sent = produce.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=(topic,))
        _reader, writer = await asyncio.open_connection("127.0.0.1", self.broker.port)
        frame = codec.encode_request(sent, ApiKey.PRODUCE, 9, 1, "hostile")
        began = time.monotonic()
        writer.write(frame * PRODUCE_REQUESTS)
        answer = await _answer(parked)
        seconds = time.monotonic() - began
        writer.close()
        waiting.close()
        return seconds, answer.count(batch[17:57])

    def delete_and_kill(self) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        for deleted in admin.delete_topics(self.names[:DELETED_TOPICS], request_timeout=60).values():
            deleted.result(120)
        self.broker.kill()
        self.broker.start()
        time.sleep(5)
        left = sum((self.data / f"{name}-0").exists() for name in self.names[:DELETED_TOPICS])
        strays = sum(path.name.endswith("-stray") for path in self.data.iterdir())
        self.add(
            f"{DELETED_TOPICS} topics deleted, then kill -9: directories left", left + strays, "dirs", "0"
        )

    def start_with_strays(self, count: int) -> None:
        self.broker.stop()
        pattern = self.data / "topic-9-0" if (self.data / "topic-9-0").exists() else self.data / "wide-0"
        for number in range(count):
            shutil.copytree(pattern, self.data / f"stray-{number}-0")
        began = time.monotonic()
        self.broker.start()
        self.add(f"start with {count} strays", time.monotonic() - began, "s")


async def _answer(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--strays", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as name:
        broker = BrokerProcess(name)
        broker.ready_timeout_seconds = 600
        bench = Topics(broker, options.topics)
        broker.start()
        try:
            bench.parked_fetch()
            bench.create()
            bench.one_record_each()
            bench.pipelined_metadata()
            bench.delete_and_kill()
            bench.start_with_strays(options.strays)
        finally:
            if broker.process is not None:
                broker.kill()


if __name__ == "__main__":
    main()
