"""Measures kcli/storage without a broker, and prints a table, then one JSON line per figure.

    python bench/storage.py [--only throughput,recovery,segments,size,partitions] [--directory /mnt/disk]
                            [--megabytes 512] [--block-kilobytes 64] [--large-megabytes 2048] [--full]
                            [--segments 1,100,2000] [--partitions 10000]

Appending and reading are compared with the raw disk: dd writes and reads as many bytes in blocks of the same size. The
log and dd take turns in the same run, because rates of different runs cannot be compared. One figure is for writing to
the page cache, as a broker does, and one for writing to the device. The part `size` compares a partition of 50 kB with
a large one (`--full`: 20 GB): fetches and appends must take the same time. The part `partitions` opens all logs of a
node in a new process, as a broker does at its start.
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
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE
from kcli.storage.files import default_handle_capacity
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore

NODE = 1
RECORD_BYTES = 100
FETCH_BYTES = 11_000
SMALL_BYTES = 50_000
ROUNDS = 3
"""How often the raw disk and the log are measured in turns. The median of each is the figure."""

FETCHES = 2_000
APPENDS = 2_000
BATCH_RECORDS = 100
FULL_MEGABYTES = 20_000


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    goal: str = ""


class Bench:
    """Runs the parts of the benchmark, each in an empty directory, and collects the figures."""

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
        self.add("size of a block", len(block), "bytes")
        rates: dict[str, tuple[list[float], list[float]]] = {
            name: ([], []) for name in ("append", "append and flush", "read")
        }
        for nth in range(ROUNDS):
            raw = f"{directory}/raw"
            for flush, name in ((False, "append"), (True, "append and flush")):
                rates[name][1].append(total / timed(dd_write, raw, len(block), blocks, flush=flush))
                if flush:
                    rates["read"][1].append(total / timed(dd_read, raw, len(block)))
                os.remove(raw)
                store = open_store(f"{directory}/{nth}")
                log = store.create("t", 0, None)
                rates[name][0].append(total / timed(append_all, log, block, blocks, flush=flush))
                if flush:
                    rates["read"][0].append(total / timed(read_all, log, len(block)))
                store.close()
                shutil.rmtree(f"{directory}/{nth}")
        for name, (ours, dd) in rates.items():
            self.pair(name, ours, dd)

    def pair(self, name: str, ours: list[float], raw: list[float]) -> None:
        log_rate, raw_rate = statistics.median(ours), statistics.median(raw)
        self.add(f"{name}: log", log_rate, "MB/s")
        self.add(f"{name}: dd", raw_rate, "MB/s")
        self.add(f"{name}: log to dd", log_rate / raw_rate, "ratio")

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
        large_bytes = self.options.large_megabytes * 1_000_000
        seconds = timed(append_all, large, block, max(large_bytes // len(block), 1))
        self.add("size of the large partition", large.size_bytes / 1e6, "MB")
        self.add("written at", large.size_bytes / 1e6 / seconds, "MB/s")
        tail = {log: log.log_end_offset - 1 for log in (small, large)}
        names = ("fetch at the tail", "fetch by the index", "append")
        measures: tuple[Callable[[PartitionLog], float], ...] = (
            lambda log: fetch_us(log, lambda: tail[log]),
            lambda log: fetch_by_index_us(log, small.log_end_offset),
            append_us,
        )
        for name, measure in zip(names, measures, strict=True):
            rounds = [(measure(small), measure(large)) for _ in range(ROUNDS)]
            at_small = statistics.median(each for each, _ in rounds)
            at_large = statistics.median(each for _, each in rounds)
            self.add(f"{name}: 50 kB", at_small, "µs")
            self.add(f"{name}: large", at_large, "µs")
            self.add(f"{name}: large to 50 kB", at_large / at_small, "ratio", "about 1")
        self.add(
            "fetch scattered over the large partition", fetch_scattered_us(large), "µs", "caches and disk"
        )
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


def append_all(log: PartitionLog, block: bytes, blocks: int, *, flush: bool = False) -> None:
    """Appends blocks like a leader that gets them from a producer: they are checked and written to the page cache.

    With `flush`, they are also written to the device.
    """
    now_ms = SystemClock().now_ms()
    for _ in range(blocks):
        log.append_checked(log.check_client_batch(block, now_ms), leader_epoch=0, now_ms=now_ms)
    log.set_high_watermark(log.log_end_offset)
    if flush:
        log.durability.flush()


def read_all(log: PartitionLog, block_bytes: int) -> None:
    """Reads the log block by block, as dd does."""
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        content = log.read(offset, block_bytes, end_offset=end).read()
        offset = read_header(content).next_offset


def dd_write(path: str, block_bytes: int, blocks: int, *, flush: bool) -> None:
    _dd(
        "if=/dev/zero",
        f"of={path}",
        f"bs={block_bytes}",
        f"count={blocks}",
        *(["conv=fdatasync"] if flush else []),
    )


def dd_read(path: str, block_bytes: int) -> None:
    _dd(f"if={path}", "of=/dev/null", f"bs={block_bytes}")


def _dd(*operands: str) -> None:
    subprocess.run(["dd", "status=none", *operands], check=True)


def fetch_us(log: PartitionLog, offset: Callable[[], int]) -> float:
    """Returns the median time of a fetch of about 10 kB from the page cache.

    Both partitions are large enough for it.
    """
    offsets = [offset() for _ in range(FETCHES)]
    taken = []
    for each in offsets:
        began = time.perf_counter()
        log.read(each, FETCH_BYTES, end_offset=log.log_end_offset).read()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def fetch_by_index_us(log: PartitionLog, span: int) -> float:
    """Measures fetches at random offsets of a range in the middle of the log.

    The range has as many offsets as the small partition, so that the processor's caches help both partitions equally.
    The log knows the positions of its newest batches, so it must forget them first.
    """
    log.segments[-1].forget()
    first = (log.log_start_offset + log.log_end_offset - span) // 2
    return fetch_us(log, lambda: first + random.randrange(span))


def fetch_scattered_us(log: PartitionLog) -> float:
    """Measures fetches at random offsets of the whole log.

    The log is larger than the processor's caches, and perhaps than the page cache.
    """
    log.segments[-1].forget()
    return fetch_us(log, lambda: random.randrange(log.log_end_offset))


def append_us(log: PartitionLog) -> float:
    block, now_ms = batch(BATCH_RECORDS), SystemClock().now_ms()
    taken = []
    for _ in range(APPENDS):
        began = time.perf_counter()
        log.append_checked(log.check_client_batch(block, now_ms), leader_epoch=0, now_ms=now_ms)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def timed(work: Callable[..., object], *arguments: object, **options: object) -> float:
    began = time.perf_counter()
    work(*arguments, **options)
    return time.perf_counter() - began


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_here(directory: str) -> None:
    """Opens all logs, and prints time, memory and open files as JSON. Runs in a separate process."""
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
    parser.add_argument("--full", action="store_true", help=f"a large partition of {FULL_MEGABYTES} MB")
    parser.add_argument("--segments", default="1,100,2000")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--directory", default=None, help="where to work: the disk that is measured")
    parser.add_argument("--open", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open is not None:
        open_here(options.open)
        return
    if options.full:
        options.large_megabytes = FULL_MEGABYTES
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
