"""Fetches raw batches of the assigned partitions, as Java's consumer does without a group."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.records.fetch import FetchLimits, aborted_transactions, reading_error
from kcli.client.records.records import Leader, Records, value_of
from kcli.errors import ErrorCode, KafkaError, ProtocolError
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import parse_int, trim
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import iter_batches
from kcli.protocol.messages.fetch import PartitionData

_log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorSourceTask")

_ATTEMPT_ERRORS = (KafkaError, ProtocolError, OSError)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The keys of Java's consumer that matter for a fetch."""

    limits: FetchLimits
    records_max: int
    """The most records of one poll (max.poll.records)."""
    reset: int | None
    """Where a partition without a valid position begins: EARLIEST, LATEST, or None for an error."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FetchSettings:
        """Raises ConnectException."""
        isolation = trim(properties.get("isolation.level", "read_uncommitted")).lower()
        if isolation not in ("read_uncommitted", "read_committed"):
            raise ConnectException(
                f"Invalid value {isolation} for configuration isolation.level: String must be one of: "
                "read_committed, read_uncommitted"
            )
        reset = trim(properties.get("auto.offset.reset", "earliest")).lower()
        if reset not in _RESETS:
            raise ConnectException(
                f"Invalid value {reset} for configuration auto.offset.reset: expected earliest, latest or none"
            )
        return cls(
            FetchLimits(
                max_wait_ms=_number(properties, "fetch.max.wait.ms", 500),
                partition_max_bytes=_number(properties, "max.partition.fetch.bytes", 1 << 20),
                max_bytes=_number(properties, "fetch.max.bytes", 50 << 20),
                min_bytes=_number(properties, "fetch.min.bytes", 1),
                isolation_level=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
            ),
            max(_number(properties, "max.poll.records", 500), 1),
            _RESETS[reset],
        )


_RESETS: Mapping[str, int | None] = {"earliest": EARLIEST, "latest": LATEST, "none": None}


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    try:
        return default if text is None else parse_int(trim(text))
    except ValueError:
        raise ConnectException(
            f"Invalid value {text} for configuration {key}: Not a number of type INT"
        ) from None


@dataclass(frozen=True, slots=True)
class Fetched:
    """Batches of one partition. Records before `offset` were read before."""

    partition: TopicPartition
    offset: int
    batches: bytes
    aborted: tuple[AbortedTransaction, ...] | None
    """The aborted transactions, or None if they are read too."""


class Fetcher:
    """The positions of a task in its partitions. Its methods are called in one event loop.

    Each leader has at most one unanswered fetch, whose answer waits until it is taken. So memory is bounded.
    """

    def __init__(
        self,
        client: AdminClient,
        fetching: AdminClient,
        positions: Mapping[TopicPartition, int | None],
        settings: FetchSettings,
    ) -> None:
        """A position of None means that the partition begins where `settings.reset` says. `fetching` is for fetches
        only, because they delay the other requests of their connection."""
        self._client = client
        self._records = Records(fetching)
        self._settings = settings
        self._positions: dict[TopicPartition, int | None] = dict(positions)
        self._topic_ids: dict[TopicPartition, uuid.UUID | None] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._fetched: dict[int, tuple[TopicPartition, ...]] = {}
        self._ready: asyncio.Queue[list[Fetched]] = asyncio.Queue()

    async def next(self, timeout_s: float) -> list[Fetched]:
        """Waits up to `timeout_s` for batches. Errors that may pass are logged, and the fetch is tried again.

        Raises ConnectException if a position is invalid and there is no reset.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self._ready.empty():
                    await self._start_fetches()
                    if self._fetches:
                        await asyncio.wait(self._fetches.values(), return_when=asyncio.FIRST_COMPLETED)
                        self._end_fetches()
                    else:
                        await asyncio.sleep(self._backoff_s)
        except TimeoutError:
            return []
        fetched = self._ready.get_nowait()
        await self._start_fetches()
        return fetched

    async def close(self) -> None:
        for task in self._fetches.values():
            task.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)

    @property
    def _backoff_s(self) -> float:
        return self._client.config.retry_backoff_max_ms / 1000

    def _end_fetches(self) -> None:
        for node_id in [node_id for node_id, task in self._fetches.items() if task.done()]:
            del self._fetched[node_id]
            self._fetches.pop(node_id).result()

    async def _start_fetches(self) -> None:
        """Sends a fetch to each leader that has none, for partitions that are not part of an unanswered fetch."""
        self._end_fetches()
        busy = set(itertools.chain.from_iterable(self._fetched.values()))
        idle = [partition for partition in self._positions if partition not in busy]
        if not idle or not self._ready.empty():
            return
        try:
            leaders = await self._records.leaders(idle)
            self._notice_new_topics(leaders)
            await self._reset([partition for partition in idle if self._positions[partition] is None])
        except _ATTEMPT_ERRORS as error:
            _log.warning("Failure during poll.", exc_info=error)
            await asyncio.sleep(self._backoff_s)
            return
        by_node: dict[int, list[TopicPartition]] = {}
        for partition, leader in leaders.items():
            if isinstance(leader, Leader) and self._positions[partition] is not None:
                by_node.setdefault(leader.node_id, []).append(partition)
        for node_id, partitions in by_node.items():
            if node_id not in self._fetches:
                self._fetched[node_id] = tuple(partitions)
                self._fetches[node_id] = asyncio.create_task(self._fetch(partitions))

    def _notice_new_topics(self, leaders: Mapping[TopicPartition, Leader | KafkaError]) -> None:
        """Begins at the start of a topic that was deleted and created again, because its offsets begin again."""
        for partition, leader in leaders.items():
            if isinstance(leader, Leader):
                known = self._topic_ids.setdefault(partition, leader.topic_id)
                if known != leader.topic_id:
                    _log.warning(
                        "The topic of %s was created again, so it is read from its start.", partition
                    )
                    self._topic_ids[partition] = leader.topic_id
                    self._positions[partition] = None

    async def _reset(self, partitions: Iterable[TopicPartition]) -> None:
        """Finds a position for partitions without a valid one."""
        partitions = list(partitions)
        if not partitions:
            return
        if self._settings.reset is None:
            raise ConnectException(
                f"The position in {partitions[0]} is missing or out of range, and auto.offset.reset=none"
            )
        is_committed = self._settings.limits.isolation_level == READ_COMMITTED
        offsets = await self._client.list_offsets(
            dict.fromkeys(partitions, self._settings.reset),
            read_committed=is_committed,
            wait_for_leaders=False,
        )
        for partition, found in offsets.items():
            if isinstance(found, KafkaError):
                _log.warning("Failure during poll: %s: %s", partition, found)
            else:
                self._positions[partition] = found.offset

    async def _fetch(self, partitions: list[TopicPartition]) -> None:
        positions = {
            partition: position
            for partition in partitions
            if (position := self._positions[partition]) is not None
        }
        try:
            answers = await self._records.fetch(positions, self._settings.limits)
        except _ATTEMPT_ERRORS as error:
            _log.warning("Failure during poll.", exc_info=error)
            await asyncio.sleep(self._backoff_s)
            return
        fetched: list[Fetched] = []
        errors: list[KafkaError] = []
        for partition, answer in answers.items():
            try:
                fetched += self._accept(partition, positions[partition], value_of(answer))
            except KafkaError as error:
                errors.append(error)
        if fetched:
            self._ready.put_nowait(fetched)
        if errors:
            _log.warning("Failure during poll: %s", errors[0])
        if errors or not answers:
            await asyncio.sleep(self._backoff_s)

    def _accept(self, partition: TopicPartition, offset: int, answer: PartitionData) -> list[Fetched]:
        """Moves the position after the batches of an answer. Raises the KafkaError of the answer."""
        if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            _log.warning("The offset %d of %s is out of range.", offset, partition)
            self._positions[partition] = None
            return []
        if answer.error_code is not ErrorCode.NONE:
            raise reading_error(partition, offset, answer.error_code)
        batches = bytes(answer.records or b"")
        end = offset
        for _, header in iter_batches(batches):
            end = header.next_offset
        if end <= offset:
            return []
        # The last in the order of the next request, so that busy partitions do not delay the others.
        del self._positions[partition]
        self._positions[partition] = end
        aborted = aborted_transactions(answer, self._settings.limits.isolation_level)
        return [Fetched(partition, offset, batches, aborted)]
