"""One run: clients and faults for some time, then an end without faults, a complete read, and the search for
anomalies."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient as LibrdkafkaAdmin
from confluent_kafka.admin import NewTopic

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.errors import KafkaError, KcliError
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import iter_batches
from kcli.runtime.network import SystemNetwork
from simulation.checks.log_judge import ALLOWED, Finding, Verdict, duplicate_places, judge
from simulation.checks.operations import History, Operation, Outcome, Producer, Protocol, save
from simulation.histories.cluster import NODES, FaultyCluster
from simulation.histories.consumers import AssignedReader, GroupReader, read_to_end
from simulation.histories.faults import Fault, Faults
from simulation.histories.producers import IdempotentProducer, OldTransactionalProducer
from simulation.histories.recorder import PARTITIONS, TOPIC, Recorder
from simulation.histories.tv2 import NewTransactionalProducer

PATIENCE_S = 90.0
"""The time limit for the cluster to recover after the last fault, and for each client to end."""
REQUEST_TIMEOUT_S = 30.0
POLL_S = 0.1
BUSY_S = 0.2
"""The longest time between two sends of an idempotent producer. Other programs may use the machine too."""


@dataclass(frozen=True, slots=True)
class Options:
    directory: Path
    seconds: float
    faults: tuple[Fault, ...]
    seed: int
    history: Path | None = None
    """The file to which the history is written. If it is None, the history is only judged."""
    producers: int = 2
    old_transactions: int = 2
    new_transactions: int = 3
    note: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run."""

    verdict: Verdict
    problems: tuple[str, ...]
    faults: Mapping[str, int]
    acknowledged: int
    transactions: Mapping[str, int]
    """The number of transactions by protocol and outcome."""
    polled: int
    unequal: tuple[str, ...]
    """The partitions whose replicas have different bytes at the end."""

    @property
    def is_clean(self) -> bool:
        return not self.verdict.anomalies and not self.problems and not self.unequal

    def lines(self) -> list[str]:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        ends = ", ".join(f"{count} {name}" for name, count in sorted(self.transactions.items()))
        lines = [
            f"faults: {faults}",
            f"records acknowledged: {self.acknowledged}; polled: {self.polled}; transactions: {ends}",
        ]
        for finding in Finding:
            kind = "allowed" if finding in ALLOWED else "anomaly"
            count = self.verdict.count(finding)
            if count or finding not in ALLOWED:
                lines.append(f"{kind}: {finding.value}: {count}")
                if finding not in ALLOWED:
                    lines += [f"    {text}" for text in self.verdict.texts.get(finding, ())]
        lines += [f"problem: {text}" for text in self.problems]
        lines += [f"unequal replicas: {text}" for text in self.unequal]
        return lines


def run(options: Options) -> Report:
    """Runs the clients and the faults. Raises AssertionError if the cluster does not recover."""
    # The end of a librdkafka client may block for a minute. Its objects are often in reference cycles, so the garbage
    # collector would end them in any thread, for example in the thread of the links.
    gc.disable()
    try:
        return _run(options)
    finally:
        gc.enable()


def _run(options: Options) -> Report:
    rng = random.Random(options.seed)
    with FaultyCluster(options.directory, small_disks=Fault.DISK in options.faults) as cluster:
        recorder = Recorder(cluster.bootstrap)
        _create_topic(recorder.bootstrap)
        threads = [
            threading.Thread(target=_guarded(recorder, name, work), name=name)
            for name, work in _clients(recorder, rng, options)
        ]
        faults = Faults(cluster, recorder, random.Random(rng.random()), options.faults, options.note)
        for thread in threads:
            thread.start()
        try:
            faults.run(time.monotonic() + options.seconds)
        finally:
            recorder.stopping.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        options.note("all faults have ended")
        recorder.problems += [f"{each.name} does not end" for each in threads if each.is_alive()]
        last, ends = read_to_end(recorder, PATIENCE_S)
        _until(lambda: _is_in_sync(cluster), "all replicas are in sync")
        unequal = _unequal(cluster)
        history = History(tuple(recorder.operations), ends)
        history = replace(history, producers=_producers(cluster, duplicate_places(history)))
    if options.history is not None:
        save(history, options.history)
    return _report(history, recorder, faults, unequal, last)


