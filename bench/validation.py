"""Measures how much CPU time a leader needs per record to read producers' batches, by shape and codec.

    python bench/validation.py

The goal is a tenth of the broker's CPU time for producing these records. `bench/run.py --only data,requests` prints
that time in CPU-seconds per million records (0.1 means 100 ns per record). docs/adr/0005 has the conclusions from these
figures.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from kcli.protocol.batches.batch import HEADER_SIZE, BatchHeader, Record, encode_batch, read_header
from kcli.protocol.batches.compression import MAX_DECOMPRESSED_BYTES, Codec, compress
from kcli.protocol.batches.small_payload import small_payload
from kcli.protocol.batches.survey import survey

REPEATS = 15
NOW_MS = 1_700_000_000_000
LETTERS = b"abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Shape:
    """The records of a batch: their number, their smallest and largest size, and the time from first to last."""

    name: str
    count: int
    smallest: int
    largest: int
    span_ms: int = 10


SHAPES = (
    Shape("100 B, batches of 9,000", 9_000, 100, 100),
    Shape("1 kB, batches of 950", 950, 1_000, 1_000),
    Shape("100 B, one to a request", 1, 100, 100),
    Shape("100 B, ten to a request", 10, 100, 100),
    Shape("100 B, a hundred to a request", 100, 100, 100),
    Shape("100 B, batches of 9,000 over 1 s", 9_000, 100, 100, 1_000),
    Shape("50 to 150 B, ten to a request", 10, 50, 150),
    Shape("50 to 150 B, a hundred to a request", 100, 50, 150),
    Shape("50 to 150 B, batches of 9,000", 9_000, 50, 150),
    Shape("0.5 to 1.5 kB, batches of 950", 950, 500, 1_500),
)
COMPRESSED = (*SHAPES[:4], *SHAPES[-2:])


def main() -> None:
    rng = random.Random(7)
    words = [bytes(rng.choices(LETTERS, k=rng.randrange(3, 9))) for _ in range(600)]
    for shape in SHAPES:
        batch = batch_of(shape, rng, words)
        header, view = read_header(batch), memoryview(bytearray(batch))
        assert survey(header, view) is not None, "whole batches are vouched for"
        show(shape.name, cpu_seconds(lambda view=view, header=header: survey(header, view)), shape.count)
    for shape in COMPRESSED:
        batch = batch_of(shape, rng, words)
        header, payload = read_header(batch), batch[HEADER_SIZE:]
        for codec in (Codec.LZ4, Codec.SNAPPY, Codec.ZSTD, Codec.GZIP):
            packed = compress(codec, payload, None)
            name = f"{shape.name}: {codec.label} ({len(payload) / len(packed):.1f} to 1)"
            show(name, cpu_seconds(lambda h=header, c=codec, p=packed: check(h, c, p)), shape.count)


def check(header: BatchHeader, codec: Codec, packed: bytes) -> None:
    """Decompresses and checks a batch, as a leader does."""
    opened = small_payload(codec, packed, MAX_DECOMPRESSED_BYTES)
    assert opened is not None and survey(header, opened[0], 0, opened[1]) is not None, "the batch is valid"


def batch_of(shape: Shape, rng: random.Random, words: list[bytes]) -> bytes:
    def value() -> bytes:
        size = rng.randint(shape.smallest, shape.largest)
        return b" ".join(rng.choices(words, k=size // 4 + 1))[:size]

    return encode_batch(
        [Record(-1, NOW_MS + nth * shape.span_ms // shape.count, None, value()) for nth in range(shape.count)]
    )


def cpu_seconds(work: Callable[[], object]) -> float:
    """Returns the least CPU time of several runs, because other processes can only increase it."""
    work()
    best = float("inf")
    for _ in range(REPEATS):
        begun = time.thread_time()
        rounds = 0
        while rounds < 3 or time.thread_time() - begun < 0.005:
            work()
            rounds += 1
        best = min(best, (time.thread_time() - begun) / rounds)
    return best


def show(name: str, seconds: float, records: int) -> None:
    print(f"{name:<70}{seconds / records * 1e9:>9,.0f} ns a record", flush=True)


if __name__ == "__main__":
    main()
