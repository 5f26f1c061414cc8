"""Starts a broker, measures it, and prints a table with goals, then one JSON line per figure.

    python bench/run.py [--only produce,consume] [--records 2000000]

The clients use librdkafka: its program `rdkafka_performance` (examples/ of librdkafka's source) if it is on the PATH,
else a loop with confluent-kafka. With two or more cores, the broker runs on the first core and the clients on the
others. The broker's CPU time is valid even if other processes use the machine. Rates are not: they can be compared only
within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from kcli.testing.broker_process import BrokerProcess

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CORES = sorted(os.sched_getaffinity(0))
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    name: str
    value: float
    unit: str
    goal: str = ""


class Bench:
    """A broker, and the figures that were measured with it."""

    def __init__(self, broker: BrokerProcess, records: int) -> None:
        self.broker = broker
        self.records = records
        self.figures: list[Figure] = []

    @property
    def pid(self) -> int:
        assert self.broker.process is not None
        return self.broker.process.pid

    def add(self, name: str, value: float, unit: str, goal: str = "") -> None:
        figure = Figure(name, value, unit, goal)
        self.figures.append(figure)
        print(f"{figure.name:<48}{figure.value:>14,.3f} {figure.unit:<16}{figure.goal}", flush=True)

    def cpu_s(self) -> float:
        """Returns the CPU seconds that the broker has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    def load(self, name: str, records: int, rate_goal: str, cpu_goal: str, work: Callable[[], float]) -> None:
        """Runs `work`, which returns its duration in seconds.

        Adds the rate and the CPU time of the broker to the figures.
        """
        cpu = self.cpu_s()
        seconds = work()
        cpu = self.cpu_s() - cpu
        self.add(f"{name}: rate", records / seconds / 1000, "k msg/s", rate_goal)
        self.add(f"{name}: broker CPU", cpu / records * 1e6, "CPU-s/M msg", cpu_goal)

    def produce_and_consume(self) -> None:
        goals = {
            100: (">= Kafka", "<= 0.45", "client-bound", "<= 0.2"),
            1000: (">= 1.2 x Kafka", "<= 2.5", "", ""),
        }
        for size, (rate, cpu, read_rate, read_cpu) in goals.items():
            records = self.records if size == 100 else self.records // 5
            topic = self.topic(f"size-{size}")
            self.load(
                f"produce {size} B acks=all",
                records,
                rate,
                cpu,
                lambda t=topic, s=size, n=records: self._produce(t, s, n),
            )
            self.load(
                f"consume {size} B",
                records,
                read_rate,
                read_cpu,
                lambda t=topic, n=records: self._consume(t, n),
            )

    def _produce(self, topic: str, size: int, count: int, *more: str) -> float:
        if shutil.which("rdkafka_performance"):
            return _rdkafka_performance(
                "-P", "-t", topic, "-s", str(size), "-c", str(count), "-b", self.broker.bootstrap, "-a", "-1",
                "-X", "linger.ms=5", "-X", "queue.buffering.max.messages=1000000", *more,
            )  # fmt: skip
        return _python_produce(self.broker.bootstrap, topic, size, count)

    def _consume(self, topic: str, count: int) -> float:
        if shutil.which("rdkafka_performance"):
            return _rdkafka_performance(
                "-G", f"bench-{topic}", "-t", topic, "-c", str(count), "-b", self.broker.bootstrap,
                "-X", "auto.offset.reset=earliest", "-X", "queued.min.messages=1000000",
            )  # fmt: skip
        return _python_consume(self.broker.bootstrap, topic, count)

    def one_message_requests(self) -> None:
        topic, count = self.topic("one-by-one", 1), 100_000
        self.load("one-message requests", count, ">= 15", "", lambda: self._one_by_one(topic, count))

    def _one_by_one(self, topic: str, count: int) -> float:
        if shutil.which("rdkafka_performance"):
            return self._produce(topic, 100, count, "-X", "batch.num.messages=1", "-X", "linger.ms=0")
        more: dict[str, object] = {"batch.num.messages": 1, "linger.ms": 0}
        return _python_produce(self.broker.bootstrap, topic, 100, count, more)

    def latency(self) -> None:
        for rate in (100, 5000):
            topic = self.topic(f"latency-{rate}", 1)
            ordered = sorted(_end_to_end_ms(self.broker.bootstrap, topic, rate, seconds=5))
            self.add(f"end to end at {rate} msg/s: p50", statistics.median(ordered), "ms")
            self.add(f"end to end at {rate} msg/s: p99", ordered[int(len(ordered) * 0.99)], "ms")

    def joins(self) -> None:
        """Starts 20 members of each protocol, several times.

        The first round also waits for the creation of `__consumer_offsets`.
        """
        from joins import COUNTED, MEMBERS, PARTITIONS_PER_MEMBER, PROTOCOLS, ROUNDS, fill, joined

        partitions = MEMBERS * PARTITIONS_PER_MEMBER
        topic = self.topic("joins", partitions)
        fill(self.broker.bootstrap, topic, partitions)
        goals = {"classic eager": "<= 0.8", "cooperative-sticky": "<= 0.6", "KIP-848": "<= 5.5"}
        for protocol, settings in PROTOCOLS.items():
            rounds = [
                joined(self.broker.bootstrap, topic, f"joins-{protocol}-{nth}", settings)
                for nth in range(ROUNDS)
            ]
            name = f"{MEMBERS} members, {protocol}"
            self._spread(f"{name}: stable", [each.stable_s for each in rounds], goals[protocol])
            self._spread(f"{name}: read", [each.read_s for each in rounds])
            self.add(f"{name}: assignments, worst", max(each.rebalances for each in rounds), "")
            for api in COUNTED:
                most = max(each.requests[api] for each in rounds)
                if most:
                    self.add(f"{name}: {api}, worst", most, "requests")

    def _spread(self, name: str, seconds: list[float], goal: str = "") -> None:
        """Adds the best, the middle and the worst of several times. The goal is for the worst."""
        self.add(f"{name}, best", min(seconds), "s")
        self.add(f"{name}, median", statistics.median(seconds), "s")
        self.add(f"{name}, worst", max(seconds), "s", goal)

    def memory(self) -> None:
        time.sleep(1)
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = int(re.search(r"VmRSS:\s+(\d+)", status).group(1))
        self.add("idle memory", kilobytes / 1024, "MB", "<= 80")

    def topics_list(self) -> None:
        command = [
            sys.executable,
            "-m",
            "kcli",
            "topics",
            "--bootstrap-server",
            self.broker.bootstrap,
            "--list",
        ]
        times = []
        for _ in range(7):
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - begun)
        self.add("kcli topics --list (median of 7)", statistics.median(times), "s", "<= 0.3")


