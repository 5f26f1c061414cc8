"""The part `cold`: values of 1 kB that are read from the device.

Beside it are the same values from the page cache, and a plain read of the same files from the device.
"""

from __future__ import annotations

import os
from pathlib import Path

from measure import PAGE_BYTES, Bench, timed

from parts.clients import consume, make_offsets_topic, produce

SIZE = 1000
SAMPLES = 200
"""How many pages of a file are tested for being in the page cache."""
BLOCK_BYTES = 1 << 20
"""The size of a plain read."""


def cold_reads(bench: Bench) -> None:
    bootstrap, topic, records = bench.broker.bootstrap, bench.topic("cold"), bench.records // 5
    make_offsets_topic(bootstrap)
    produce(bootstrap, topic, SIZE, records)
    segments = sorted((bench.broker.directory / "data").glob(f"{topic}-*/*.log"))
    warm = bench.load("warm reads of 1 kB", records, lambda: consume(bootstrap, topic, records, "warm"))
    bench.add("pages that are not in memory", drop(segments), "ratio", "1")
    cold = bench.load("cold reads of 1 kB", records, lambda: consume(bootstrap, topic, records, "cold"))
    drop(segments)
    plain = timed(lambda: read(segments))
    bench.add(
        "plain cold read of the files", sum(each.stat().st_size for each in segments) / plain / 1e6, "MB/s"
    )
    bench.add("reads of 1 kB: CPU, cold to warm", cold.cpu_s / warm.cpu_s, "ratio")
    bench.add("reads of 1 kB: time, cold to warm", cold.seconds / warm.seconds, "ratio")
    bench.add("reads of 1 kB: time, cold to plain", cold.seconds / plain, "ratio")


def drop(segments: list[Path]) -> float:
    """Drops files from the page cache. Returns the share of their pages that is not in memory any more."""
    absent = tested = 0
    for path in segments:
        with path.open("rb", buffering=0) as file:
            size = path.stat().st_size
            os.fsync(file.fileno())  # because dirty pages are not dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for position in range(0, size, max(size // SAMPLES, PAGE_BYTES)):
                tested += 1
                absent += not _is_cached(file.fileno(), position)
    return absent / tested


def read(segments: list[Path]) -> None:
    for path in segments:
        with path.open("rb", buffering=0) as file:
            while file.read(BLOCK_BYTES):
                pass


def _is_cached(descriptor: int, position: int) -> bool:
    try:
        os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True
