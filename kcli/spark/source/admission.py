"""Applies the limits of a micro-batch: a maximum of offsets or bytes, and a minimum of offsets that applies until a
delay has passed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from kcli.model.topic_partition import TopicPartition
from kcli.spark.options import SourceOptions
from kcli.spark.source.offsets import OffsetRange, Offsets


class Admission:
    """Applies the limits of a stream to each micro-batch, and stores the time of the last one.

    `density` estimates the average number of bytes per offset in a range.
    """

    def __init__(self, options: SourceOptions, density: Callable[[OffsetRange], float]) -> None:
        self._options, self._density = options, density
        self._last_batch = -math.inf  # the first batch does not wait, as in Spark's own source

    def end(self, start: Offsets, end: Offsets, *, may_wait: bool) -> Offsets | None:
        """Returns `end`, lowered so that the micro-batch keeps the limits. Returns None if the micro-batch should wait
        for more offsets.
        """
        options = self._options
        sizes = {part: max(0, offset - start.get(part, offset)) for part, offset in end.items()}
        least, delay = options.min_offsets_per_trigger, options.max_trigger_delay_ms / 1000
        is_early = time.monotonic() - self._last_batch < delay
        if may_wait and is_early and least is not None and sum(sizes.values()) < least:
            return None
        if any(sizes.values()):
            self._last_batch = time.monotonic()
        if options.max_bytes_per_trigger is not None:
            sizes = self._within_bytes(start, sizes, options.max_bytes_per_trigger)
        if options.max_offsets_per_trigger is not None:
            sizes = shared(sizes, options.max_offsets_per_trigger)
        # If the end of a partition is before its start, the end is not changed. So the truncation of the log is
        # reported later.
        return {part: min(start.get(part, offset), offset) + sizes[part] for part, offset in end.items()}

    def _within_bytes(
        self, start: Offsets, sizes: Mapping[TopicPartition, int], limit: int
    ) -> dict[TopicPartition, int]:
        """Returns how many offsets to read from each partition, for about `limit` bytes in total.

        The result allows at least one offset, so that the stream makes progress.
        """
        ranges = [OffsetRange(part, start[part], start[part] + size) for part, size in sizes.items() if size]
        weights = {offset_range.part: self._density(offset_range) for offset_range in ranges}
        total = sum(size * weights[part] for part, size in sizes.items() if size)
        if total <= limit:
            return dict(sizes)
        allowed = {part: int(size * limit / total) for part, size in sizes.items()}
        return allowed if any(allowed.values()) else shared(sizes, 1)


def shared(sizes: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """Divides `limit` offsets among the partitions in proportion to the numbers of offsets that they could read."""
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    shares = {part: size * limit // total for part, size in sizes.items()}
    left = limit - sum(shares.values())
    # The shares are rounded down, and the first partitions get the remaining offsets. So even a small limit makes
    # progress.
    for part, size in sizes.items():
        more = min(left, size - shares[part])
        shares[part] += more
        left -= more
    return shares
