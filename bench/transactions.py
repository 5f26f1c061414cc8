"""Transactions per second, and what read_committed costs beside read_uncommitted, on a broker of its own.

    python bench/transactions.py [--seconds 5] [--records 1000000]

Producers and consumers are confluent-kafka's. The broker runs on the first core, the clients on the rest. The cost of
reading committed is the ratio of two reads of one topic, run in turn several times: the minimum of each is compared.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from run import PARTITIONS, Bench, _pinned

from kcli.testing.broker_process import BrokerProcess

TIMEOUT = 30
READS = 5


def transactional(bench: Bench, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bench.broker.bootstrap, "transactional.id": name, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT)
    return producer


def rate(bench: Bench, producers: int, records: int, partitions: int, seconds: float) -> None:
    """Commits one after the other in each of `producers` threads; each transaction writes `records` of 100 bytes."""
    topic = bench.topic(f"rate-{producers}-{records}-{partitions}", partitions)
    started = [transactional(bench, f"{topic}-{number}") for number in range(producers)]
    counts = [0] * producers

    def work(number: int) -> None:
        producer, value = started[number], b"x" * 100
        while time.perf_counter() < until:
            producer.begin_transaction()
            for nth in range(records):
                producer.produce(topic, value, partition=nth % partitions)
            producer.commit_transaction(TIMEOUT)
            counts[number] += 1

    cpu, begun = bench.cpu_s(), time.perf_counter()
    until = begun + seconds
    threads = [threading.Thread(target=work, args=(number,)) for number in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, cpu, done = time.perf_counter() - begun, bench.cpu_s() - cpu, sum(counts)
    name = f"{producers} producers" if producers > 1 else "1 producer"
    what = f"{name}, {records} records in {partitions} partitions"
    bench.add(f"{what}: rate", done / took, "tx/s")
    bench.add(f"{what}: broker CPU", cpu / done * 1000, "CPU-ms/tx")


def fill(bench: Bench, records: int, per_transaction: int) -> str:
    """A topic of transactions of 100-byte records, one in ten of them aborted."""
    topic = bench.topic(f"filled-{per_transaction}")
    producer, value = transactional(bench, f"filler-{per_transaction}"), b"x" * 100
    for number in range(records // per_transaction):
        producer.begin_transaction()
        for nth in range(per_transaction):
            producer.produce(topic, value, partition=nth % PARTITIONS)
        if number % 10 == 9:
            producer.flush()
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
    return topic


def read(bench: Bench, topic: str, isolation: str) -> tuple[float, float, int]:
    """Seconds, broker CPU seconds, records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bench.broker.bootstrap,
            "group.id": "bench",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.min.messages": 1_000_000,
        }
    )
    cpu, begun = bench.cpu_s(), time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    seen, ended = 0, set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(10_000, 0.1):
            if message.error() is None:
                seen += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    took, cpu = time.perf_counter() - begun, bench.cpu_s() - cpu
    consumer.close()
    return took, cpu, seen


def isolation_cost(bench: Bench, records: int, per_transaction: int) -> None:
    topic = fill(bench, records, per_transaction)
    levels = ("read_uncommitted", "read_committed")
    runs = {level: [read(bench, topic, level) for _ in range(READS)] for level in levels}
    name = f"read, {per_transaction} records a transaction"
    for level in levels:
        rates = [seen / took for took, _, seen in runs[level]]
        cpus = [cpu / records * 1e6 for _, cpu, _ in runs[level]]
        bench.add(f"{name}, {level}", max(rates) / 1000, "k msg/s")
        bench.add(f"{name}, {level}: broker CPU", min(cpus), "CPU-s/M msg")
    took = [min(run[0] for run in runs[level]) for level in levels]
    bench.add(f"{name}: time committed/uncommitted", took[1] / took[0], "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{'figure':<64}{'value':>14} unit")
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as name, BrokerProcess(Path(name)) as broker:
        bench = Bench(broker, options.records)
        with _pinned(broker):
            for producers, records in itertools.product((1, 8), (1, 100)):
                rate(bench, producers, records, PARTITIONS, options.seconds)
            for per_transaction in (10, 1000):
                isolation_cost(bench, options.records * per_transaction // 1000, per_transaction)


if __name__ == "__main__":
    main()
