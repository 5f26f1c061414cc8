"""Reads a whole topic once, and computes figures about it: totals, null keys, distinct keys, sizes, records an hour."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial

import numpy as np
import xxhash

from kcli.console.messages.events import Event
from kcli.console.messages.fetching import Fetched, TopicFetcher
from kcli.console.messages.limits import PROGRESS_SECONDS
from kcli.console.messages.matching import Stop, columns_of, next_offset
from kcli.console.messages.positions import Lanes, Start, first_lanes
from kcli.console.messages.rows import Json
from kcli.console.messages.sketches import DistinctCount, Hashes, SizeDistribution
from kcli.console.messages.work import Workers
from kcli.protocol.batches.columns import Columns, Spans

ANALYSIS_SECONDS = 3_600.0
"""The longest analysis. At 100 MB/s, an analysis reads 360 GB in this time."""

FETCH_BYTES = 4 << 20
"""The size of one Fetch answer. It is larger than CHUNK_BYTES, because an analysis reads the whole topic."""

MAX_HOURS = 24 * 366
"""The most hours with a count of their own. The number is limited, because producers can set any timestamp."""

HOUR_MS = 3_600_000
SHARES = {"p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99, "p999": 0.999}


class Figures:
    """The figures of the records that were read. The figures need the same memory for a large topic as for a small
    topic."""

    def __init__(self) -> None:
        self.records = self.null_keys = self.null_values = self.headers = 0
        self._first_ms: int | None = None
        self._last_ms: int | None = None
        self._hours: Counter[int] = Counter()
        self._other_hours = 0
        self._keys, self._values = DistinctCount(), DistinctCount()
        self._key_sizes, self._value_sizes = SizeDistribution(), SizeDistribution()

    def add(self, columns: Columns) -> None:
        """Adds the records of a chunk."""
        assert columns.keys is not None and columns.values is not None and columns.timestamps is not None
        if not len(columns):
            return
        self.records += len(columns)
        self.null_keys += int(np.count_nonzero(columns.keys.lengths < 0))
        self.null_values += int(np.count_nonzero(columns.values.lengths < 0))
        if columns.headers is not None:
            self.headers += int(columns.headers.offsets[-1] - columns.headers.offsets[0])
        self._key_sizes.add(columns.keys.lengths[columns.keys.lengths >= 0])
        self._value_sizes.add(columns.values.lengths[columns.values.lengths >= 0])
        self._keys.add(_hashes(columns.buffer, columns.keys))
        self._values.add(_hashes(columns.buffer, columns.values))
        self._add_times(columns.timestamps)

    def _add_times(self, timestamps: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        first, last = int(timestamps.min()), int(timestamps.max())
        self._first_ms = first if self._first_ms is None else min(first, self._first_ms)
        self._last_ms = last if self._last_ms is None else max(last, self._last_ms)
        hours, counts = np.unique(timestamps // HOUR_MS, return_counts=True)
        for hour, count in zip(hours.tolist(), counts.tolist(), strict=True):
            if hour in self._hours or len(self._hours) < MAX_HOURS:
                self._hours[hour] += count
            else:
                self._other_hours += count

    def as_json(self) -> dict[str, Json]:
        """The figures for a page."""
        return {
            "records": self.records,
            "null_keys": self.null_keys,
            "tombstones": self.null_values,
            "headers": self.headers,
            "first_timestamp": self._first_ms,
            "last_timestamp": self._last_ms,
            "distinct_keys": min(self._keys.estimate(), self.records - self.null_keys),
            "distinct_values": min(self._values.estimate(), self.records - self.null_values),
            "key_sizes": _sizes(self._key_sizes),
            "value_sizes": _sizes(self._value_sizes),
            "hours": [[hour * HOUR_MS, count] for hour, count in sorted(self._hours.items())],
            "other_hours": self._other_hours,
        }


def _hashes(buffer: bytes, spans: Spans) -> Hashes:
    """The hash of each byte string that is not null."""
    digest = xxhash.xxh3_64_intdigest
    view = memoryview(buffer)
    starts, lengths = spans.starts.tolist(), spans.lengths.tolist()
    digests = [
        digest(view[start : start + length])
        for start, length in zip(starts, lengths, strict=True)
        if length >= 0
    ]
    return np.array(digests, np.uint64)


def _sizes(sizes: SizeDistribution) -> dict[str, Json]:
    figures: dict[str, Json] = {name: sizes.percentile(share) for name, share in SHARES.items()}
    return figures | {
        "total": sizes.total_bytes,
        "max": sizes.largest,
        "mean": round(sizes.total_bytes / sizes.count) if sizes.count else 0,
    }


class Analysis:
    """One analysis. `events` yields progress, and at last the figures. The analysis ends when the page closes the
    stream."""

    def __init__(self, fetcher: TopicFetcher, workers: Workers) -> None:
        self._fetcher, self._workers = fetcher, workers
        self._figures = Figures()
        self._bytes = self._offsets = 0
        self._partitions: list[Json] = []
        self._stop = Stop(ANALYSIS_SECONDS)

    async def events(
        self, start: Start, partitions: tuple[int, ...] | None = None
    ) -> AsyncGenerator[Event, None]:
        """Reads all partitions one after another, from `start` to the ends that they have now."""
        lanes = await first_lanes(self._fetcher, start, partitions)
        total = sum(bounds.end - bounds.start for bounds in lanes.bounds.values())
        reported = 0.0
        loop = asyncio.get_running_loop()
        try:
            for partition, bounds in lanes.bounds.items():
                at, before = bounds.start, self._figures.records
                while at < bounds.end and not self._stop:
                    fetched = await self._fetcher.fetch(partition, at, max_bytes=FETCH_BYTES)
                    await self._workers.run(partial(self._add, fetched, bounds.end))
                    following = min(next_offset(fetched, bounds.end), bounds.end)
                    self._offsets += following - at
                    at = following
                    if loop.time() - reported >= PROGRESS_SECONDS:
                        reported = loop.time()
                        yield Event("progress", self._progress(total))
                self._partitions.append(
                    {
                        "partition": partition,
                        "start": bounds.start,
                        "end": bounds.end,
                        "records": self._figures.records - before,
                    }
                )
            yield Event("done", self._progress(total) | self._result(lanes))
        finally:
            self._stop.close()

    def _add(self, fetched: Fetched, end: int) -> None:
        for columns in columns_of(fetched, end):
            if self._stop:
                return
            self._figures.add(columns)
        self._bytes += len(fetched.records)

    def _progress(self, total: int) -> dict[str, Json]:
        return {
            "records": self._figures.records,
            "bytes": self._bytes,
            "offsets": self._offsets,
            "total_offsets": total,
        }

    def _result(self, lanes: Lanes) -> dict[str, Json]:
        errors: dict[str, Json] = {str(partition): error.message for partition, error in lanes.errors.items()}
        return {
            "is_complete": not self._stop,
            "figures": self._figures.as_json(),
            "partitions": self._partitions,
            "errors": errors,
        }
