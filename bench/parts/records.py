"""The parts `data`, `requests` and `latency`: small records over few connections."""

from __future__ import annotations

import statistics
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from measure import Bench

from parts.clients import consume, make_offsets_topic, produce

ONE_BY_ONE = 100_000
LATENCY_SECONDS = 5


def data(bench: Bench) -> None:
    bootstrap = bench.broker.bootstrap
    make_offsets_topic(bootstrap)
    for size in (100, 1000):
        records = bench.records if size == 100 else bench.records // 5
        topic = bench.topic(f"size-{size}")
        name = f"produce {size} B acks=all"
        bench.load(
            name, records, lambda t=topic, s=size, n=records: produce(bootstrap, t, s, n), "<= 0.3x Kafka"
        )
        work = lambda t=topic, n=records: consume(bootstrap, t, n)  # noqa: E731
        bench.load(f"consume {size} B", records, work, "<= 0.5x Kafka")


def one_message_requests(bench: Bench) -> None:
    topic, settings = bench.topic("one-by-one", 1), {"batch.num.messages": 1, "linger.ms": 0}
    bench.load(
        "one-message requests",
        ONE_BY_ONE,
        lambda: produce(bench.broker.bootstrap, topic, 100, ONE_BY_ONE, settings=settings),
        "<= 0.5x Kafka",
    )


def latency(bench: Bench) -> None:
    for rate, goal in ((100, ""), (5000, "< Kafka")):
        topic = bench.topic(f"latency-{rate}", 1)
        ordered = sorted(end_to_end_ms(bench.broker.bootstrap, topic, rate, LATENCY_SECONDS))
        bench.add(f"end to end at {rate} msg/s: p50", statistics.median(ordered), "ms", goal)
        bench.add(f"end to end at {rate} msg/s: p99", ordered[int(len(ordered) * 0.99)], "ms", goal)


def end_to_end_ms(bootstrap: str, topic: str, rate: int, seconds: float) -> list[float]:
    latencies: list[float] = []
    count = int(rate * seconds)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def read() -> None:
        while len(latencies) < count:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                latencies.append((time.perf_counter_ns() - int(message.value())) / 1e6)

    reader = threading.Thread(target=read)
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    begun = time.perf_counter()
    for number in range(count):
        ahead = begun + number / rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        producer.produce(topic, b"%d" % time.perf_counter_ns())
        producer.poll(0)
    producer.flush()
    reader.join()
    consumer.close()
    # The first second is left out, because connections and caches are cold.
    return latencies[rate:]
