"""Measures the storage room alone and prints a table, then one JSON line per figure.

    python bench/storage.py [--only throughput,recovery,segments,size,partitions] [--directory /mnt/disk]
                            [--megabytes 512] [--block-kilobytes 64] [--large-megabytes 2048]
                            [--segments 1,100,2000] [--partitions 10000]

Append and read are set against the raw disk: the same bytes in blocks of the same size by os.pwrite and os.pread, in
turns with the log's in one run, since rates of two runs say little of each other. `size` sets a partition of 50 kB
against a large one: fetches and appends must cost the same. `partitions` opens a whole node's logs in a process of its
own, as a broker does at start.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kcli.config.topic import LogConfig
from kcli.protocol.batch import Record, encode_batch, read_header
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE
from kcli.storage.files import default_handle_capacity
from kcli.storage.log import AppendOrigin, PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store import LogStore

NODE = 1
RECORD_BYTES = 100
READ_BYTES = 1 << 20
SMALL_BYTES = 50_000
ROUNDS = 3
"""The raw disk and the log take turns so often; the median of each counts."""

FETCHES = 2_000
APPENDS = 2_000
BATCH_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    goal: str = ""


class Bench:
    """What is measured, in a directory that is emptied after each part."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.figures: list[Figure] = []
        self.clock = SystemClock()

    def add(self, name: str, value: float, unit: str, goal: str = "") -> None:
        self.figures.append(Figure(name, value, unit, goal))
        print(f"{name:<44}{value:>14,.2f} {unit:<10}{goal}", flush=True)

    def run(self, part: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.options.directory) as directory:
            getattr(self, part)(directory)

    # --- parts

    def throughput(self, directory: str) -> None:
        block = batch(self.options.block_kilobytes * 1024 // RECORD_BYTES)
        blocks = max(self.options.megabytes * 1_000_000 // len(block), 1)
        total = blocks * len(block) / 1e6
        appends, raw_writes, reads, raw_reads = [], [], [], []
        raw = f"{directory}/raw"
        for nth in range(ROUNDS):
            raw_writes.append(total / timed(write_raw, raw, block, blocks))
            raw_reads.append(total / timed(read_raw, raw))
            os.remove(raw)
            store = open_store(f"{directory}/{nth}")
            log = store.create("t", 0, None)
            appends.append(total / timed(append_all, log, block, blocks))
            reads.append(total / timed(read_all, log))
            store.close()
            shutil.rmtree(f"{directory}/{nth}")
        self.pair("append", appends, raw_writes)
        self.pair("read", reads, raw_reads)

    def pair(self, name: str, ours: list[float], raw: list[float]) -> None:
        log_rate, raw_rate = statistics.median(ours), statistics.median(raw)
        self.add(f"{name}: log", log_rate, "MB/s")
        self.add(f"{name}: raw disk", raw_rate, "MB/s")
        self.add(f"{name}: log to raw disk", log_rate / raw_rate, "ratio")

    def recovery(self, directory: str) -> None:
        store = open_store(directory)
        log = store.create("t", 0, None)
        block = batch(self.options.block_kilobytes * 1024 // RECORD_BYTES)
        append_all(log, block, max(self.options.megabytes * 1_000_000 // len(block), 1))
        total = log.size_bytes / 1e6
        store.close()
        self.add("open after a clean stop", timed(lambda: open_store(directory).close()) * 1e3, "ms")
        os.remove(f"{directory}/{CLEAN_SHUTDOWN_FILE}")
        os.remove(f"{directory}/{RECOVERY_POINT_FILE}")
        seconds = timed(lambda: open_store(directory))
        self.add("recovery of everything", total / seconds, "MB/s")

    def segments(self, directory: str) -> None:
        block = batch(BATCH_RECORDS)
        for count in map(int, self.options.segments.split(",")):
            place = f"{directory}/{count}"
            store = open_store(place, LogConfig(internal_segment_bytes=len(block) * 2, retention_ms=-1))
            append_all(store.create("t", 0, None), block, count * 2)
            store.close()
            opened, closed = [], []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                store = open_store(place)
                opened.append(time.perf_counter() - began)
                closed.append(timed(store.close))
            self.add(f"open after a clean stop, {count} segments", statistics.median(opened) * 1e3, "ms")
            self.add(f"close, {count} segments", statistics.median(closed) * 1e3, "ms")

    def size(self, directory: str) -> None:
        block = batch(BATCH_RECORDS)
        store = open_store(directory, LogConfig(retention_ms=-1))
        small, large = store.create("small", 0, None), store.create("large", 0, None)
        append_all(small, block, SMALL_BYTES // len(block))
        append_all(large, block, max(self.options.large_megabytes * 1_000_000 // len(block), 1))
        self.add("size of the large partition", large.size_bytes / 1e6, "MB")
        tail = {log: log.log_end_offset - 1 for log in (small, large)}
        names = ("fetch at the tail", "fetch anywhere", "append")
        measures: tuple[Callable[[PartitionLog], float], ...] = (
            lambda log: fetch_us(log, lambda: tail[log]),
            fetch_anywhere_us,
            append_us,
        )
        for name, measure in zip(names, measures, strict=True):
            rounds = [(measure(small), measure(large)) for _ in range(ROUNDS)]
            at_small = statistics.median(each for each, _ in rounds)
            at_large = statistics.median(each for _, each in rounds)
            self.add(f"{name}: 50 kB", at_small, "µs")
            self.add(f"{name}: large", at_large, "µs")
            self.add(f"{name}: large to 50 kB", at_large / at_small, "ratio", "about 1")
        store.close(clean=False)

    def partitions(self, directory: str) -> None:
        count = self.options.partitions
        store = open_store(directory)
        block = batch(BATCH_RECORDS)

        def create() -> None:
            for number in range(count):
                append_all(store.create("t", number, None), block, 1)

        self.add(f"create {count} partitions", timed(create), "s")
        self.add(
            "open files while they are served",
            open_files(),
            "files",
            f"≤ {default_handle_capacity()} and some",
        )
        self.add(f"close {count} partitions", timed(store.close), "s")
        answer = subprocess.run(
            [sys.executable, __file__, "--open", directory], check=True, capture_output=True, text=True
        )
        opened = json.loads(answer.stdout)
        self.add(f"open {count} partitions", opened["seconds"], "s")
        self.add("memory before", opened["before_mb"], "MB")
        self.add(f"memory with {count} partitions", opened["after_mb"], "MB")
        self.add("open files", opened["files"], "files")


def batch(records: int) -> bytes:
    now_ms = SystemClock().now_ms()
    value = b"v" * (RECORD_BYTES - 10)
    return bytes(encode_batch([Record(-1, now_ms, None, value, (), -1) for _ in range(max(records, 1))]))


def open_store(directory: str, config: LogConfig | None = None) -> LogStore:
    disk, clock = SystemDisk(), SystemClock()
    if not os.path.exists(f"{directory}/meta.properties"):
        disk.make_dir(directory)
        write_meta_properties(disk, directory, MetaProperties("bench", NODE), clock.now_ms())
    return LogStore.open(disk, clock, [directory], node_id=NODE, rng=SystemRng(), default_config=config)


def append_all(log: PartitionLog, block: bytes, blocks: int) -> None:
    """As a leader appends what a producer sent: checked, in the page cache."""
    now_ms = SystemClock().now_ms()
    for _ in range(blocks):
        log.append(block, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=now_ms)
    log.set_high_watermark(log.log_end_offset)


def read_all(log: PartitionLog) -> None:
    offset, end = log.log_start_offset, log.log_end_offset
    position, sizes = 0, log.size_bytes
    while position < sizes:
        piece = log.read(offset, READ_BYTES, end_offset=end)
        content = piece.read()
        position += len(content)
        offset = _next_offset(content)


def _next_offset(content: bytes) -> int:
    """The offset after the last batch: blocks are alike, so it is where its size says."""
    size = read_header(content).size_bytes
    return read_header(content, len(content) - size).next_offset


def write_raw(path: str, block: bytes, blocks: int) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        for nth in range(blocks):
            os.pwrite(fd, block, nth * len(block))
    finally:
        os.close(fd)


def read_raw(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        position = 0
        while content := os.pread(fd, READ_BYTES, position):
            position += len(content)
    finally:
        os.close(fd)


def fetch_us(log: PartitionLog, offset: Callable[[], int]) -> float:
    """The median fetch of at most 64 kB, from the page cache."""
    offsets = [offset() for _ in range(FETCHES)]
    taken = []
    for each in offsets:
        began = time.perf_counter()
        log.read(each, 65_536, end_offset=log.log_end_offset).read()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def fetch_anywhere_us(log: PartitionLog) -> float:
    """Through the index: where the newest batches lie is remembered, so it is forgotten first."""
    log.segments[-1].forget()
    return fetch_us(log, lambda: random.randrange(log.log_end_offset))


def append_us(log: PartitionLog) -> float:
    block, now_ms = batch(BATCH_RECORDS), SystemClock().now_ms()
    taken = []
    for _ in range(APPENDS):
        began = time.perf_counter()
        log.append(block, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=now_ms)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def timed(work: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_here(directory: str) -> None:
    """In a process of its own: what opening costs, as JSON."""
    before = resident_mb()
    began = time.perf_counter()
    store = open_store(directory)
    seconds = time.perf_counter() - began
    print(
        json.dumps(
            {
                "seconds": seconds,
                "before_mb": before,
                "after_mb": resident_mb(),
                "files": open_files(),
                "logs": len(store.logs),
            }
        )
    )
    store.close()


PARTS = ("throughput", "recovery", "segments", "size", "partitions")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, apart by comma")
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--block-kilobytes", type=int, default=64)
    parser.add_argument("--large-megabytes", type=int, default=2048)
    parser.add_argument("--segments", default="1,100,2000")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--directory", default=None, help="where to work: the disk that is measured")
    parser.add_argument("--open", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open is not None:
        open_here(options.open)
        return
    bench = Bench(options)
    for part in options.only.split(","):
        if part not in PARTS:
            parser.error(f"--only {part}: the parts are {', '.join(PARTS)}")
        bench.run(part)
    for figure in bench.figures:
        print(
            json.dumps(
                {"name": f"storage: {figure.name}", "value": round(figure.value, 3), "unit": figure.unit}
            )
        )


if __name__ == "__main__":
    main()
