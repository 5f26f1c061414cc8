"""Measures what metrics cost: how long a scrape holds the event loop, and the CPU per message.

    python bench/metrics.py [--only holds|costs] [--partitions 10000] [--topics 1000] [--rounds 20]

The first half runs a node in this process, and times each callback of the event loop. CPU time does not depend on other
programs of the machine, and real time is shown too. The second half produces to two nodes in other processes, which
take turns: one without the metrics listener, and one with it. Rounds are short and many, because the cost of memory
changes during a run. The share of two successive rounds hardly depends on such changes.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Self

from measure import Bench, Figure, cpu_s, print_json, running, timed
from parts.clients import produce

from kcli.config.start_up import node_config
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.garbage import GarbagePolicy
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from kcli.testing.broker_process import free_port

LOADS: dict[str, tuple[int, dict[str, object]]] = {
    "large batches": (400_000, {}),
    "requests of one message": (8_000, {"linger.ms": 0, "batch.num.messages": 1}),
}
"""The records of a round, and the settings of the producer. With large batches, a round has only about 130 requests, so
metrics cost time and not requests. With requests of one message, the cost of each request counts."""
MEMORY_BYTES = 3_000_000_000
"""More memory than all logs of a run take. The first use of memory can cost more than the produce, because a virtual
machine gets it from its host. So the bench uses it once before the first round."""
TOPICS_PER_REQUEST = 100
VALUE_BYTES = 100
QUIET_SECONDS, QUIET_CPU_S = 3, 0.1
"""A broker is quiet if it uses less CPU than this in each of so many seconds."""
QUIET_MAX_SECONDS = 60
IDLE_SECONDS, IDLE_ROUNDS, SCRAPES = 5, 4, 3
SCRAPED = (
    ("/metrics", "identity"),
    ("/metrics", "gzip"),
    ("/metrics?profile=confluent", "gzip"),
    ("/jmx", "gzip"),
)
OPEN_METRICS = "application/openmetrics-text;version=1.0.0"


class Steps:
    """The longest step of the tasks that serve HTTP, in seconds of CPU and of the clock, and the longest one of all
    others."""

    def __init__(self) -> None:
        self.cpu_s = self.real_s = self.other_cpu_s = 0.0
        self._run = asyncio.Handle._run

    def __enter__(self) -> Self:
        run = self._run

        def timed(handle: asyncio.Handle) -> None:
            is_http = _serves_http(handle)
            cpu, real = time.thread_time(), time.perf_counter()
            run(handle)
            cpu, real = time.thread_time() - cpu, time.perf_counter() - real
            if is_http:
                self.cpu_s, self.real_s = max(self.cpu_s, cpu), max(self.real_s, real)
            else:
                self.other_cpu_s = max(self.other_cpu_s, cpu)

        asyncio.Handle._run = timed  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]


def _serves_http(handle: asyncio.Handle) -> bool:
    """Whether this is a step of a task of aiohttp's server, which serves a scrape."""
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return isinstance(task, asyncio.Task) and "RequestHandler" in repr(task.get_coro())


def scrape(port: int, path: str = "/metrics", encoding: str = "gzip") -> int:
    """Reads the metrics, and returns the size of the answer in bytes."""
    headers = {"Accept": OPEN_METRICS, "Accept-Encoding": encoding}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return len(answer.read())


def create(bootstrap: str, topics: int, per_topic: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"topic-{number}" for number in range(topics)]
    for start in range(0, topics, TOPICS_PER_REQUEST):
        wanted = [NewTopic(name, per_topic, 1) for name in names[start : start + TOPICS_PER_REQUEST]]
        for created in admin.create_topics(wanted, request_timeout=120).values():
            created.result(300)


def holds(topics: int, per_topic: int) -> list[Figure]:
    """How long scrapes hold the loop of a node in this process."""
    figures: list[Figure] = []

    def add(name: str, value: float, unit: str, goal: str = "") -> None:
        figures.append(Figure(name, value, unit, goal))
        print(f"{name:<60}{value:>14,.3f} {unit:<16}{goal}", flush=True)

    async def story(directory: str) -> None:
        GarbagePolicy().start()  # as in a server
        node = _node(directory)
        await node.start()
        port = node.sockets.listeners["PLAINTEXT"].port
        await asyncio.to_thread(create, f"127.0.0.1:{port}", topics, per_topic)
        assert node.metrics_endpoint is not None
        assert node.broker is not None
        while len(node.broker.replicas) < topics * per_topic:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        await asyncio.sleep(10)  # the names of the new logs become durable
        with Steps() as steps:
            await asyncio.sleep(5)
        add("longest step without a scrape", steps.other_cpu_s * 1000, "ms of CPU")
        for path, encoding in SCRAPED:
            await asyncio.to_thread(scrape, node.metrics_endpoint.port, path)  # the first one fills caches
            began, cpu = time.perf_counter(), time.thread_time()
            with Steps() as steps:
                size = await asyncio.to_thread(scrape, node.metrics_endpoint.port, path, encoding)
            path = f"{path} ({encoding})"
            add(f"{path}: size", size / 1e6, "MB")
            add(f"{path}: duration", time.perf_counter() - began, "s")
            add(f"{path}: CPU", time.thread_time() - cpu, "s")
            add(f"{path}: longest step", steps.cpu_s * 1000, "ms of CPU", "<= 5")
            add(f"{path}: longest step, real time", steps.real_s * 1000, "ms")
            add(f"{path}: longest step of others", steps.other_cpu_s * 1000, "ms of CPU")
        await node.stop()

    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory:
        asyncio.run(story(directory))
    return figures


