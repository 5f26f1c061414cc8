"""Follows the new records of a topic for a page.

The page sets the speed, because an event is made only after the page has taken the previous event. Until then, no
record waits in memory. If the topic is faster than the page or the console, the tail continues near the end. It reports
how many offsets it has left out. So neither a fast topic nor a slow page increases the memory of the console.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from functools import partial

from kcli.console.messages.events import Event
from kcli.console.messages.fetching import TopicFetcher
from kcli.console.messages.limits import CHUNK_BYTES
from kcli.console.messages.matching import Match, MatchResult, Selection, Stop, first_matches
from kcli.console.messages.positions import checked_partitions
from kcli.console.messages.rows import Json
from kcli.console.messages.work import Workers, few_at_once
from kcli.errors import KafkaError

WAIT_MS = 500
"""The longest time that a broker waits for new records."""

TURN_SECONDS = 0.25
"""The shortest time between two events. A person cannot read more often."""

QUIET_SECONDS = 2.0
"""The time between two reports of progress without new records."""

TURN_ROWS = 50
"""The most rows of one event, so that a page gets at most 200 rows a second."""

BEHIND_RECORDS = 20_000
"""The most records by which a tail may be behind the end. If the tail is further behind, it continues KEPT_RECORDS
before the end.
"""

KEPT_RECORDS = 1_000

MAX_PARTITIONS = 1_000
"""The most partitions that a tail follows."""


@dataclass(slots=True)
class _Place:
    """The next offset to read in a partition."""

    partition: int
    offset: int
    end: int


class Tail:
    """One live tail. `events` yields its events until the page closes the stream."""

    def __init__(
        self,
        fetcher: TopicFetcher,
        selection: Selection,
        workers: Workers,
        partitions: tuple[int, ...] | None = None,
    ) -> None:
        self._fetcher, self._workers, self._partitions = fetcher, workers, partitions
        self._selection = replace(selection, limit=TURN_ROWS)
        self._places: list[_Place] = []
        self._records = self._unknown = 0
        self._dropped = self._said_dropped = 0
        self._problem: str | None = None
        self._has_news = False
        self._stop = Stop(float("inf"))

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yields the rows of new records, and `progress` after new records or after QUIET_SECONDS."""
        await self._open()
        yield Event("progress", self._progress())
        loop = asyncio.get_running_loop()
        reported = loop.time()
        try:
            while True:
                began = loop.time()
                for event in self._reported(await self._turn(began + TURN_SECONDS)):
                    yield event
                if self._has_news or began - reported >= QUIET_SECONDS:
                    reported, self._has_news = began, False
                    yield Event("progress", self._progress())
                await asyncio.sleep(max(0.0, TURN_SECONDS - (loop.time() - began)))
        finally:
            self._stop.close()

    def _reported(self, matches: list[Match]) -> Iterator[Event]:
        """Yields the newest rows of one turn, and the number of records that were left out since the last turn."""
        matches.sort(key=lambda match: match.timestamp_ms)
        left_out = max(0, len(matches) - TURN_ROWS)
        self._dropped += left_out
        if matches:
            rows: list[Json] = [match.row for match in matches[left_out:]]
            yield Event("message", {"rows": rows})
        if self._dropped > self._said_dropped:
            new, self._said_dropped = self._dropped - self._said_dropped, self._dropped
            yield Event("dropped", {"records": new, "total": self._dropped})

    async def _open(self) -> None:
        numbers = (await checked_partitions(self._fetcher, self._partitions))[:MAX_PARTITIONS]
        bounds, _ = await self._fetcher.bounds(numbers)
        self._places = [_Place(partition, span.end, span.end) for partition, span in bounds.items()]

    async def _turn(self, deadline: float) -> list[Match]:
        """Reads the new records of each partition, until the deadline."""
        await self._look_at_ends()
        matches: list[Match] = []
        if all(place.offset >= place.end for place in self._places):
            if len(self._places) == 1:  # the broker waits, so that a record arrives without delay
                await self._read(self._places[0], matches, max_wait_ms=WAIT_MS)
            return matches

        async def read(place: _Place) -> None:
            most = len(matches) + TURN_ROWS
            while place.offset < place.end and len(matches) < most:
                is_over = asyncio.get_running_loop().time() >= deadline
                if not await self._read(place, matches) or is_over:
                    return

        await few_at_once([place for place in self._places if place.offset < place.end], read)
        return matches

    async def _look_at_ends(self) -> None:
        """Requests the end offsets, so that only partitions with new records are read."""
        bounds, errors = await self._fetcher.bounds([place.partition for place in self._places])
        problem = next((error.message for error in errors.values()), None)
        self._has_news |= problem != self._problem
        self._problem = problem
        for place in self._places:
            if place.partition in bounds:
                self._move(place, bounds[place.partition].start, bounds[place.partition].end)

    def _move(self, place: _Place, start: int, end: int) -> None:
        place.end = end
        if end < place.offset:  # the topic was deleted and created again
            place.offset = start
        place.offset = max(place.offset, start)
        if end - place.offset > BEHIND_RECORDS:
            self._dropped += end - KEPT_RECORDS - place.offset
            place.offset = end - KEPT_RECORDS

    async def _read(self, place: _Place, matches: list[Match], max_wait_ms: int = 0) -> bool:
        """Reads one chunk, and adds its matches. Returns whether it had records."""
        try:
            fetched = await self._fetcher.fetch(
                place.partition, place.offset, max_bytes=CHUNK_BYTES, max_wait_ms=max_wait_ms
            )
        except KafkaError as error:  # the next turn requests the end offsets again
            self._problem = error.message
            return False
        if not fetched.records:
            return False
        result = await self._workers.run(
            partial(first_matches, fetched, max(place.end, fetched.end), self._selection, self._stop)
        )
        self._took(place, result)
        matches.extend(result.matches)
        return True

    def _took(self, place: _Place, result: MatchResult) -> None:
        place.offset = result.next_offset
        self._has_news |= result.records > 0
        self._records += result.records
        self._unknown += result.unknown

    def _progress(self) -> dict[str, Json]:
        return {
            "records": self._records,
            "dropped": self._dropped,
            "unknown": self._unknown,
            "partitions": len(self._places),
            "problem": self._problem,
        }
