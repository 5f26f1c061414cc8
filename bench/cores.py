"""Measures the CPU time of a message with one, two and four nodes of one parent (docs/adr/0016).

    python bench/cores.py [--records N] [--rounds N] [--json]

Each cluster is started with `kcli cluster up`. A topic with replication factor 1 has the same number of partitions in
each cluster, spread over its nodes. A client of librdkafka produces values of 100 B with acks=all, and reads them.

A figure is the CPU seconds of all nodes and of their parent for a million messages: the median of the rounds. In each
round the clusters take turns. The ratio compares the figure with one node. Other programs on the machine change these
figures less than they change rates.

Each cluster also takes CPU time while it is idle, which is measured after the rounds. The figures are shown with the
idle time, as the processes count it, and without the idle time of the cluster for the duration of the work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from measure import Figure, cpu_s, print_json, until_quiet
from parts.clients import NO_LOG, TIMEOUT_S, produce

from kcli.cli.main import run
from kcli.local_cluster.directory import LocalCluster, load_cluster

NODES = (1, 2, 4)
PARTITIONS = 8
IDLE_S = 20.0
VALUE_BYTES = 100
GOAL = 1.1
FIRST_RECORDS = 200_000
"""Records before the measurement, so that imports and the first growth of memory do not count."""


@dataclass(frozen=True, slots=True)
class Load:
    """A running cluster, and the processes whose CPU time counts."""

    cluster: LocalCluster
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))


@contextmanager
def started(nodes: int) -> Iterator[Load]:
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as name:
        words = ["--dir", name, "--override", "log.initial.task.delay.ms=86400000"]
        if run(["cluster", "up", "--nodes", str(nodes), "--daemon", *words]):
            raise SystemExit(f"a cluster of {nodes} nodes did not start")
        try:
            cluster = load_cluster(Path(name))
            pids = (cluster.parent_pid, *(node.pid for node in cluster.nodes))
            yield Load(cluster, tuple(pid for pid in pids if pid is not None))
        finally:
            run(["cluster", "down", "--dir", name])


def create(load: Load, topic: str) -> None:
    words = ["--bootstrap-server", load.cluster.bootstrap, "--create", "--topic", topic]
    if run(["topics", *words, "--partitions", str(PARTITIONS), "--replication-factor", "1"]):
        raise SystemExit(f"{topic} was not created")


def read(bootstrap: str, topic: str, count: int) -> None:
    """Reads all partitions without a group, because the coordinator of a group is on one of the nodes. For the same
    reason no offsets are committed."""
    settings = {
        "enable.auto.commit": False,
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 10,
    }
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": NO_LOG, **settings}
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    seen, deadline = 0, time.monotonic() + TIMEOUT_S
    while seen < count:
        seen += len(consumer.consume(min(10_000, count - seen), 1))
        if time.monotonic() > deadline:
            raise SystemExit(f"{topic}: {seen} of {count} records were read in {TIMEOUT_S} s")
    consumer.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU time of a cluster, and the time on the clock, for a million messages."""

    cpu_s: float
    seconds: float


def cost(load: Load, work: Callable[[], object], records: int) -> Cost:
    before, begun = load.cpu_s(), time.monotonic()
    work()
    seconds = time.monotonic() - begun
    return Cost((load.cpu_s() - before) / records * 1e6, seconds / records * 1e6)


def measure(load: Load, topic: str, records: int) -> dict[str, Cost]:
    """Returns the costs to produce the messages, and to read them."""
    create(load, topic)
    bootstrap = load.cluster.bootstrap
    return {
        "produce": cost(load, lambda: produce(bootstrap, topic, VALUE_BYTES, records), records),
        "consume": cost(load, lambda: read(bootstrap, topic, records), records),
    }


def idle_rates(loads: dict[int, Load]) -> dict[int, float]:
    """Returns the CPU seconds that each cluster takes in a second without clients."""
    for load in loads.values():
        until_quiet(load.cpu_s)
    before = {nodes: load.cpu_s() for nodes, load in loads.items()}
    time.sleep(IDLE_S)
    return {nodes: (load.cpu_s() - before[nodes]) / IDLE_S for nodes, load in loads.items()}


def compared(work: str, costs: dict[int, list[Cost]], idle: dict[int, float]) -> list[Figure]:
    """Returns the figures of one kind of work, and the ratios to one node."""
    figures = []
    marginal, whole = 0.0, 0.0
    for nodes, found in costs.items():
        name = f"{work} {VALUE_BYTES} B, {nodes} nodes"
        without = statistics.median(each.cpu_s - idle[nodes] * each.seconds for each in found)
        with_idle = statistics.median(each.cpu_s for each in found)
        figures.append(
            Figure(f"{name}: rate", 1e3 / statistics.median(each.seconds for each in found), "k msg/s")
        )
        figures.append(Figure(f"{name}: with idle time", with_idle, "CPU-s/M msg"))
        figures.append(Figure(f"{name}: without idle time", without, "CPU-s/M msg"))
        if nodes == NODES[0]:
            marginal, whole = without, with_idle
        else:
            figures.append(Figure(f"{name}: ratio with idle time", with_idle / whole, ""))
            figures.append(Figure(f"{name}: ratio without idle time", without / marginal, "", f"<= {GOAL}"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that kcli has byte code, as an installed program has
    costs: dict[tuple[str, int], list[Cost]] = defaultdict(list)
    with ExitStack() as stack:
        loads = {nodes: stack.enter_context(started(nodes)) for nodes in NODES}
        for load in loads.values():
            measure(load, "first", FIRST_RECORDS)
            until_quiet(load.cpu_s)
        for round_number in range(options.rounds):
            for nodes, load in loads.items():
                for work, found in measure(load, f"round-{round_number}", options.records).items():
                    costs[work, nodes].append(found)
        idle = idle_rates(loads)
    figures = [Figure(f"idle, {nodes} nodes", idle[nodes] * 100, "% of a core") for nodes in NODES]
    for work in ("produce", "consume"):
        figures += compared(work, {nodes: costs[work, nodes] for nodes in NODES}, idle)
    if options.json:
        print_json(figures)
        return
    for figure in figures:
        print(f"{figure.name:<60}{figure.value:>14,.3f} {figure.unit:<16}{figure.goal}")


if __name__ == "__main__":
    main()
