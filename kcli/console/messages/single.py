"""Reads one record, and the records of a download."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from functools import partial

from kcli.console.messages.fetching import TopicFetcher
from kcli.console.messages.limits import DOWNLOAD_BYTES, DOWNLOAD_RECORDS, DOWNLOAD_SECONDS, PIECE_BYTES
from kcli.console.messages.matching import Selection, Stop, next_offset, records_of
from kcli.console.messages.positions import Start, checked_partitions, first_lanes
from kcli.console.messages.record import ReadRecord
from kcli.console.messages.rows import envelope
from kcli.console.messages.work import Workers
from kcli.errors import KcliError


class NoSuchRecord(KcliError):
    """Raised if a partition has no record at an offset."""


async def read_one(fetcher: TopicFetcher, workers: Workers, partition: int, offset: int) -> ReadRecord:
    """Returns the record at an offset. Raises NoSuchRecord, UnknownPartition or a KafkaError."""
    await checked_partitions(fetcher, [partition])
    bounds, errors = await fetcher.bounds([partition])
    if partition in errors:
        raise errors[partition]
    start, end = bounds[partition].start, bounds[partition].end
    if not start <= offset < end:
        raise NoSuchRecord(
            f"{fetcher.topic}-{partition} has no offset {offset}: it has the offsets {start} to {end - 1}"
            if start < end
            else f"{fetcher.topic}-{partition} has no records"
        )
    fetched = await fetcher.fetch(partition, offset, max_bytes=1)  # brokers send the first batch whole
    record = await workers.run(lambda: next(records_of(fetched, offset + 1), None))
    if record is None:
        raise NoSuchRecord(
            f"{fetcher.topic}-{partition} has no record at offset {offset}: compaction removed it, or the "
            "offset belongs to a transaction's marker"
        )
    return record


class Download:
    """The matching records of a topic as JSON Lines, in the format of `console-consumer --output json`."""

    def __init__(self, fetcher: TopicFetcher, start: Start, selection: Selection, workers: Workers) -> None:
        self._fetcher, self._start, self._selection, self._workers = fetcher, start, selection, workers
        self._left = min(selection.limit, DOWNLOAD_RECORDS)
        self._left_bytes = DOWNLOAD_BYTES
        self._stop = Stop(DOWNLOAD_SECONDS)

    async def pieces(self, partitions: tuple[int, ...] | None = None) -> AsyncGenerator[bytes, None]:
        """Yields lines, one partition after another, until a limit is reached."""
        lanes = await first_lanes(self._fetcher, self._start, partitions)
        try:
            for partition, bounds in lanes.bounds.items():
                at = bounds.start
                while at < bounds.end and not self._is_over:
                    fetched = await self._fetcher.fetch(partition, at)
                    records = records_of(fetched, bounds.end)
                    while lines := await self._workers.run(partial(self._lines, records)):
                        yield lines
                    at = next_offset(fetched, bounds.end)
        finally:
            self._stop.close()

    @property
    def _is_over(self) -> bool:
        return self._left <= 0 or self._left_bytes <= 0 or bool(self._stop)

    def _lines(self, records: Iterator[ReadRecord]) -> bytes:
        """The next lines, about a megabyte in total. The result is empty after the last record."""
        lines = bytearray()
        for record in records:
            if self._is_over:
                break
            if self._selection.holds(record):
                lines += envelope(record, self._fetcher.topic)
                self._left -= 1
            if len(lines) >= PIECE_BYTES:
                break
        self._left_bytes -= len(lines)
        return bytes(lines)