def start_up(directory: Path) -> Iterator[Figure]:
    """Yields the times from the start of the process until it is ready and until the first record is acknowledged.

    The log directory is already formatted.
    """
    with BrokerProcess(directory):
        pass
    broker = BrokerProcess(directory)
    begun = time.perf_counter()
    with broker:
        yield Figure("start to ready", time.perf_counter() - begun, "s", "<= 0.5")
        _python_produce(broker.bootstrap, "first", 10, 1)
        yield Figure("start to first ack (topic auto-created)", time.perf_counter() - begun, "s")


def _rdkafka_performance(*arguments: str) -> float:
    command = ["rdkafka_performance", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, preexec_fn=_on_client_cores)
    found = re.findall(r"in (\d+)ms", done.stdout + done.stderr)
    if not found:
        raise SystemExit(
            f"{' '.join(command)} printed no result:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return int(found[-1]) / 1000


def _python_produce(
    bootstrap: str, topic: str, size: int, count: int, more: dict[str, object] | None = None
) -> float:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5,
                         "queue.buffering.max.messages": 1_000_000, **(more or {})})  # fmt: skip
    value = b"x" * size
    begun = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return time.perf_counter() - begun


def _python_consume(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"bench-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    seen, begun = 0, 0.0
    while seen < count:
        messages = consumer.consume(10_000, 1)
        if messages and not begun:
            begun = time.perf_counter()
        seen += len(messages)
    seconds = time.perf_counter() - begun
    consumer.close()
    return seconds


def _end_to_end_ms(bootstrap: str, topic: str, rate: int, seconds: float) -> list[float]:
    from confluent_kafka import Consumer, Producer, TopicPartition

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


def _on_client_cores() -> None:
    if len(CORES) > 1:
        os.sched_setaffinity(0, CORES[1:])


@contextmanager
def _pinned(broker: BrokerProcess) -> Iterator[None]:
    if len(CORES) > 1:
        assert broker.process is not None
        os.sched_setaffinity(broker.process.pid, CORES[:1])
        _on_client_cores()
    try:
        yield
    finally:
        os.sched_setaffinity(0, CORES)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="start,memory,list,data,requests,latency,joins")
    parser.add_argument("--records", type=int, default=2_000_000)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that kcli has byte code, as an installed program has
    parts = options.only.split(",")
    figures: list[Figure] = []
    print(f"{'figure':<48}{'value':>14} {'unit':<16}goal")
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as name:
        directory = Path(name)
        if "start" in parts:
            for figure in start_up(directory / "start"):
                figures.append(figure)
                print(f"{figure.name:<48}{figure.value:>14,.3f} {figure.unit:<16}{figure.goal}", flush=True)
        overrides = {"group.initial.rebalance.delay.ms": "0"}
        with BrokerProcess(directory / "load", overrides=overrides) as broker, _pinned(broker):
            bench = Bench(broker, options.records)
            steps = {"memory": bench.memory, "list": bench.topics_list, "data": bench.produce_and_consume,
                     "requests": bench.one_message_requests, "latency": bench.latency,
                     "joins": bench.joins}  # fmt: skip
            for part, step in steps.items():
                if part in parts:
                    step()
            figures += bench.figures
    for figure in figures:
        print(json.dumps(asdict(figure)))


if __name__ == "__main__":
    main()