def _guarded(recorder: Recorder, name: str, work: Callable[[], None]) -> Callable[[], None]:
    def guarded() -> None:
        try:
            work()
        except Exception as error:
            recorder.problems.append(f"{name} has failed: {error!r}")

    return guarded


def _clients(
    recorder: Recorder, rng: random.Random, options: Options
) -> Sequence[tuple[str, Callable[[], None]]]:
    def own() -> random.Random:
        return random.Random(rng.random())

    clients: list[tuple[str, Callable[[], None]]] = []
    for number in range(options.producers):
        name = f"producer-{number}"
        clients.append((name, IdempotentProducer(recorder, name, own(), BUSY_S).run))
    for number in range(options.old_transactions):
        name = f"tv1-{number}"
        clients.append((name, OldTransactionalProducer(recorder, name, own()).run))
    for number in range(options.new_transactions):
        name = f"tv2-{number}"
        clients.append((name, NewTransactionalProducer(recorder, name, own()).run))
    for protocol in ("classic", "consumer"):
        for number in range(2):
            name = f"member-{protocol}-{number}"
            clients.append((name, GroupReader(recorder, name, f"group-{protocol}", protocol).run))
    clients.append(("assigned", AssignedReader(recorder, "assigned", own()).run))
    eager = AssignedReader(recorder, "eager", own(), reads_uncommitted=True)
    clients.append(("eager", eager.run))
    return clients


def _create_topic(bootstrap: str) -> None:
    admin = LibrdkafkaAdmin({"bootstrap.servers": bootstrap, "log_level": 0})
    new = NewTopic(TOPIC, PARTITIONS, len(NODES), config={"min.insync.replicas": "2"})
    admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[TOPIC].result(REQUEST_TIMEOUT_S)


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(POLL_S)


def _is_in_sync(cluster: FaultyCluster) -> bool:
    async def ask() -> bool:
        servers = tuple(Address("127.0.0.1", node.port) for node in cluster.cluster.nodes.values())
        config = ClientConfig(servers=servers, request_timeout_ms=5_000, default_api_timeout_ms=20_000)
        async with AdminClient(config, SystemNetwork()) as admin:
            found = (await admin.describe_topics([TOPIC]))[TOPIC]
            if isinstance(found, KafkaError):
                return False
            return all(set(each.isr) == set(NODES) for each in found.partitions)

    try:
        return asyncio.run(ask())
    except (KcliError, OSError):
        return False


def _unequal(cluster: FaultyCluster) -> tuple[str, ...]:
    """Waits until the replicas have equal bytes. Returns the partitions that stay unequal."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        unequal = tuple(
            f"{TOPIC}-{partition}"
            for partition in range(PARTITIONS)
            if len({_content(cluster, node_id, partition) for node_id in NODES}) > 1
        )
        if not unequal or time.monotonic() > deadline:
            return unequal
        time.sleep(POLL_S)


def _content(cluster: FaultyCluster, node_id: int, partition: int) -> bytes:
    directory = cluster.data(node_id) / f"{TOPIC}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def _producers(cluster: FaultyCluster, places: set[tuple[int, int]]) -> dict[tuple[int, int], Producer]:
    """The producers of the batches at these partitions and offsets, as the log of one node has them."""
    found: dict[tuple[int, int], Producer] = {}
    for partition in sorted({partition for partition, _offset in places}):
        for _position, header in iter_batches(_content(cluster, NODES[0], partition)):
            for offset in range(header.base_offset, header.next_offset):
                if (partition, offset) in places:
                    found[partition, offset] = Producer(header.producer_id, header.producer_epoch)
    return found


def _report(
    history: History, recorder: Recorder, faults: Faults, unequal: tuple[str, ...], last: Operation
) -> Report:
    transactions = Counter(
        f"{each.protocol.value} {each.outcome.name.lower()}"
        for each in history.operations
        if each.protocol is not Protocol.NONE
    )
    return Report(
        verdict=judge(history),
        problems=tuple(recorder.problems),
        faults=dict(faults.counts),
        acknowledged=sum(
            len(list(each.sent)) for each in history.operations if each.outcome is Outcome.COMMITTED
        ),
        transactions=dict(transactions),
        polled=sum(len(polled.records) for polled in last.polled),
        unequal=unequal,
    )
