"""Batches for `bench/hostile.py`: each is sent to a compacted topic while a neighbour is timed.

A row is (name, batch, error code). `bench/hostile.py` sends the batch again and again on one connection.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import ErrorCode
from kcli.protocol.batches.compression import Codec

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rigs.hostile_batches import equal_deltas, large_values, zeros


@dataclass(frozen=True, slots=True)
class HostileBatch:
    """A batch that takes much work for its size. `make` takes the present time in milliseconds."""

    name: str
    make: Callable[[int], bytes]
    code: ErrorCode


HOSTILE_BATCHES = (
    HostileBatch(
        "1,000,000 records of equal offset deltas in 900 bytes of zstd",
        lambda now_ms: equal_deltas(1_000_000, now_ms),
        ErrorCode.NONE,
    ),
    HostileBatch(
        "8,000,000 records of equal offset deltas in 7 kB of zstd",
        lambda now_ms: equal_deltas(8_000_000, now_ms),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    HostileBatch(
        "1,000,000 records without a key in 900 bytes of zstd",
        lambda now_ms: equal_deltas(1_000_000, now_ms, key=None),
        ErrorCode.INVALID_RECORD,
    ),
    HostileBatch(
        "1 GB of zeros in 1 MB of gzip",
        lambda now_ms: zeros(1_000_000_000, now_ms, codec=Codec.GZIP),
        ErrorCode.INVALID_RECORD,
    ),
    HostileBatch(
        "1 GB of sound records in 1 MB of gzip",
        lambda now_ms: large_values(1_000, 1_000_000, now_ms, codec=Codec.GZIP),
        ErrorCode.NONE,
    ),
    HostileBatch(
        "10 GB of sound records in 400 kB of zstd",
        lambda now_ms: large_values(10_000, 1_000_000, now_ms, codec=Codec.ZSTD),
        ErrorCode.NONE,
    ),
    HostileBatch(
        "one record of 1 GB in 33 kB of zstd",
        lambda now_ms: large_values(1, 1_000_000_000, now_ms, codec=Codec.ZSTD),
        ErrorCode.NONE,
    ),
)
