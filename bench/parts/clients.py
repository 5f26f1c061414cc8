"""Producers and consumers of librdkafka: its program `rdkafka_performance` if it is on the PATH, else loops in Python.

Each function returns the seconds that the work took.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, Producer
from measure import on_client_cores

Settings = Mapping[str, object]
TIMEOUT_S = 600
NO_LOG = 0
"""The log level of clients, because their messages would mix with the table. Errors of records are raised."""
MORE_THAN_VALUE_BYTES = 10_000
"""What a request has besides one value."""
ROUND_BYTES = 10_000_000
"""A client written in Python looks after its queues each time it has passed on as many bytes."""


def produce(
    bootstrap: str,
    topic: str,
    size: int,
    count: int,
    *,
    partitions: int = 0,
    settings: Settings | None = None,
) -> float:
    """Produces `count` values of `size` bytes with acks=all, and waits for all acknowledgements.

    The records go round all `partitions`, or if it is 0, to partitions of the client's choice.
    """
    wanted = {
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "message.max.bytes": max(1_000_000, size + MORE_THAN_VALUE_BYTES),
        **(settings or {}),
    }
    if shutil.which("rdkafka_performance") and not partitions:
        arguments = ("-P", "-t", topic, "-s", str(size), "-c", str(count), "-b", bootstrap, "-a", "-1")
        return _rdkafka_performance(*arguments, *_options(wanted))
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": NO_LOG, **wanted})
    value = b"x" * size
    round_records = min(max(ROUND_BYTES // size, 1), 10_000)
    begun = time.perf_counter()
    for number in range(count):
        partition = number % partitions if partitions else -1
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.01)
        if number % round_records == 0:
            producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise SystemExit(f"{topic}: not every record was acknowledged after {TIMEOUT_S} s")
    return time.perf_counter() - begun


def consume(
    bootstrap: str, topic: str, count: int, group: str = "", *, settings: Settings | None = None
) -> float:
    """Reads `count` records with a consumer group, from the first records until the last one."""
    group = group or f"bench-{topic}"
    chosen = {"auto.offset.reset": "earliest", "queued.min.messages": 1_000_000, **(settings or {})}
    if shutil.which("rdkafka_performance"):
        return _rdkafka_performance(
            "-G", group, "-t", topic, "-c", str(count), "-b", bootstrap, *_options(chosen)
        )
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **chosen})
    consumer.subscribe([topic])
    seen, begun = 0, time.perf_counter()
    while seen < count:
        wanted = min(10_000, count - seen) if seen else 1
        for message in consumer.consume(wanted, 1):
            if message.error() is not None:
                raise SystemExit(f"{topic}: {message.error()}")
            if not seen:
                begun = time.perf_counter()
            seen += 1
        if time.perf_counter() > begun + TIMEOUT_S:
            raise SystemExit(f"{topic}: {seen} of {count} records were read in {TIMEOUT_S} s")
    seconds = time.perf_counter() - begun
    consumer.close()
    return seconds


def make_offsets_topic(bootstrap: str) -> None:
    """Commits offsets for the first time. Otherwise the first reads would include the creation of 50 partitions."""
    produce(bootstrap, "first", 10, 1)
    consume(bootstrap, "first", 1)


def _options(settings: Settings) -> list[str]:
    return [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]


def _rdkafka_performance(*arguments: str) -> float:
    command = ["rdkafka_performance", "-q", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, preexec_fn=on_client_cores
    )
    found = re.findall(r"in (\d+)ms", done.stdout + done.stderr)
    if not found:
        raise SystemExit(
            f"{' '.join(command)} printed no result:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return int(found[-1]) / 1000
