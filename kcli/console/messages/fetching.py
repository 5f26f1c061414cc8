"""Fetches raw batches of a topic with the asyncio client, and looks up the ends of its partitions.

Only a live tail sends Fetch requests that wait for new records. Other readers first request the offsets of a partition.
So an empty partition is found with one request, without the time-out of a poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.records.fetch import FetchLimits, aborted_transactions, readable_end
from kcli.client.records.records import Records
from kcli.console.messages.limits import CHUNK_BYTES
from kcli.errors import (
    ErrorCode,
    KafkaError,
    UnknownTopicOrPartitionException,
    error_for,
)
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.messages.metadata import MetadataResponseTopic


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


async def visible_topic(client: AdminClient, topic: str) -> MetadataResponseTopic:
    """Returns the metadata of a topic. Raises UnknownTopic, or another KafkaError of the topic."""
    response = await client.metadata([topic])
    metadata = next((candidate for candidate in response.topics if candidate.name == topic), None)
    if metadata is None or metadata.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"topic {topic} does not exist, or you may not see it")
    if metadata.error_code is not ErrorCode.NONE:
        raise error_for(metadata.error_code, f"topic {topic}: {metadata.error_code.name}")
    return metadata


def records_of(client: AdminClient) -> Records:
    """Returns the records of topics. A missing topic is an UnknownTopic, so that no page waits for the topic."""

    async def describe(topics: list[str]) -> list[MetadataResponseTopic]:
        return [await visible_topic(client, topic) for topic in topics]

    return Records(client, describe, lambda place: f"{place} has no leader")


class TopicFetcher:
    """Fetches from one topic."""

    def __init__(self, client: AdminClient, topic: str, *, read_committed: bool = False) -> None:
        self._client, self.topic, self.read_committed = client, topic, read_committed
        self._records = records_of(client)

    async def open(self) -> list[int]:
        """Looks up the topic, and returns the numbers of its partitions. Raises the KafkaError of the topic."""
        topic = await self._client.call("metadata", lambda: visible_topic(self._client, self.topic))
        return sorted(partition.partition_index for partition in topic.partitions)

    async def bounds(self, partitions: Iterable[int]) -> tuple[dict[int, Bounds], dict[int, KafkaError]]:
        """Returns the bounds of each partition, and the errors of partitions that cannot be read now."""
        places = [TopicPartition(self.topic, partition) for partition in partitions]
        starts, ends = await asyncio.gather(self._offsets(places, EARLIEST), self._offsets(places, LATEST))
        bounds: dict[int, Bounds] = {}
        errors: dict[int, KafkaError] = {}
        for part in places:
            start, end = starts[part], ends[part]
            if isinstance(start, KafkaError) or isinstance(end, KafkaError):
                errors[part.partition] = start if isinstance(start, KafkaError) else end  # type: ignore[assignment]
            else:
                bounds[part.partition] = Bounds(start, end)
        return bounds, errors

    async def at_time(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int | None]:
        """Returns the first offset at or after a time, or None if a partition has no such record."""
        places = [TopicPartition(self.topic, partition) for partition in partitions]
        offsets = await self._offsets(places, timestamp_ms)
        return {
            part.partition: None if isinstance(answer, KafkaError) or answer < 0 else answer
            for part, answer in offsets.items()
        }

    async def _offsets(
        self, places: list[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int | KafkaError]:
        offsets = await self._client.list_offsets(
            dict.fromkeys(places, timestamp),
            read_committed=self.read_committed,
            wait_for_leaders=False,
        )
        return {
            part: answer if isinstance(answer, KafkaError) else answer.offset
            for part, answer in offsets.items()
        }

    async def fetch(
        self, partition: int, offset: int, *, max_bytes: int = CHUNK_BYTES, max_wait_ms: int = 0
    ) -> Fetched:
        """Fetches batches from `offset` on. If records were deleted there, fetches from the first offset."""

        level = READ_COMMITTED if self.read_committed else READ_UNCOMMITTED
        limits = FetchLimits(
            max_wait_ms=max_wait_ms,
            max_bytes=max_bytes,
            partition_max_bytes=max_bytes,
            isolation_level=level,
        )
        offset, answer = await self._records.read(TopicPartition(self.topic, partition), offset, limits)
        return Fetched(
            partition=partition,
            offset=offset,
            records=bytes(answer.records or b""),
            aborted=aborted_transactions(answer, level),
            end=readable_end(answer, level),
        )
