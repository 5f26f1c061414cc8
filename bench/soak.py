"""Loads a broker with all kinds of clients for a long time, and looks for growth, lost records and errors.

    python bench/soak.py [--minutes 30] [--json]

Producers (idempotent, compressed, transactional) write, groups of both protocols read while their members join and
leave, clients connect and drop, topics are created and deleted, and old records are compacted or expire. The clients
are in bench/soak_load.py.

The figures of the broker are sampled at an interval. At the end, the median of the first quarter is compared with that
of the last quarter. Only flatness counts, so other processes may use the machine. The exit code is 1 after one of these
faults:

- a figure has grown beyond its limit;
- a reader has missed an acknowledged record, or has seen an aborted one;
- a key of the compacted topic has lost its last value;
- a client got an error, or the broker logged one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from confluent_kafka.admin import AdminClient
from measure import Bench, processes
from soak_load import TOPICS, Ledger, Load, read_keys

from kcli.testing.broker_process import BrokerProcess, free_port

INTERVAL_MAX_S = 30.0
SAMPLES_MIN = 20
WARM_UP_S = 60.0
"""The time before the first interval, which the minutes do not include: caches fill, and the first records expire."""
DISK_BLOCK_BYTES = 512

# Times and sizes that make everything happen many times within the run: rolls, retention, compaction, expiry.
OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
    "log.segment.delete.delay.ms": "5000",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
    "producer.id.expiration.ms": "30000",
    "producer.id.expiration.check.interval.ms": "5000",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of the broker, children included."""

    memory_mb: float
    descriptors: int
    tasks: int
    threads: int
    disk_mb: float
    cpu_s_per_s: float


GROWTH_MAX = {
    "memory_mb": 1.15,
    "descriptors": 1.25,
    "tasks": 1.25,
    "threads": 1.25,
    "disk_mb": 1.3,
    "cpu_s_per_s": 1.5,
}
"""The largest ratio of the last quarter to the first one. Except for memory, the figures rise and fall within a run: a
group rebalances, a segment waits for its deletion, or another process takes the CPU."""


class Sampler:
    """Samples a broker. Its metrics listener is at `port`."""

    def __init__(self, bench: Bench, port: int) -> None:
        self._bench = bench
        self._url = f"http://127.0.0.1:{port}/jmx?qry=kcli:type=Process"
        self._last = (time.monotonic(), bench.cpu_s())

    def sample(self) -> Sample:
        (before, cpu_before), now = self._last, (time.monotonic(), self._bench.cpu_s())
        self._last = now
        with urllib.request.urlopen(self._url, timeout=60) as answer:
            (bean,) = json.load(answer)["beans"]
        pids = list(processes(self._bench.pid))
        return Sample(
            memory_mb=round(self._bench.memory_mb(), 1),
            descriptors=sum(_entries(f"/proc/{pid}/fd") for pid in pids),
            tasks=bean["TaskCount"],
            threads=sum(_entries(f"/proc/{pid}/task") for pid in pids),
            disk_mb=round(sum(map(_disk_bytes, _files(self._bench.broker.directory / "data"))) / 1e6, 1),
            cpu_s_per_s=round((now[1] - cpu_before) / (now[0] - before), 3),
        )


def _entries(directory: str) -> int:
    try:
        return len(os.listdir(directory))
    except OSError:  # the process has ended meanwhile
        return 0


def _files(directory: Path) -> Iterator[str]:
    for folder, _folders, names in os.walk(directory):
        yield from (f"{folder}/{name}" for name in names)


def _disk_bytes(path: str) -> int:
    try:
        return os.stat(path).st_blocks * DISK_BLOCK_BYTES
    except OSError:  # the file was deleted meanwhile
        return 0


