"""Starts a broker, and measures transactions per second and the cost of read_committed relative to read_uncommitted.

    python bench/transactions.py [--seconds 5] [--records 160000]

Producers and consumers are confluent-kafka's. The broker runs on the first core, and the clients on the others. A
producer of librdkafka waits about two milliseconds between a commit and the first request of the next transaction. So
its rate says little about the broker, but the latency of its commits does. The cost of read_committed is the median of
ratios: reads of one topic with both levels take turns.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, Producer, TopicPartition
from measure import HEADER, PARTITIONS, Bench, running

TIMEOUT = 30
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"
SAMPLES = 7
READS_A_SAMPLE = 4
"""The number of reads in a sample. With it, a sample takes about a second for any size of transactions."""
FILLERS = 8


def transactional(bench: Bench, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bench.broker.bootstrap, "transactional.id": name, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT)
    return producer


def together(works: Sequence[Callable[[], None]]) -> None:
    """Runs each function in a separate thread, and returns when all are done."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def rate(bench: Bench, producers: int, records: int, partitions: int, seconds: float) -> None:
    """Measures transactions per second: each of `producers` threads runs one transaction after the other.

    A transaction writes `records` records of 100 bytes.
    """
    topic = bench.topic(f"rate-{producers}-{records}-{partitions}", partitions)
    started = [transactional(bench, f"{topic}-{number}") for number in range(producers)]
    waits: list[list[float]] = [[] for _ in range(producers)]

    def work(number: int) -> None:
        producer, value = started[number], b"x" * 100
        while time.perf_counter() < until:
            producer.begin_transaction()
            for nth in range(records):
                producer.produce(topic, value, partition=nth % partitions)
            commits = time.perf_counter()
            producer.commit_transaction(TIMEOUT)
            waits[number].append(time.perf_counter() - commits)

    cpu, begun = bench.cpu_s(), time.perf_counter()
    until = begun + seconds
    together([partial(work, number) for number in range(producers)])
    took, cpu, done = time.perf_counter() - begun, bench.cpu_s() - cpu, sum(map(len, waits))
    name = f"{producers} producers" if producers > 1 else "1 producer"
    what = f"{name}, {records} records in {partitions} partitions"
    bench.add(f"{what}: rate", done / took, "tx/s")
    bench.add(f"{what}: commit, median", statistics.median(itertools.chain(*waits)) * 1000, "ms")
    bench.add(f"{what}: broker CPU", cpu / done * 1000, "CPU-ms/tx")


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic that is filled with transactions, and the number of records that consumers can read."""

    topic: str
    seen: dict[str, int]
    """The number of records that a consumer with each isolation level gets."""


def fill(bench: Bench, records: int, per_transaction: int) -> Filled:
    """Fills a topic with records of 100 bytes by several producers at a time.

    Each producer aborts every tenth transaction.
    """
    topic = bench.topic(f"filled-{per_transaction}")
    each = records // per_transaction // FILLERS
    producers = [transactional(bench, f"{topic}-{number}") for number in range(FILLERS)]

    def work(producer: Producer) -> None:
        value = b"x" * 100
        for number in range(each):
            producer.begin_transaction()
            for nth in range(per_transaction):
                producer.produce(topic, value, partition=nth % PARTITIONS)
            if number % 10 == 9:
                producer.flush()
                producer.abort_transaction(TIMEOUT)
            else:
                producer.commit_transaction(TIMEOUT)

    together([partial(work, producer) for producer in producers])
    written = FILLERS * each * per_transaction
    aborted = FILLERS * (each // 10) * per_transaction
    return Filled(topic, {UNCOMMITTED: written, COMMITTED: written - aborted})


class Reader:
    """A consumer that reads a topic from its start, again and again."""

    def __init__(self, bench: Bench, filled: Filled, isolation: str) -> None:
        self._bench = bench
        self._filled = filled
        self._isolation = isolation
        self._consumer = Consumer(
            {
                "bootstrap.servers": bench.broker.bootstrap,
                "group.id": "bench",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "queued.min.messages": 1_000_000,
            }
        )
        self.seconds: list[float] = []
        self.cpu_s = 0.0
        self.read_once()  # the first read is not measured, because it includes connections and metadata

    def read_once(self) -> None:
        self._consumer.assign([TopicPartition(self._filled.topic, each, 0) for each in range(PARTITIONS)])
        left = self._filled.seen[self._isolation]
        while left:
            left -= len(self._consumer.consume(min(left, 10_000), 1))

    def sample(self) -> None:
        cpu, begun = self._bench.cpu_s(), time.perf_counter()
        for _ in range(READS_A_SAMPLE):
            self.read_once()
        self.seconds.append((time.perf_counter() - begun) / READS_A_SAMPLE)
        self.cpu_s += self._bench.cpu_s() - cpu

    @property
    def rate(self) -> float:
        return self._filled.seen[self._isolation] / statistics.median(self.seconds)

    @property
    def cpu_s_per_million(self) -> float:
        reads = len(self.seconds) * READS_A_SAMPLE
        return self.cpu_s / (reads * self._filled.seen[self._isolation]) * 1e6

    def close(self) -> None:
        self._consumer.close()


def isolation_cost(bench: Bench, records: int, per_transaction: int) -> None:
    filled = fill(bench, records, per_transaction)
    readers = {level: Reader(bench, filled, level) for level in (UNCOMMITTED, COMMITTED)}
    for _ in range(SAMPLES):
        for reader in readers.values():
            reader.sample()
    name = f"read, {per_transaction} records a transaction"
    for level, reader in readers.items():
        bench.add(f"{name}, {level}", reader.rate / 1000, "k msg/s")
        bench.add(f"{name}, {level}: broker CPU", reader.cpu_s_per_million, "CPU-s/M msg")
        reader.close()
    pairs = zip(readers[COMMITTED].seconds, readers[UNCOMMITTED].seconds, strict=True)
    ratio = statistics.median(committed / uncommitted for committed, uncommitted in pairs)
    bench.add(f"{name}: time committed/uncommitted", ratio, "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--records", type=int, default=160_000, help="in each topic that is read")
    options = parser.parse_args()
    print(HEADER)
    with running(options.records) as bench:
        for producers, records in itertools.product((1, 8), (1, 100)):
            rate(bench, producers, records, PARTITIONS, options.seconds)
        for per_transaction in (10, 1000):
            isolation_cost(bench, options.records, per_transaction)


if __name__ == "__main__":
    main()
