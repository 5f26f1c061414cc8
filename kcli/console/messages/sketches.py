"""Figures over many records in little memory: the approximate number of distinct keys, and percentiles of sizes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Sizes = NDArray[np.int64]

REGISTER_BITS = 14
"""HyperLogLog with 16,384 registers: the standard error is 0.8 %, and the memory 16 KB."""

STEPS_PER_DOUBLING = 32
"""The classes of sizes between a size and its double, so that a percentile is at most 2.2 % too large or too small."""

SIZE_CLASSES = 1 + 32 * STEPS_PER_DOUBLING


class DistinctCount:
    """Counts distinct values approximately, from their 64-bit hashes (HyperLogLog, Flajolet and others, 2007)."""

    def __init__(self) -> None:
        self._registers = np.zeros(1 << REGISTER_BITS, np.uint8)

    def add(self, hashes: Hashes) -> None:
        """Adds hashes."""
        index = (hashes >> np.uint64(64 - REGISTER_BITS)).astype(np.int64)
        rest = hashes << np.uint64(REGISTER_BITS)
        # The number of leading zeros of the other bits. The exponent of a float has the position of the first bit.
        _, exponents = np.frexp((rest >> np.uint64(11)).astype(np.float64))
        zeros = np.where(rest >> np.uint64(11) == 0, 64 - REGISTER_BITS, 53 - exponents)
        ranks = np.minimum(zeros + 1, 64 - REGISTER_BITS + 1).astype(np.uint8)
        np.maximum.at(self._registers, index, ranks)

    def estimate(self) -> int:
        """The approximate number of distinct values."""
        count = len(self._registers)
        total = float(np.sum(np.exp2(-self._registers.astype(np.float64))))
        raw = 0.7213 / (1 + 1.079 / count) * count * count / total
        empty = int(np.count_nonzero(self._registers == 0))
        if raw <= 2.5 * count and empty:
            return round(count * math.log(count / empty))
        return round(raw)


class SizeDistribution:
    """The distribution of sizes in bytes. The width of a class grows with the size, so a percentile has a relative
    error."""

    def __init__(self) -> None:
        self._counts = np.zeros(SIZE_CLASSES, np.int64)
        self.total_bytes = 0
        self.largest = 0

    def add(self, sizes: Sizes) -> None:
        """Adds sizes of 0 or more."""
        if not len(sizes):
            return
        classes = np.zeros(len(sizes), np.int64)
        positive = sizes > 0
        classes[positive] = 1 + (np.log2(sizes[positive]) * STEPS_PER_DOUBLING).astype(np.int64)
        self._counts += np.bincount(np.minimum(classes, SIZE_CLASSES - 1), minlength=SIZE_CLASSES)
        self.total_bytes += int(sizes.sum())
        self.largest = max(self.largest, int(sizes.max()))

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def percentile(self, share: float) -> int:
        """The size below which about this share of the sizes lies, or 0 without sizes."""
        if not self.count:
            return 0
        rank = min(math.ceil(share * self.count), self.count)
        index = int(np.searchsorted(np.cumsum(self._counts), rank))
        if index == 0:
            return 0
        return min(round(2 ** ((index - 0.5) / STEPS_PER_DOUBLING)), self.largest)