def run(bench: Bench, port: int, seconds: float) -> tuple[list[Sample], list[str]]:
    """Runs the load. Returns the samples, and the faults that were found."""
    ledger = Ledger()
    admin = AdminClient({"bootstrap.servers": bench.broker.bootstrap})
    for created in admin.create_topics(TOPICS).values():
        created.result(60)
    load = Load.of(bench.broker.bootstrap, ledger)
    load.start()
    time.sleep(WARM_UP_S)
    begun = time.monotonic()
    interval = min(INTERVAL_MAX_S, seconds / SAMPLES_MIN)
    sampler, samples = Sampler(bench, port), []
    print("".join(f"{name:>13}" for name in ("seconds", *GROWTH_MAX)), flush=True)
    while time.monotonic() < begun + seconds:
        time.sleep(interval)
        samples.append(sampler.sample())
        values = [f"{value:>13,}" for value in asdict(samples[-1]).values()]
        print(f"{time.monotonic() - begun:>13,.0f}{''.join(values)}", flush=True)
    load.stop(ledger)
    print(
        f"\n{sum(ledger.acknowledged):,} verified records were acknowledged, {sum(ledger.aborted):,} aborted"
    )
    print(", ".join(f"{number:,} {name}" for name, number in ledger.done.items()))
    return samples, [*faults(ledger, load, bench), *broker_errors(bench.broker.log_path)]


def faults(ledger: Ledger, load: Load, bench: Bench) -> Iterator[str]:
    yield from ledger.errors
    if not any(ledger.acknowledged) or not any(ledger.aborted) or not load.keys.last:
        yield "nothing was written"
    for reader in ledger.seen:
        if lost := ledger.lost(reader):
            yield f"{lost:,} acknowledged records were not seen by the {reader} reader"
        if aborted := ledger.seen_aborted(reader):
            yield f"{aborted:,} aborted records were seen by the {reader} reader"
    values = read_keys(bench.broker.bootstrap)
    wrong = sum(values.get(key) != value for key, value in load.keys.last.items())
    if wrong:
        yield f"{wrong:,} of {len(load.keys.last):,} keys of the compacted topic have lost their last value"


def broker_errors(log: Path) -> Iterator[str]:
    """Prints a count of the warnings in the broker's log, by their text without numbers. Yields the errors."""
    warnings: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        _stamp, _, text = line.partition("] ")
        if text.startswith("WARN"):
            warnings[re.sub(r"\d+", "N", text)] += 1
        elif text.startswith(("ERROR", "FATAL")):
            yield f"the broker logged: {line}"
    for text, number in warnings.most_common(10):
        print(f"{number:,} times in the log: {text}")


def compare(samples: list[Sample]) -> Iterator[str]:
    """Prints the quarters of each figure. Yields the names of those that have grown too much."""
    quarter = max(len(samples) // 4, 1)
    print(f"\n{'figure':<14}{'first quarter':>14}{'last quarter':>14}{'ratio':>8}{'limit':>8}")
    for field in fields(Sample):
        first, last = (
            statistics.median(getattr(each, field.name) for each in part)
            for part in (samples[:quarter], samples[-quarter:])
        )
        ratio, limit = last / first, GROWTH_MAX[field.name]
        print(f"{field.name:<14}{first:>14,.2f}{last:>14,.2f}{ratio:>8.2f}{limit:>8.2f}")
        if ratio > limit:
            yield f"{field.name} has grown by the factor {ratio:.2f}, with a limit of {limit:g}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--json", action="store_true", help="prints each sample as a JSON line at the end")
    options = parser.parse_args()
    port = free_port()
    overrides = {**OVERRIDES, "kcli.metrics.listener": f"127.0.0.1:{port}"}
    with (
        tempfile.TemporaryDirectory(prefix="kcli-soak-") as directory,
        BrokerProcess(directory, overrides) as broker,
    ):
        samples, found = run(Bench(broker, 0), port, options.minutes * 60)
    found += compare(samples)
    for sample in samples if options.json else []:
        print(json.dumps(asdict(sample)))
    print("\n".join(f"FAULT {fault}" for fault in found) or "no faults")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
