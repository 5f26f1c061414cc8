"""Measures three nodes on one machine beside one node, and prints a table with goals, then one JSON line per figure.

    python bench/cluster.py [--only throughput,kills,stops,controllers,catch_up,latency] [--records 500000]
        [--kills 20] [--fail-overs 6] [--beside COMMAND]

One node with RF=1 and three nodes with RF=3 (min.insync.replicas=2) serve in turns, so the ratios are valid even if
other processes use the machine. CPU time is that of all nodes together. Every node is a broker and a controller, except
in the parts `kills` and `stops`. The session timeout is short, so that many kills fit into a run.

COMMAND starts a node of another kind, with a properties file as its last argument. The part `throughput` then measures
clusters of both kinds, one kind after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import shlex
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from measure import HEADER, NO_GOAL, PARTITIONS_PER_REQUEST, Figure, cpu_s, print_json, processes, until_quiet
from parts.clients import produce
from parts.records import end_to_end_ms

from kcli.client.admin.admin import AdminClient as KcliAdminClient
from kcli.client.admin.topics import NewTopic as KcliNewTopic
from kcli.client.config import ClientConfig
from kcli.errors import TopicExistsException
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import iter_batches
from kcli.testing.broker_process import BrokerProcess
from kcli.testing.cluster_processes import ClusterProcesses

SESSION_S = 2.0
PATIENCE_S = 120.0
ROUNDS = 3
"""The turns of each cluster. The figure is the median."""
WARM_UPS = 2
"""The turns before the first measured one, in which a virtual machine compiles its code."""
PARTITIONS = 4
CATCH_UP_VALUE_BYTES = 10_000
LATENCY_RATE, LATENCY_S = 500, 5
P99_VALUES_MIN = 100
"""The least number of values of which a p99 is printed. Of fewer values, the longest is printed."""
MANY_PARTITIONS = 10_000
"""The partitions of the cluster whose active controller is killed."""
POLL_S = 0.02
FIRST_SEGMENT = f"{0:020}.log"
OVERRIDES = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "250",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}
ALONE = {**OVERRIDES, "offsets.topic.replication.factor": "1", "min.insync.replicas": "1"}


@dataclass(slots=True)
class Table:
    """The figures so far."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str, goal: str = "") -> None:
        self.figures.append(Figure(name, value, unit, goal))
        print(f"{name:<60}{value:>14,.3f} {unit:<16}{goal or NO_GOAL}", flush=True)

    def percentiles(self, name: str, values: list[float], unit: str, goal: str = "") -> None:
        ordered = sorted(values)
        self.add(f"{name}: p50", statistics.median(ordered), unit, goal)
        # With fewer values than this, the last percent would be only the longest value.
        if len(ordered) < P99_VALUES_MIN:
            self.add(f"{name}: longest", ordered[-1], unit, goal)
        else:
            self.add(f"{name}: p99", ordered[math.ceil(len(ordered) * 0.99) - 1], unit, goal)


class Cluster:
    """Running nodes, and their topics."""

    def __init__(self, processes: ClusterProcesses, replicas: int) -> None:
        self.processes = processes
        self.replicas = replicas
        self.bootstrap = processes.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def topic(self, name: str, partitions: int = PARTITIONS, **config: str) -> str:
        new = NewTopic(name, partitions, self.replicas, config=config)
        self.admin.create_topics([new])[name].result(PATIENCE_S)
        self.until_in_sync(name)
        return name

    def leader(self, topic: str) -> int:
        """The leader of partition 0, or -1."""
        partition = self.admin.list_topics(topic, PATIENCE_S).topics[topic].partitions.get(0)
        return -1 if partition is None else int(partition.leader)

    def until_in_sync(self, topic: str) -> None:
        def in_sync() -> bool:
            partitions = self.admin.list_topics(topic, PATIENCE_S).topics[topic].partitions.values()
            return bool(partitions) and all(len(each.isrs) == self.replicas for each in partitions)

        until(in_sync)

    def cpu_s(self) -> float:
        running = (node.process.pid for node in self.processes.nodes.values() if node.process)
        return sum(cpu_s(each) for pid in running for each in processes(pid))


