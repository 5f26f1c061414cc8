"""Measures the CPU time of a message with one, two and four nodes of one parent (docs/adr/0015).

    python bench/cores.py [--records N] [--rounds N] [--json]

Each cluster is started with `kcli cluster up`. A topic with replication factor 1 has the same number of partitions in
each cluster, spread over its nodes. A client of librdkafka produces values of 100 B with acks=all, and reads them.

The figure is the CPU seconds of all nodes and of their parent for a million messages: the median of the rounds. In
each round the clusters take turns. The ratio compares the figure with one node. Other programs on the machine change
these figures less than they change rates.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from measure import Figure, cpu_s, print_json
from parts.clients import NO_LOG, TIMEOUT_S, produce

from kcli.cli.main import run
from kcli.local_cluster.directory import LocalCluster, load_cluster

NODES = (1, 2, 4)
PARTITIONS = 8
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
    """Reads all partitions without a group, because the coordinator of a group is on one of the nodes."""
    settings = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 10}
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


def measure(load: Load, topic: str, records: int) -> tuple[float, float]:
    """Returns the CPU seconds for a million messages: to produce them, and to read them."""
    create(load, topic)
    bootstrap = load.cluster.bootstrap
    before = load.cpu_s()
    produce(bootstrap, topic, VALUE_BYTES, records)
    between = load.cpu_s()
    read(bootstrap, topic, records)
    after = load.cpu_s()
    return (between - before) / records * 1e6, (after - between) / records * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that kcli has byte code, as an installed program has
    costs: dict[tuple[str, int], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        loads = {nodes: stack.enter_context(started(nodes)) for nodes in NODES}
        for load in loads.values():
            measure(load, "first", FIRST_RECORDS)
        for round_number in range(options.rounds):
            for nodes, load in loads.items():
                produced, consumed = measure(load, f"round-{round_number}", options.records)
                costs["produce", nodes].append(produced)
                costs["consume", nodes].append(consumed)
    figures = []
    for work in ("produce", "consume"):
        one = statistics.median(costs[work, NODES[0]])
        for nodes in NODES:
            cost = statistics.median(costs[work, nodes])
            name = f"{work} {VALUE_BYTES} B, {nodes} nodes"
            figures.append(Figure(name, cost, "CPU-s/M msg"))
            if nodes > 1:
                figures.append(Figure(f"{name}: ratio to one node", cost / one, "", f"<= {GOAL}"))
    if options.json:
        print_json(figures)
        return
    for figure in figures:
        print(f"{figure.name:<60}{figure.value:>14,.3f} {figure.unit:<16}{figure.goal}")


if __name__ == "__main__":
    main()
