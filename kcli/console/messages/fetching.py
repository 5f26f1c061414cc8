"""Fetches raw batches of a topic with the asyncio client, and looks up the ends of its partitions.

Only a live tail sends Fetch requests that wait for new records. Other readers first request the offsets of a partition.
So an empty partition is found with one request, without the time-out of a poll.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.console.messages.limits import CHUNK_BYTES
from kcli.errors import (
    ErrorCode,
    KafkaError,
    OffsetOutOfRangeException,
    UnknownTopicOrPartitionException,
    error_for,
)
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch_headers import AbortedTransaction
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kcli.protocol.wire.api import ApiKey


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset of a partition, and the offset after the last record that a reader may see."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One answer for one partition. `end` is the offset after the last record that a reader may see, at the time of the
    answer."""

    partition: int
    offset: int
    records: bytes
    aborted: tuple[AbortedTransaction, ...] | None
    end: int


class UnknownTopic(UnknownTopicOrPartitionException):
    """Raised if the topic does not exist, or the user may not see it. The request for the topic is not repeated."""

    retriable = False


class TopicFetcher:
    """Fetches from one topic. `open` must be called first."""

    def __init__(self, client: AdminClient, topic: str, *, read_committed: bool = False) -> None:
        self._client, self.topic, self.read_committed = client, topic, read_committed
        self._leaders: dict[int, int] = {}
        self._topic_id: uuid.UUID | None = None

    async def open(self) -> list[int]:
        """Looks up the topic, and returns the numbers of its partitions. Raises the KafkaError of the topic."""
        await self._client.call("metadata", self._look_up)
        return sorted(self._leaders)

    async def _look_up(self) -> None:
        response = await self._client.metadata([self.topic])
        found = next((each for each in response.topics if each.name == self.topic), None)
        if found is None or found.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(f"topic {self.topic} does not exist, or you may not see it")
        if found.error_code is not ErrorCode.NONE:
            raise error_for(found.error_code, f"topic {self.topic}: {found.error_code.name}")
        self._topic_id = found.topic_id
        self._leaders = {each.partition_index: each.leader_id for each in found.partitions}

    async def bounds(self, partitions: Iterable[int]) -> tuple[dict[int, Bounds], dict[int, KafkaError]]:
        """Returns the bounds of each partition, and the errors of partitions that cannot be read now."""
        wanted = [TopicPartition(self.topic, each) for each in partitions]
        starts, ends = await asyncio.gather(self._offsets(wanted, EARLIEST), self._offsets(wanted, LATEST))
        found: dict[int, Bounds] = {}
        errors: dict[int, KafkaError] = {}
        for part in wanted:
            start, end = starts[part], ends[part]
            if isinstance(start, KafkaError) or isinstance(end, KafkaError):
                errors[part.partition] = start if isinstance(start, KafkaError) else end  # type: ignore[assignment]
            else:
                found[part.partition] = Bounds(start, end)
        return found, errors

    async def at_time(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int | None]:
        """Returns the first offset at or after a time, or None if a partition has no such record."""
        wanted = [TopicPartition(self.topic, each) for each in partitions]
        found = await self._offsets(wanted, timestamp_ms)
        return {
            part.partition: None if isinstance(each, KafkaError) or each < 0 else each
            for part, each in found.items()
        }

    async def _offsets(
        self, wanted: list[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int | KafkaError]:
        found = await self._client.list_offsets(
            dict.fromkeys(wanted, timestamp),
            read_committed=self.read_committed,
            wait_for_leaders=False,
        )
        return {part: each if isinstance(each, KafkaError) else each.offset for part, each in found.items()}

    async def fetch(
        self, partition: int, offset: int, *, max_bytes: int = CHUNK_BYTES, max_wait_ms: int = 0
    ) -> Fetched:
        """Fetches batches from `offset` on. If records were deleted there, fetches from the first offset."""

        async def attempt() -> Fetched:
            try:
                return await self._attempt(partition, offset, max_bytes, max_wait_ms)
            except OffsetOutOfRangeException:
                raise
            except KafkaError:
                self._leaders.pop(partition, None)
                raise

        try:
            return await self._client.call("fetch", attempt)
        except OffsetOutOfRangeException:
            bounds, errors = await self.bounds([partition])
            if partition in errors:
                raise errors[partition] from None
            if offset >= bounds[partition].start:
                raise
            offset = bounds[partition].start
            return await self._client.call("fetch", attempt)

    async def _attempt(self, partition: int, offset: int, max_bytes: int, max_wait_ms: int) -> Fetched:
        if partition not in self._leaders:
            await self._look_up()
        leader = self._leaders.get(partition, -1)
        if leader < 0:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.topic}-{partition} has no leader")
        request = self._request(partition, offset, max_bytes, max_wait_ms)
        response = await self._client.send(request, ApiKey.FETCH, to=leader)
        assert isinstance(response, FetchResponse)
        if response.error_code is not ErrorCode.NONE:
            raise error_for(response.error_code)
        return self._fetched(offset, response.responses[0].partitions[0])

    def _fetched(self, offset: int, answer: PartitionData) -> Fetched:
        if answer.error_code is not ErrorCode.NONE:
            what = f"reading {self.topic}-{answer.partition_index} at offset {offset}"
            raise error_for(answer.error_code, f"{what}: {answer.error_code.name}")
        aborted = None
        if self.read_committed:
            aborted = tuple(
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in answer.aborted_transactions or ()
            )
        end = answer.last_stable_offset if self.read_committed else answer.high_watermark
        return Fetched(
            partition=answer.partition_index,
            offset=offset,
            records=bytes(answer.records or b""),
            aborted=aborted,
            end=end,
        )

    def _request(self, partition: int, offset: int, max_bytes: int, max_wait_ms: int) -> FetchRequest:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=READ_COMMITTED if self.read_committed else READ_UNCOMMITTED,
            topics=(FetchTopic(topic=self.topic, topic_id=self._topic_id, partitions=(wanted,)),),
        )
