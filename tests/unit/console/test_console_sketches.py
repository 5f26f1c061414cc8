"""Approximate figures: how near they are to the exact ones. And the partition of a key."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

from kcli.client.records.partitioner import murmur2, partition_of
from kcli.console.messages.sketches import DistinctCount, SizeDistribution


def hashes(count: int) -> np.ndarray:
    return np.array([xxhash.xxh3_64_intdigest(b"%d" % number) for number in range(count)], np.uint64)


@pytest.mark.parametrize("count", [0, 1, 10, 1_000, 20_000, 200_000])
def test_distinct_values_are_counted_within_three_percent(count: int) -> None:
    sketch = DistinctCount()
    for _ in range(2):
        sketch.add(hashes(count))
    assert sketch.estimate() == pytest.approx(count, rel=0.03)


def test_percentiles_are_within_three_percent() -> None:
    sizes = np.arange(1, 100_001)
    distribution = SizeDistribution()
    distribution.add(sizes)
    distribution.add(np.array([], np.int64))
    for share in (0.01, 0.5, 0.95, 0.99):
        assert distribution.percentile(share) == pytest.approx(share * 100_000, rel=0.03)
    assert distribution.percentile(1.0) == pytest.approx(100_000, rel=0.03)
    assert (distribution.total_bytes, distribution.largest, distribution.count) == (
        int(sizes.sum()),
        100_000,
        100_000,
    )


def test_sizes_of_zero_and_no_sizes_have_percentiles() -> None:
    distribution = SizeDistribution()
    assert distribution.percentile(0.5) == 0
    distribution.add(np.array([0, 0, 0, 8], np.int64))
    assert (distribution.percentile(0.5), distribution.percentile(0.99)) == (0, 8)


def test_a_key_has_the_partition_of_javas_producer() -> None:
    # The values are those of Kafka's own test of murmur2.
    for key, expected in (
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ):
        assert murmur2(key) == expected % (1 << 32)
    assert partition_of(b"abc", 10) == 7
