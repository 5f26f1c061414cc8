"""Reads a topic from its beginning, follows it, and knows how far it has read."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcli.client.admin.offsets import list_offsets
from kcli.client.client import Client
from kcli.client.records.fetch import FetchLimits, aborted_transactions, readable_end, reading_error
from kcli.client.records.records import Records, value_of
from kcli.client.topic_table.changes import Change, changes_of
from kcli.errors import ErrorCode, KafkaError, KcliError, ProtocolError
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.fetch import PartitionData

FETCH_WAIT_MS = 500
"""The time for which a broker waits for new records (fetch.max.wait.ms of Java's consumer)."""

FETCH_BYTES = 1 << 20
"""The most bytes of one partition in an answer (max.partition.fetch.bytes of Java's consumer)."""

CHANGES_PER_TURN = 500
"""Changes that are applied in one iteration of the event loop: a few milliseconds."""

_READ = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)

_ATTEMPT_ERRORS = (KafkaError, ProtocolError, OSError)
"""The errors of a request. Another attempt may succeed, except after a KafkaError that is not retriable."""

Result = tuple[int, PartitionData | KafkaError]
"""The offset of a fetch, and its answer for one partition."""

_log = logging.getLogger("kcli.client.topic_table")


class TableClosed(KcliError):
    """Raised to callers that wait for a table while it is closed."""

    def __init__(self) -> None:
        super().__init__("the table is closed")


class LostRecords(KcliError):
    """Raised to callers that wait for an offset if the records before it were lost by an unclean election."""

    def __init__(self, partition: TopicPartition, offset: int, end: int) -> None:
        super().__init__(f"the records of {partition} from {end} to {offset} are lost")


def _nothing() -> None:
    return


def _ignore(_: TopicPartition) -> Callable[[], None]:
    return _nothing


@dataclass(frozen=True, slots=True)
class _Reset:
    """A partition that is read again from its start. `finish` is called when the position is at `end` or after it."""

    end: int
    order: int
    """Later waits have a larger number, and need no record that was lost before the reset."""
    finish: Callable[[], None]


