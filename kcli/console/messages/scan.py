"""Reads the records of a topic for a list: forwards from an offset or a time, or backwards from the end.

The records of all partitions are merged in the order of their timestamps. A lane is the state of one partition. If a
lane has no matching record yet, its next match may come before the matches of other lanes. So the merge waits until
this lane has read further. A scan ends at the end offsets that the partitions had when the scan began, or at a limit.
At its end, a scan returns a cursor: the offsets at which the next scan continues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import partial

from kcli.console.messages.events import Event
from kcli.console.messages.fetching import Fetched, TopicFetcher
from kcli.console.messages.limits import (
    CHUNK_BYTES,
    FETCHES_AT_ONCE,
    PROGRESS_SECONDS,
    SCAN_BYTES,
    SCAN_RECORDS,
    SCAN_SECONDS,
    WINDOW_BYTES,
)
from kcli.console.messages.matching import (
    Match,
    MatchResult,
    Selection,
    Stop,
    first_matches,
    last_matches,
    next_offset,
)
from kcli.console.messages.positions import Lanes, Start, first_lanes
from kcli.console.messages.rows import Json
from kcli.console.messages.work import Workers, few_at_once

WINDOWS_RECORDS = 5_000
"""The number of records in the first windows of all partitions together."""

WINDOW_GROWTH = 4
"""The factor by which the next window is larger if a window had too few matching records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The records that a page requests. Without `partitions`, all partitions are read."""

    start: Start
    partitions: tuple[int, ...] | None = None
    cursor: Mapping[int, int] | None = None
    selection: Selection = field(kw_only=True)
    max_records: int = SCAN_RECORDS
    max_bytes: int = SCAN_BYTES
    max_seconds: float = SCAN_SECONDS


@dataclass(slots=True)
class Lane:
    """The state of one partition: the offsets that are left to read, and the matches that are not yet sent."""

    partition: int
    low: int
    high: int
    window: int
    matches: deque[Match] = field(default_factory=deque)
    frontier_ms: int | None = None

    @property
    def is_read(self) -> bool:
        return self.low >= self.high

    @property
    def needs_more(self) -> bool:
        return not self.matches and not self.is_read


class Scan:
    """One scan. `events` yields its results."""

    def __init__(self, fetcher: TopicFetcher, request: ScanRequest, workers: Workers) -> None:
        self._fetcher, self._request, self._workers = fetcher, request, workers
        self._is_backward = request.start.is_backward
        self._lanes: list[Lane] = []
        self._sent = 0
        self._records = self._bytes = self._unknown = 0
        self._stop = Stop(request.max_seconds)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yields messages and progress, and at last `done` with the cursor of the next scan."""
        lanes = await first_lanes(
            self._fetcher, self._request.start, self._request.partitions, self._request.cursor
        )
        self._open(lanes)
        reported = asyncio.get_running_loop().time()
        try:
            while (reason := self._end()) is None:
                await self._read_further()
                if rows := self._merged():
                    yield Event("message", {"rows": rows})
                now = asyncio.get_running_loop().time()
                if now - reported >= PROGRESS_SECONDS:
                    reported = now
                    yield Event("progress", self._progress())
            yield Event("done", self._progress() | self._result(reason, lanes))
        finally:
            self._stop.close()

    def _open(self, lanes: Lanes) -> None:
        window = self._request.selection.limit
        if len(lanes.bounds):
            window = max(1, min(window, WINDOWS_RECORDS // len(lanes.bounds)))
        self._lanes = [
            Lane(partition, bounds.start, bounds.end, window) for partition, bounds in lanes.bounds.items()
        ]

    def _end(self) -> str | None:
        """The reason why the scan ends now, or None if it continues."""
        if self._sent >= self._request.selection.limit:
            return "limit"
        if all(lane.is_read and not lane.matches for lane in self._lanes):
            return "end"
        if self._records >= self._request.max_records:
            return "records"
        if self._bytes >= self._request.max_bytes:
            return "bytes"
        return "time" if self._stop else None

    async def _read_further(self) -> None:
        """Reads one chunk of each partition that needs it, a few partitions at a time."""
        needy = [lane for lane in self._lanes if lane.needs_more]
        await few_at_once(needy, self._read_window if self._is_backward else self._read_chunk)

    async def _read_chunk(self, lane: Lane) -> None:
        if self._stop:
            return
        fetched = await self._fetch(lane, lane.low)
        selection, stop = self._request.selection, self._stop
        result = await self._workers.run(partial(first_matches, fetched, lane.high, selection, stop))
        lane.low = result.next_offset
        lane.frontier_ms = result.last_timestamp_ms
        self._took(lane, result)

    async def _read_window(self, lane: Lane) -> None:
        low = max(lane.low, lane.high - lane.window)
        window = await self._window(lane, low)
        while window is None:
            lane.window = max(1, (lane.high - low) // WINDOW_GROWTH)
            low = lane.high - lane.window
            window = await self._window(lane, low)
        selection, stop = self._request.selection, self._stop
        result = await self._workers.run(partial(last_matches, window, lane.high, selection, stop))
        if self._stop:
            return  # the window is not complete, so the next scan reads it again
        lane.high = result.matches[-1].offset if len(result.matches) >= selection.limit else low
        lane.window *= WINDOW_GROWTH
        lane.frontier_ms = result.first_timestamp_ms
        self._took(lane, result)

    async def _window(self, lane: Lane, low: int) -> list[Fetched] | None:
        """Fetches the records from offset `low` to the end of the lane. Returns None if these records have too many
        bytes."""
        window: list[Fetched] = []
        size, at = 0, low
        while at < lane.high and not self._stop:
            fetched = await self._fetch(lane, at)
            window.append(fetched)
            size += len(fetched.records)
            at = next_offset(fetched, lane.high)
            if at < lane.high and size >= WINDOW_BYTES and lane.high - low > 1:
                return None
        return window

    async def _fetch(self, lane: Lane, offset: int) -> Fetched:
        share = CHUNK_BYTES * FETCHES_AT_ONCE * 4 // max(len(self._lanes), 1)
        fetched = await self._fetcher.fetch(
            lane.partition, offset, max_bytes=max(1024, min(CHUNK_BYTES, share))
        )
        self._bytes += len(fetched.records)
        return fetched

    def _took(self, lane: Lane, result: MatchResult) -> None:
        lane.matches.extend(result.matches)
        self._records += result.records
        self._unknown += result.unknown

    def _merged(self) -> list[Json]:
        """Removes from the lanes the matches whose place in the order is certain, and returns these matches."""
        rows: list[Json] = []
        while self._sent < self._request.selection.limit:
            bounds = [self._key(lane.frontier_ms) for lane in self._lanes if lane.needs_more]
            bound = min(bounds, default=None)
            lane = min(
                (lane for lane in self._lanes if lane.matches),
                key=lambda lane: (self._key(lane.matches[0].timestamp_ms), lane.partition),
                default=None,
            )
            if lane is None or (bound is not None and self._key(lane.matches[0].timestamp_ms) > bound):
                break
            rows.append(lane.matches.popleft().row)
            self._sent += 1
        return rows

    def _key(self, timestamp_ms: int | None) -> float:
        """The place of a timestamp in the order of the scan. An unknown timestamp is before all others."""
        if timestamp_ms is None:
            return float("-inf")
        return -timestamp_ms if self._is_backward else timestamp_ms

    def _progress(self) -> dict[str, Json]:
        return {
            "records": self._records,
            "bytes": self._bytes,
            "unknown": self._unknown,
            "rows": self._sent,
        }

    def _result(self, reason: str, lanes: Lanes) -> dict[str, Json]:
        cursor = {str(lane.partition): self._continues_at(lane) for lane in self._lanes}
        errors: dict[str, Json] = {str(partition): error.message for partition, error in lanes.errors.items()}
        return {"reason": reason, "cursor": dict(cursor), "errors": errors}

    def _continues_at(self, lane: Lane) -> int:
        """The offset at which the next scan continues. For a forward scan, this is the next offset to read. For a
        backward scan, it is the offset after the next offset to read.
        """
        if lane.matches:
            return lane.matches[0].offset + (1 if self._is_backward else 0)
        return lane.high if self._is_backward else lane.low
