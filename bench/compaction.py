"""Compacts one log of keyed records. Prints the speed, and the memory of the cleaner's process.

    python bench/compaction.py [--megabytes 256] [--record-bytes 100] [--batch-records 150] [--distinct 0.25]
                               [--dedupe-buffer-megabytes 128] [--io-buffer-kilobytes 512]

The goals are for a gigabyte (`--megabytes 1024`). First the log writes the records. Then the cleaning runs in a
separate process, as it does in the broker. Rates count the bytes of the log once, although the cleaner reads the dirty
part twice.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import tempfile
import time

import numpy as np
from crc32c import crc32c

from kcli.config.topic import LogConfig
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.batch_headers import CRC_BEGIN
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.partitions.cleaner_process import CleanerProcess
from kcli.storage.cleaner.cleaner import LogCleaner
from kcli.storage.cleaner.plan import CleanerLimits
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore

KEY_BYTES = 16
SEGMENT_BYTES = 64 << 20
NODE = 1


def template(record_bytes: int, batch_records: int, now_ms: int) -> tuple[bytearray, np.ndarray]:
    """Returns a batch with placeholders for keys, and the positions of all bytes of each key."""
    marker = bytes(range(1, KEY_BYTES + 1))
    value = b"v" * (record_bytes - KEY_BYTES)
    batch = encode_batch([Record(-1, now_ms + nth, marker, value, (), -1) for nth in range(batch_records)])
    starts = []
    at = batch.find(marker)
    while at >= 0:
        starts.append(at)
        at = batch.find(marker, at + 1)
    assert len(starts) == batch_records, "every key is found once"
    return bytearray(batch), np.array(starts)[:, None] + np.arange(KEY_BYTES)


def fill(log: PartitionLog, *, records: int, distinct: int, record_bytes: int, batch_records: int) -> None:
    now_ms = SystemClock().now_ms()
    batch, places = template(record_bytes, batch_records, now_ms)
    view = np.frombuffer(batch, np.uint8)
    rng = np.random.default_rng(1)
    for _ in range(0, records, batch_records):
        keys = rng.integers(0, distinct, batch_records)
        digits = np.char.zfill(keys.astype(f"S{KEY_BYTES}"), KEY_BYTES)
        view[places] = np.frombuffer(digits.tobytes(), np.uint8).reshape(-1, KEY_BYTES)
        struct.pack_into(">I", batch, CRC_BEGIN - 4, crc32c(memoryview(batch)[CRC_BEGIN:]))
        log.append(bytes(batch), leader_epoch=0, now_ms=now_ms)
    log.roll()
    log.durability.flush()
    log.set_high_watermark(log.log_end_offset)


def measure(options: argparse.Namespace, directory: str) -> dict[str, float]:
    disk, clock = SystemDisk(), SystemClock()
    write_meta_properties(disk, directory, MetaProperties("bench", NODE), clock.now_ms())
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=SEGMENT_BYTES, file_delete_delay_ms=0)
    store = LogStore.open(disk, clock, [directory], node_id=NODE, rng=SystemRng(), default_config=config)
    log = store.create("t", 0, None)
    records = options.megabytes * 1_000_000 // options.record_bytes
    fill(
        log,
        records=records,
        distinct=int(records * options.distinct),
        record_bytes=options.record_bytes,
        batch_records=options.batch_records,
    )
    size_before = log.size_bytes
    limits = CleanerLimits(
        dedupe_buffer_bytes=options.dedupe_buffer_megabytes << 20,
        load_factor=0.9,
        io_buffer_bytes=options.io_buffer_kilobytes << 10,
        bytes_per_second=float("inf"),
    )
    process = CleanerProcess()
    began, passes = time.perf_counter(), 0
    cleaner = LogCleaner(store, limits=limits, run_pass=process.run_pass)
    while cleaner.clean_dirtiest(clock.now_ms()) is not None:
        passes += 1
    seconds = time.perf_counter() - began
    process.stop()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    size_after = log.size_bytes
    store.close()
    return {
        "log MB": size_before / 1e6,
        "log MB after": size_after / 1e6,
        "passes": passes,
        "seconds": seconds,
        "MB/s": size_before / 1e6 / seconds,
        "thousand records/s": records / seconds / 1e3,
        "CPU seconds": used.ru_utime + used.ru_stime,
        "peak MB of the process": used.ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument(
        "--batch-records",
        type=int,
        default=150,
        help="150 is what a producer's 16 kB hold of 100-byte records",
    )
    parser.add_argument(
        "--distinct", type=float, default=0.25, help="share of records that have a key of their own"
    )
    parser.add_argument("--dedupe-buffer-megabytes", type=int, default=128)
    parser.add_argument("--io-buffer-kilobytes", type=int, default=512)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(options, directory)
    for name, value in figures.items():
        print(f"{name:<28}{value:>14,.1f}")
    for name, value in figures.items():
        print(json.dumps({"name": f"compaction: {name}", "value": round(value, 3)}))


if __name__ == "__main__":
    main()
