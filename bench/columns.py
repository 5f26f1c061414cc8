"""Measures decoding and encoding of record batches by columns, in records per second of one core.

    python bench/columns.py [--records 200000]

Prints a table, then one JSON line per figure. Each figure is the best CPU time of five runs, so other processes on the
machine have little influence.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator

from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Depth, decode
from kcli.protocol.batches.compression import Codec

GOAL = 5.0
"""The goal in million records of 100 bytes per second, for reading and for writing."""

ROUNDS = 5
POOL = random.Random(1).randbytes(1 << 16)


def text(rng: random.Random, size: int) -> bytes:
    """Returns random bytes, which differ from record to record."""
    start = rng.randrange(len(POOL) - size)
    return POOL[start : start + size]


def batches(
    count: int, per_batch: int, value: Callable[[random.Random], bytes], codec: Codec = Codec.NONE
) -> bytes:
    """Returns batches with `count` records, whose keys have 16 bytes, as a fetch would return them."""
    rng, made, offset = random.Random(2), [], 0
    while offset < count:
        records = [
            Record(timestamp_ms=1_700_000_000_000 + (offset + nth) // 20, key=text(rng, 16), value=value(rng))
            for nth in range(per_batch)
        ]
        made.append(encode_batch(records, base_offset=offset, codec=codec))
        offset += per_batch
    return b"".join(made)


CASES: dict[str, tuple[int, Callable[[random.Random], bytes], Codec]] = {
    "100 B, 16 kB batches": (130, lambda rng: text(rng, 100), Codec.NONE),
    "100 B, 1 MB batches": (8000, lambda rng: text(rng, 100), Codec.NONE),
    "50-150 B, 16 kB batches": (130, lambda rng: text(rng, rng.randrange(50, 150)), Codec.NONE),
    "50-150 B, 1 MB batches": (8000, lambda rng: text(rng, rng.randrange(50, 150)), Codec.NONE),
    "100 B lz4, 16 kB batches": (130, lambda rng: text(rng, 10) * 10, Codec.LZ4),
    "100 B zstd, 1 MB batches": (8000, lambda rng: text(rng, 10) * 10, Codec.ZSTD),
    "1 kB, 16 kB batches": (15, lambda rng: text(rng, 1000), Codec.NONE),
    "100 B, one record a batch": (1, lambda rng: text(rng, 100), Codec.NONE),
}


def best(work: Callable[[], int]) -> float:
    """Returns the highest rate in million records per CPU second."""
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        count = work()
        rates.append(count / (time.process_time() - began) / 1e6)
    return max(rates)


def decoding(count: int) -> Iterator[tuple[str, float]]:
    """Yields the rates of decoding: CRC check and all columns."""
    for name, (per_batch, value, codec) in CASES.items():
        raw = batches(count, per_batch, value, codec)
        yield (
            f"decode {name}",
            best(lambda raw=raw: sum(map(len, decode(read_headers(raw, "t-0"), Depth.HEADERS)))),
        )


def encoding(count: int) -> Iterator[tuple[str, float]]:
    """Yields the rates of encoding Arrow columns to complete batches. Needs the extra `spark`."""
    import numpy as np
    import pyarrow as pa

    from kcli.spark.sink.encoder import encode_records, seal

    rng = random.Random(3)
    keys = pa.array([text(rng, 16) for _ in range(count)], pa.large_binary())
    values = pa.array([text(rng, 100) for _ in range(count)], pa.large_binary())
    groups = np.repeat(np.arange(4), count // 4)

    def work(codec: Codec) -> int:
        areas = encode_records(groups, keys[: len(groups)], values[: len(groups)], None)
        return sum(area.count for area in areas if seal(area, codec, 1, 1, 0, 0))

    for codec in (Codec.NONE, Codec.LZ4):
        yield f"encode 100 B {codec.label}", best(lambda codec=codec: work(codec))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    count = parser.parse_args().records
    figures = []
    for name, rate in (*decoding(count), *encoding(count)):
        print(f"{name:36} {rate:7.1f} M records/s a core")
        figures.append({"name": name, "value": round(rate, 2), "unit": "M records/s a core", "goal": GOAL})
    for figure in figures:
        print(json.dumps(figure))


if __name__ == "__main__":
    main()
