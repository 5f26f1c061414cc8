"""The table: its entries, the records that are on their way, and the tasks that read and write."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from kcli.client.client import Client
from kcli.client.records.partitioner import partition_of
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.reader import TableClosed, TableReader
from kcli.client.topic_table.topic import TableTopic, ensure_topic
from kcli.client.topic_table.writers import Writer
from kcli.errors import KcliError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.runtime.clock import Clock, SystemClock

IN_FLIGHT_BYTES_MAX = 32 << 20
"""The most bytes of records that are on their way (buffer.memory of Java's producer). A further put waits."""

WRITE_BYTES_MAX = 512 << 10
"""The bytes after which a request takes no further put. A broker accepts batches of 1 MB (message.max.bytes)."""

RECORD_OVERHEAD_BYTES = 100
"""The bytes of a record in memory beside its key and value, roughly."""


class Fenced(KcliError):
    """Raised by `put` if the `fence` of the table does not permit this process to write."""


@dataclass(slots=True, eq=False)
class _Put:
    """Records that are written together. `written` gets the offset after the last of them in each partition."""

    records: list[tuple[TopicPartition, Record]]
    size_bytes: int
    written: asyncio.Future[dict[TopicPartition, int]]


class TopicTable:
    """The last value of each key of a compacted topic. It is an async context manager that loads the table.

        topic = TableTopic(name="configs")
        async with TopicTable(topic, client, fetching=other_client, writer=IdempotentWriter(client)) as table:
            await table.put(b"key", b"value")

    The fetches need a client of their own: a broker answers the requests of a connection in order, and a fetch waits
    for new records. Without a `writer`, the table only reads.
    """

    def __init__(
        self,
        topic: TableTopic,
        client: Client,
        *,
        fetching: Client,
        writer: Writer | None = None,
        on_change: Callable[[Change], None] | None = None,
        read_committed: bool = False,
        may_write: Callable[[], bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`on_change` is called with each change in the order of its partition, also while the table loads.

        If records that the table has read are lost, it reads their partition again from its start. Then `on_change`
        gets the changes again. For a key without a record, it gets the lost record again, with the value None.

        `may_write` is called before each write. For example, it returns whether this member still leads its group. Only
        a TransactionalWriter also fences a process that does not know yet that it may no longer write.
        """
        self.entries: dict[bytes, Change] = {}
        self.partitions: tuple[TopicPartition, ...] = ()
        self._topic = topic
        self._client = client
        self._fetching = fetching
        self._writer = writer
        self._on_change = on_change
        self._read_committed = read_committed
        self._may_write = may_write
        self._clock: Clock = clock or SystemClock()
        self._reader: TableReader | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False
        self._puts: deque[_Put] = deque()
        self._has_puts = asyncio.Event()
        self._in_flight_bytes = 0
        self._has_room = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self.partitions = await ensure_topic(self._client, self._topic)
        self._reader = TableReader(
            self._client,
            self._fetching,
            self.partitions,
            self._take,
            read_committed=self._read_committed,
            on_reset=self._reset,
        )
        self._tasks = [asyncio.create_task(self._reader.run()), asyncio.create_task(self._write())]
        try:
            await self._reader.read_to_end()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops reading and writing. Puts that are not read back raise an error, and may or may not be in the topic."""
        self._is_closed = (
            True  # a put that still waits for room must not join the queue, because the writer ends
        )
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        _give_up(self._puts, TableClosed())
        self._puts.clear()

    @property
    def error(self) -> Exception | None:
        """The error that has ended the reader, so that the entries may be out of date."""
        return None if self._reader is None else self._reader.error

    def get(self, key: bytes) -> bytes | None:
        """Returns the last value of a key, or None if the table does not have the key."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    async def read_to_end(self) -> None:
        """Waits until the table has all changes that are in the topic at the time of the call."""
        assert self._reader is not None, "the table is open"
        await self._reader.read_to_end()

    async def claim(self) -> None:
        """Makes this process the only writer, and then reads the changes of the writers before it."""
        assert self._writer is not None, "the table has a writer"
        await self._writer.claim()
        await self.read_to_end()

    async def put(self, key: bytes, value: bytes | None) -> None:
        """Writes a value, and waits until the table has it. After an error, the value may be in the topic or not."""
        await self.put_all([(key, value)])

    async def delete(self, key: bytes) -> None:
        """Deletes a key, and waits until the table does not have it."""
        await self.put(key, None)

    async def put_all(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Writes several values, in one transaction if the writer has transactions. Waits until the table has them."""
        assert self._reader is not None, "the table is open"
        if not entries:
            return  # before transaction.version 2, a coordinator refuses to end a transaction without partitions
        records = self.records_of(entries)
        size = sum(RECORD_OVERHEAD_BYTES + len(key) + len(value or b"") for key, value in entries)
        await self._enter(size)
        try:
            if self._is_closed:
                raise TableClosed
            put = _Put(records, size, asyncio.get_running_loop().create_future())
            self._puts.append(put)
            self._has_puts.set()
            await self._reader.reached(await put.written)
        finally:
            await self._exit(size)

    def records_of(
        self, entries: Sequence[tuple[bytes, bytes | None]]
    ) -> list[tuple[TopicPartition, Record]]:
        """The records that these values become, each with its partition."""
        now_ms, count = self._clock.now_ms(), len(self.partitions)
        return [
            (self.partitions[partition_of(key, count)], Record(timestamp_ms=now_ms, key=key, value=value))
            for key, value in entries
        ]

    # Puts on their way.

    async def _enter(self, size_bytes: int) -> None:
        """Waits for room. A put that is larger than the limit waits until it is alone."""
        async with self._has_room:
            await self._has_room.wait_for(
                lambda: not self._in_flight_bytes or self._in_flight_bytes + size_bytes <= IN_FLIGHT_BYTES_MAX
            )
            self._in_flight_bytes += size_bytes

    async def _exit(self, size_bytes: int) -> None:
        self._in_flight_bytes -= size_bytes
        async with self._has_room:
            self._has_room.notify_all()

    async def _write(self) -> None:
        """Writes the puts in their order. Puts that come during a write are in the next write."""
        while True:
            await self._has_puts.wait()
            puts = self._next_puts()
            try:
                await self._write_together(puts)
            except Exception as error:
                _give_up(puts, error)
            finally:
                _give_up(puts, TableClosed())

    def _next_puts(self) -> list[_Put]:
        puts: list[_Put] = []
        size_bytes = 0
        while self._puts and (not puts or size_bytes + self._puts[0].size_bytes <= WRITE_BYTES_MAX):
            put = self._puts.popleft()
            puts.append(put)
            size_bytes += put.size_bytes
        if not self._puts:
            self._has_puts.clear()
        return puts

    async def _write_together(self, puts: list[_Put]) -> None:
        assert self._writer is not None, "the table has a writer"
        if self._may_write is not None and not self._may_write():
            raise Fenced(f"this process may no longer write to topic {self._topic.name}")
        by_partition: dict[TopicPartition, list[Record]] = {}
        ends: list[dict[TopicPartition, int]] = []
        for put in puts:
            for partition, record in put.records:
                by_partition.setdefault(partition, []).append(record)
            ends.append({partition: len(by_partition[partition]) for partition, _ in put.records})
        offsets = await self._writer.write(by_partition)
        for put, counts in zip(puts, ends, strict=True):
            if not put.written.done():
                put.written.set_result(
                    {partition: offsets[partition] + count for partition, count in counts.items()}
                )

    def _take(self, change: Change) -> None:
        if change.key is not None and change.value is not None:
            self.entries[change.key] = change
        elif change.key is not None:
            self.entries.pop(change.key, None)
        if self._on_change is not None:
            self._on_change(change)

    def _reset(self, partition: TopicPartition) -> Callable[[], None]:
        """Notes the entries of a partition. The returned function deletes those that were not read again."""
        entries = [entry for entry in self.entries.items() if entry[1].partition == partition]

        def drop_lost() -> None:
            for key, change in entries:
                if self.entries.get(key) is change:
                    self._take(replace(change, value=None))

        return drop_lost


def _give_up(puts: Iterable[_Put], error: Exception) -> None:
    """Raises an error to the callers that still wait for their puts to be written."""
    for put in puts:
        if not put.written.done():
            put.written.set_exception(error)


def in_parts(entries: Iterable[tuple[bytes, bytes | None]]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    """Divides entries so that each part fits into a batch that a broker accepts. A part has at least one entry."""
    part: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in entries:
        bytes_more = RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")
        if part and size + bytes_more > WRITE_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append((key, value))
        size += bytes_more
    if part:
        yield part