def _node(directory: str) -> Node:
    config = node_config(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": directory,
            "offsets.topic.replication.factor": "1",
            "kcli.metrics.listener": "127.0.0.1:0",
        },
        {},
    )
    return Node(config, clock=SystemClock(), disk=SystemDisk(), network=SystemNetwork(), rng=SystemRng())


def costs(topics: int, per_topic: int, rounds: int) -> list[Figure]:
    """The CPU per message of two nodes that take turns, one of them with the metrics listener. Also the CPU of both
    without clients, and of a scrape."""
    port = free_port()
    listener = {"kcli.metrics.listener": f"127.0.0.1:{port}"}
    with running() as plain, running(overrides=listener) as metered:
        nodes = (plain, metered)
        with ThreadPoolExecutor(len(nodes)) as threads:
            list(threads.map(lambda node: create(node.broker.bootstrap, topics, per_topic), nodes))
        for node in nodes:
            _wait_until_quiet(node)
        scrape(port)  # the first one fills caches
        _use_memory()
        for load in LOADS:
            _compare(plain, metered, load, rounds)
        idle: dict[Bench, list[float]] = {plain: [], metered: []}
        for _ in range(IDLE_ROUNDS):
            for node in nodes:
                idle[node].append(_idle(node))
        plain.add("without clients, without metrics", median(idle[plain]), "ms of CPU/s")
        metered.add("without clients, with the metrics listener", median(idle[metered]), "ms of CPU/s")
        scrapes = [metered.cost(lambda: float(scrape(port))).cpu_s for _ in range(SCRAPES)]
        metered.add("one scrape", median(scrapes), "CPU-s")
        return plain.figures + metered.figures


def _compare(plain: Bench, metered: Bench, load: str, rounds: int) -> None:
    """Produces to both nodes in turn, and adds the CPU per message of both."""
    spent: dict[Bench, list[float]] = {plain: [], metered: []}
    for number in range(rounds + 1):
        for node in (plain, metered) if number % 2 else (metered, plain):
            spent[node].append(_produced(node, *LOADS[load]))
    pairs = list(zip(spent[plain][1:], spent[metered][1:], strict=True))  # the first one fills caches
    more = sorted((with_metrics / without - 1) * 100 for without, with_metrics in pairs)
    plain.add(f"{load}: without metrics", median(cost for cost, _ in pairs), "CPU-s/M msg")
    metered.add(f"{load}: with the metrics listener", median(cost for _, cost in pairs), "CPU-s/M msg")
    metered.add(f"{load}: more CPU with metrics", median(more), "%", "<= 5")
    metered.add(f"{load}: a quarter of the pairs is below", more[len(more) // 4], "%")
    metered.add(f"{load}: a quarter of the pairs is above", more[-1 - len(more) // 4], "%")


def _use_memory() -> None:
    with mmap.mmap(-1, MEMORY_BYTES) as memory:
        for place in range(0, MEMORY_BYTES, mmap.PAGESIZE):
            memory[place] = 1


def _wait_until_quiet(bench: Bench) -> None:
    """Returns when the broker has stored the names of the new logs, which takes CPU after the last answer."""
    spent, quiet, until = cpu_s(bench.pid), 0, time.monotonic() + QUIET_MAX_SECONDS
    while quiet < QUIET_SECONDS and time.monotonic() < until:
        time.sleep(1)
        before, spent = spent, cpu_s(bench.pid)
        quiet = quiet + 1 if spent - before < QUIET_CPU_S else 0


def _produced(bench: Bench, records: int, settings: Mapping[str, object]) -> float:
    """The CPU seconds of the broker for a million messages."""
    bootstrap = bench.broker.bootstrap
    cost = bench.cost(lambda: produce(bootstrap, "topic-0", VALUE_BYTES, records, settings=settings))
    return cost.cpu_s / records * 1e6


def _idle(bench: Bench) -> float:
    """The milliseconds of CPU of a second without clients."""
    return bench.cost(lambda: timed(lambda: time.sleep(IDLE_SECONDS))).cpu_s / IDLE_SECONDS * 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=("holds", "costs"))
    options = parser.parse_args()
    per_topic = max(options.partitions // options.topics, 1)
    figures: list[Figure] = []
    if options.only != "costs":
        figures += holds(options.topics, per_topic)
    if options.only != "holds":
        figures += costs(options.topics, per_topic, options.rounds)
    print_json(figures)


if __name__ == "__main__":
    main()