@contextmanager
def running(nodes: int, command: Sequence[str] | None = None) -> Iterator[Cluster]:
    overrides = ALONE if nodes == 1 else OVERRIDES
    with (
        tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory,
        ClusterProcesses(directory, nodes=nodes, overrides=overrides, command=command) as processes,
    ):
        yield Cluster(processes, nodes)


@contextmanager
def running_apart(brokers: int) -> Iterator[Cluster]:
    """Brokers beside a controller, so that the end of a broker is not the end of the active controller."""
    with (
        tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory,
        ClusterProcesses(directory, brokers=brokers, overrides=OVERRIDES) as processes,
    ):
        yield Cluster(processes, brokers)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"the cluster is not in the expected state after {PATIENCE_S} s")
        time.sleep(POLL_S)


def throughput(table: Table, options: argparse.Namespace) -> None:
    """Compares rate and CPU of RF=1 on one node with RF=3 on three nodes."""
    _throughput(table, options.records, "")
    if options.beside:
        _throughput(table, options.records, "beside: ", shlex.split(options.beside))


def _throughput(table: Table, most: int, kind: str, command: Sequence[str] | None = None) -> None:
    with running(1, command) as one, running(3, command) as three:
        for size, records, goal in ((100, most, "<= 2.2"), (1000, most // 5, "<= 3.3")):
            rates: dict[Cluster, list[float]] = {one: [], three: []}
            costs: dict[Cluster, list[float]] = {one: [], three: []}
            topics = {cluster: cluster.topic(f"size-{size}") for cluster in rates}
            for cluster, topic in topics.items():
                for _ in range(WARM_UPS):
                    produce(cluster.bootstrap, topic, size, records)
            for cluster in rates:
                until_quiet(cluster.cpu_s)
            for _ in range(ROUNDS):
                for cluster, topic in topics.items():
                    before = cluster.cpu_s()
                    rates[cluster].append(records / produce(cluster.bootstrap, topic, size, records))
                    costs[cluster].append((cluster.cpu_s() - before) / records * 1e6)
            for cluster, name in ((one, "RF=1, one node"), (three, "RF=3, three nodes")):
                table.add(
                    f"{kind}{name}, {size} B: rate", statistics.median(rates[cluster]) / 1000, "k msg/s"
                )
                table.add(f"{kind}{name}, {size} B: CPU", statistics.median(costs[cluster]), "CPU-s/M msg")
            pairs = [after / before for before, after in zip(costs[one], costs[three], strict=True)]
            table.add(f"{kind}CPU of RF=3 over RF=1, {size} B", statistics.median(pairs), "times", goal)


@dataclass(slots=True)
class Trickle:
    """A producer that sends one record after another to partition 0. `times` has the moments of the answers."""

    bootstrap: str
    topic: str
    times: list[float] = field(default_factory=list)
    errors: int = 0
    ending: bool = False

    def run(self) -> None:
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 100,
        }
        # The client asks for the leaders all the time. Otherwise librdkafka would add about 1.5 s to each gap.
        settings |= {"retry.backoff.ms": 20, "topic.metadata.refresh.interval.ms": 100, "log_level": 0}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        while not self.ending:
            producer.produce(self.topic, b"x" * 100, partition=0, on_delivery=self._answered)
            producer.poll(0.002)
        producer.flush(PATIENCE_S)

    def _answered(self, error: object, _message: object) -> None:
        if error is None:
            self.times.append(time.monotonic())
        else:
            self.errors += 1

    def gap_around(self, moment: float) -> float:
        """The longest time between two answers from `moment` on."""
        until(lambda: bool(self.times) and self.times[-1] > moment)
        times = [moment, *(each for each in self.times if each > moment)]
        return max(after - before for before, after in itertools.pairwise(times))


@contextmanager
def trickling(cluster: Cluster, topic: str) -> Iterator[Trickle]:
    trickle = Trickle(cluster.bootstrap, topic)
    thread = threading.Thread(target=trickle.run)
    thread.start()
    try:
        until(lambda: len(trickle.times) > 10)
        yield trickle
    finally:
        trickle.ending = True
        thread.join()


def kills(table: Table, options: argparse.Namespace) -> None:
    """Measures the time from kill -9 of a leader to the next acknowledged record."""
    goal = f"<= {SESSION_S + 0.5}"
    _gaps(table, "kill -9 of a leader, next ack", options.kills, BrokerProcess.kill, goal)


def stops(table: Table, options: argparse.Namespace) -> None:
    """Measures the controlled shutdown of a leader: the time between the appends of two leaders, and the longest time
    that a client waits for an acknowledged record. The client also needs the new metadata."""
    name = "controlled shutdown of a leader"
    _gaps(table, name, max(options.kills // 2, 1), BrokerProcess.stop, append_goal="<= 0.1")


def _gaps(
    table: Table,
    name: str,
    times: int,
    end: Callable[[BrokerProcess], int],
    goal: str = "",
    append_goal: str = "",
) -> None:
    gaps: list[float] = []
    elections: list[float] = []
    with running_apart(3) as cluster:
        topic = cluster.topic("gaps", 1, **{"message.timestamp.type": "LogAppendTime"})
        with trickling(cluster, topic) as trickle:
            for _ in range(times):
                old = cluster.leader(topic)
                node = cluster.processes.brokers[old]
                moment = time.monotonic()
                end(node)
                answered = time.monotonic()
                until(lambda old=old: cluster.leader(topic) not in (old, -1))
                elections.append(time.monotonic() - moment)
                until(lambda answered=answered: bool(trickle.times) and trickle.times[-1] > answered)
                gaps.append(trickle.gap_around(moment))
                node.start()
                cluster.until_in_sync(topic)
                until(lambda: cluster.leader(topic) >= 0)
        node = cluster.processes.brokers[cluster.leader(topic)]
        appends = _gaps_of_epochs(node.directory / "data" / f"{topic}-0" / FIRST_SEGMENT)
        table.percentiles(f"{name}: from append to append", appends, "s", append_goal)
        table.percentiles(f"{name}: gap of the client", gaps, "s", goal)
        table.percentiles(f"{name}: new leader in Metadata", elections, "s")
        table.add(f"{name}: failed records", trickle.errors, "records", "0")


def _gaps_of_epochs(log: Path) -> list[float]:
    """The seconds from the last append of each leader to the first append of its successor."""
    headers = (header for _position, header in iter_batches(log.read_bytes()))
    return [
        (after.max_timestamp_ms - before.max_timestamp_ms) / 1000
        for before, after in itertools.pairwise(headers)
        if before.partition_leader_epoch != after.partition_leader_epoch
    ]


def controllers(table: Table, options: argparse.Namespace) -> None:
    """Measures the time from kill -9 of the active controller until another controller has committed a new topic."""
    with running(3) as cluster:
        for number in range(0, MANY_PARTITIONS, PARTITIONS_PER_REQUEST):
            cluster.topic(f"many-{number}", min(PARTITIONS_PER_REQUEST, MANY_PARTITIONS - number))
        name = f"kill -9 of the active controller, {MANY_PARTITIONS:,} partitions"
        gaps = [asyncio.run(_fail_over(cluster, number)) for number in range(options.fail_overs)]
        table.percentiles(f"{name}: next topic", gaps, "s")


async def _fail_over(cluster: Cluster, number: int) -> float:
    """Kills the active controller, creates a topic through the other nodes, and starts the node again."""
    nodes = cluster.processes.nodes
    async with _asking(nodes.values()) as admin:
        active = nodes[(await admin.describe_quorum()).leader_id]
    async with _asking(node for node in nodes.values() if node is not active) as admin:
        await admin.describe_quorum()  # so that the client is connected before the kill
        moment = time.monotonic()
        active.kill()
        await _create(admin, f"after-{number}")
        gap = time.monotonic() - moment
    active.start()
    for each in range(0, MANY_PARTITIONS, PARTITIONS_PER_REQUEST):
        cluster.until_in_sync(f"many-{each}")
    return gap


def _asking(nodes: Iterable[BrokerProcess]) -> KcliAdminClient:
    servers = tuple(Address("127.0.0.1", node.port) for node in nodes)
    pause_ms = int(POLL_S * 1000)
    return KcliAdminClient(
        ClientConfig(servers=servers, retry_backoff_ms=pause_ms, retry_backoff_max_ms=pause_ms)
    )


async def _create(admin: KcliAdminClient, topic: str) -> None:
    """Creates a topic with one replica, and asks again after each error."""
    new = KcliNewTopic(name=topic, partitions=1, replication_factor=1)
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        error = (await admin.create_topics([new]))[topic]
        if error is None or isinstance(error, TopicExistsException):
            return
        await asyncio.sleep(POLL_S)
    raise SystemExit(f"no controller has created a topic within {PATIENCE_S} s")


def catch_up(table: Table, options: argparse.Namespace) -> None:
    """Measures how fast a follower that was away reads what it missed."""
    with running(3) as cluster:
        topic = cluster.topic("catch-up")
        away = cluster.processes.nodes[3]
        away.stop()
        missed_bytes = options.catch_up_mb * 1_000_000
        records = missed_bytes // CATCH_UP_VALUE_BYTES
        produce(cluster.bootstrap, topic, CATCH_UP_VALUE_BYTES, records)
        away.start()
        before = cluster.cpu_s()
        samples: list[tuple[float, int]] = []
        while not samples or samples[-1][1] < missed_bytes:
            samples.append((time.monotonic(), _size(away.directory / "data", topic)))
            time.sleep(POLL_S)
        middle = [(at, size) for at, size in samples if 0.05 < size / missed_bytes < 0.95]
        if len(middle) > 1:
            (begun, small), (ended, large) = middle[0], middle[-1]
            table.add("catch-up of a follower", (large - small) / (ended - begun) / 1e6, "MB/s", ">= 400")
        spent = (cluster.cpu_s() - before) / missed_bytes * 1e9
        table.add("catch-up of a follower: CPU of leaders and follower", spent, "CPU-s/GB")


def _size(data: Path, topic: str) -> int:
    return sum(each.stat().st_size for each in data.glob(f"{topic}-*/*.log"))


def latency(table: Table, options: argparse.Namespace) -> None:
    """Measures the time from a producer to a consumer."""
    with running(1) as one, running(3) as three:
        for cluster, name in ((one, "RF=1"), (three, "RF=3")):
            found = end_to_end_ms(cluster.bootstrap, cluster.topic("latency", 1), LATENCY_RATE, LATENCY_S)
            table.percentiles(f"end to end at {LATENCY_RATE} msg/s, {name}", found, "ms")


PARTS: dict[str, Callable[[Table, argparse.Namespace], None]] = {
    "throughput": throughput,
    "kills": kills,
    "stops": stops,
    "controllers": controllers,
    "catch_up": catch_up,
    "latency": latency,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--fail-overs", type=int, default=6, help="kills of the active controller")
    parser.add_argument("--catch-up-mb", type=int, default=400)
    parser.add_argument("--beside", metavar="COMMAND", help="starts a node of another kind")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - PARTS.keys():
        parser.error(f"--only {','.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    table = Table()
    print(HEADER)
    for name in names:
        PARTS[name](table, options)
    print_json(table.figures)


if __name__ == "__main__":
    main()