class TableReader:
    """The positions in the partitions of one topic. `take` is called with each change, in the order of a partition.

    The reader has at most one unanswered fetch at each leader. After a change of leader and after errors it continues
    at its positions. If a position is out of range, the reader reads the partition again from its start.
    """

    def __init__(
        self,
        client: Client,
        fetching: Client,
        partitions: Iterable[TopicPartition],
        take: Callable[[Change], None],
        *,
        read_committed: bool,
        on_reset: Callable[[TopicPartition], Callable[[], None]] = _ignore,
    ) -> None:
        """`fetching` is for the fetches only, because they delay the other requests of their connection.

        `on_reset` is called before a partition is read again from its start. The function that it returns is called
        when all records that the partition had at that time are read.
        """
        self.positions = dict.fromkeys(partitions, 0)
        """The offset after the last record that was read."""
        self._client = client
        self._records = Records(fetching)
        self._take = take
        self._on_reset = on_reset
        self._resets: dict[TopicPartition, _Reset] = {}
        self._level = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self._fetches: dict[int, asyncio.Task[dict[TopicPartition, Result]]] = {}
        """The unanswered fetch at each leader."""
        self._fetched: dict[int, list[TopicPartition]] = {}
        self._waiting: dict[TopicPartition, list[tuple[int, int, asyncio.Future[None]]]] = {
            partition: [] for partition in self.positions
        }
        self._order = itertools.count()
        self.error: Exception | None = None
        """The error that has ended the reader."""
        self._backoff_s = self._first_backoff_s

    async def run(self) -> None:
        """Reads until it is cancelled. Raises the KafkaError of a request that no other attempt can repair."""
        try:
            while True:
                is_complete = await self._start_fetches()
                timeout_s = None if is_complete else self._backoff_s
                if not self._fetches:
                    await asyncio.sleep(self._backoff_s)
                    self._back_off()
                    continue
                done, _ = await asyncio.wait(
                    self._fetches.values(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
                for node_id in [fetch_id for fetch_id, task in self._fetches.items() if task in done]:
                    del self._fetched[node_id]
                    await self._apply(self._fetches.pop(node_id).result())
        except BaseException as error:
            self._fail(error if isinstance(error, Exception) else TableClosed())
            raise
        finally:
            for task in self._fetches.values():
                task.cancel()
            await asyncio.gather(*self._fetches.values(), return_exceptions=True)

    async def reached(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Waits until the positions are at these offsets or after them. Raises the error that has ended the reader."""
        for partition, offset in offsets.items():
            if self.error is not None:
                raise self.error
            if self.positions[partition] < offset:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                heapq.heappush(self._waiting[partition], (offset, next(self._order), future))
                await future

    async def read_to_end(self) -> None:
        """Reads to the ends that the partitions have at the time of the call."""
        ends = await list_offsets(
            self._client,
            dict.fromkeys(self.positions, LATEST),
            read_committed=self._level == READ_COMMITTED,
        )
        for partition, end in ends.items():
            with contextlib.suppress(LostRecords):  # the partition was read again to its new end
                await self.reached({partition: value_of(end).offset})

    # Fetches.

    async def _start_fetches(self) -> bool:
        """Sends a fetch to each leader that has none. Returns whether the leader of each partition is known."""
        busy = set(itertools.chain.from_iterable(self._fetched.values()))
        idle = [partition for partition in self.positions if partition not in busy]
        if not idle:
            return True
        try:
            leaders = await self._records.leaders(idle)
        except _ATTEMPT_ERRORS as error:
            _raise_final(error)
            return False
        by_node: dict[int, list[TopicPartition]] = {}
        is_complete = True
        for partition, leader in leaders.items():
            if isinstance(leader, KafkaError):
                _raise_final(leader)
                is_complete = False
            else:
                by_node.setdefault(leader.node_id, []).append(partition)
        for node_id, partitions in by_node.items():
            if node_id not in self._fetches:
                self._fetched[node_id] = partitions
                self._fetches[node_id] = asyncio.create_task(self._fetch(partitions))
        return is_complete

    async def _fetch(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Result]:
        offsets = {partition: self.positions[partition] for partition in partitions}
        limits = FetchLimits(
            max_wait_ms=FETCH_WAIT_MS,
            partition_max_bytes=FETCH_BYTES,
            isolation_level=self._level,
        )
        try:
            answers = await self._records.fetch(offsets, limits)
        except _ATTEMPT_ERRORS as error:
            _raise_final(error)
            answers = {}
        if not answers or any(map(_has_failed, answers.values())):
            await asyncio.sleep(self._backoff_s)
            self._back_off()
        else:
            self._backoff_s = self._first_backoff_s
        return {
            partition: (offset, answers[partition])
            for partition, offset in offsets.items()
            if partition in answers
        }

    async def _apply(self, results: dict[TopicPartition, Result]) -> None:
        """Applies the answers, which are in the order of the request.

        The first partition with records has at least one batch in the answer (KIP-74). So a partition without a batch
        has no records before its end if no partition before it has a batch: compaction has removed them.
        """
        had_records = []
        for partition, (offset, answer) in results.items():
            if isinstance(answer, KafkaError):
                _raise_final(answer)
            elif answer.error_code is ErrorCode.NONE:
                await self._apply_batches(partition, offset, answer)
                if answer.records:
                    had_records.append(partition)
                elif not had_records:
                    self._advance(partition, readable_end(answer, self._level))
            elif answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._reset(partition)
            else:
                _raise_final(reading_error(partition, offset, answer.error_code))
        for partition in had_records:
            # The last in the order of the next request, so that busy partitions do not delay the others.
            self.positions[partition] = self.positions.pop(partition)

    async def _apply_batches(self, partition: TopicPartition, offset: int, answer: PartitionData) -> None:
        aborted = aborted_transactions(answer, self._level)
        applied = 0
        for change in changes_of(partition, offset, bytes(answer.records or b""), aborted):
            if isinstance(change, int):
                self._advance(partition, change)
                continue
            self._take(change)
            applied += 1
            if applied % CHANGES_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _reset(self, partition: TopicPartition) -> None:
        """Reads the partition again from its start, as auto.offset.reset=earliest does.

        Either old records were deleted, or an unclean election has removed records that were read already. After an
        error that may pass, the next fetch is out of range too, so it repeats the reset.
        """
        try:
            start, end = await self._offset(partition, EARLIEST), await self._offset(partition, LATEST)
        except _ATTEMPT_ERRORS as error:
            _raise_final(error)
            await asyncio.sleep(self._backoff_s)
            self._back_off()
            return
        _log.warning("The offset %d of %s is out of range.", self.positions[partition], partition)
        self._resets[partition] = _Reset(end, next(self._order), self._on_reset(partition))
        self._move(partition, start)

    async def _offset(self, partition: TopicPartition, spec: int) -> int:
        is_committed = self._level == READ_COMMITTED
        offsets = await list_offsets(self._client, {partition: spec}, read_committed=is_committed)
        return value_of(offsets[partition]).offset

    def _advance(self, partition: TopicPartition, offset: int) -> None:
        self._move(partition, max(offset, self.positions[partition]))

    def _move(self, partition: TopicPartition, offset: int) -> None:
        """Sets a position, and wakes the callers that wait for it."""
        self.positions[partition] = offset
        reset = self._resets.get(partition)
        if reset is not None and reset.end <= offset:
            del self._resets[partition]
            reset.finish()
            self._give_up_lost(partition, reset)
        waiting = self._waiting[partition]
        while waiting and waiting[0][0] <= self.positions[partition]:
            _, _, future = heapq.heappop(waiting)
            if not future.done():  # the caller may have given up
                future.set_result(None)

    def _give_up_lost(self, partition: TopicPartition, reset: _Reset) -> None:
        """Raises LostRecords to callers that waited before the reset for an offset after the end of the partition."""
        for offset, order, future in self._waiting[partition]:
            if offset > self.positions[partition] and order < reset.order and not future.done():
                future.set_exception(LostRecords(partition, offset, self.positions[partition]))

    def _fail(self, error: Exception) -> None:
        self.error = error
        if not isinstance(error, TableClosed):
            # A program that only waits for changes would not notice that its table is out of date.
            topics = ", ".join({partition.topic for partition in self.positions})
            _log.error("The topic %s is not read any more: %r", topics, error)
        for _, _, future in itertools.chain.from_iterable(self._waiting.values()):
            if not future.done():
                future.set_exception(error)

    @property
    def _first_backoff_s(self) -> float:
        return self._client.config.retry_backoff_ms / 1000

    def _back_off(self) -> None:
        self._backoff_s = min(2 * self._backoff_s, self._client.config.retry_backoff_max_ms / 1000)


def _has_failed(answer: PartitionData | KafkaError) -> bool:
    return isinstance(answer, KafkaError) or answer.error_code not in _READ


def _raise_final(error: Exception) -> None:
    """Raises an error that every other attempt would get too."""
    if isinstance(error, KafkaError) and not error.retriable:
        raise error
