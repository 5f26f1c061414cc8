"""Fetches and produces raw batches over a `Client`, at the leaders of their partitions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kcli.client.records.fetch import (
    FetchLimits,
    fetch_request,
    fetched_partitions,
    reading_error,
    topic_names,
)
from kcli.client.records.fetch_plan import FetchPosition, without_session
from kcli.client.records.produce import produce_request, produced_partitions
from kcli.errors import ErrorCode, KafkaError, OffsetOutOfRangeException, TimeoutException, error_for
from kcli.model.request_values import ACKS_ALL, EARLIEST, VERSION_MAX
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.fetch import FetchResponse, PartitionData
from kcli.protocol.messages.metadata import MetadataResponseTopic
from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client

T = TypeVar("T")

Describe = Callable[[list[str]], Awaitable[Iterable[MetadataResponseTopic]]]
"""Returns the metadata of topics. Raises KafkaError if no topic can be read."""

_STAYS = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
"""The codes of answers after which the leader of the partition is still known."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition, its epoch, and the id of the topic (None before Kafka 2.8)."""

    node_id: int
    epoch: int
    topic_id: uuid.UUID | None


class Records:
    """Sends Fetch and Produce requests to leaders, which it knows from the last metadata.

    Each request is one attempt. After an error, the leader of the partition is forgotten, and the next attempt looks it
    up again. So a caller that wants to follow a change of leader calls the method inside `Client.call`.
    """

    def __init__(
        self,
        client: Client,
        describe: Describe | None = None,
        no_leader: Callable[[TopicPartition], str] | None = None,
    ) -> None:
        """`describe` looks up topics, if errors of topics need other texts than those of Java's clients. `no_leader`
        returns the text of the error of a partition without a leader."""
        self._client = client
        self._no_leader = no_leader
        self._describe = describe or self._metadata
        self._leaders: dict[TopicPartition, Leader] = {}

    async def leaders(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Leader | KafkaError]:
        """Returns the leader of each partition, or the error of the partition or of its topic."""
        partitions = list(partitions)
        unknown = [partition for partition in partitions if partition not in self._leaders]
        errors: dict[TopicPartition, KafkaError] = {}
        if unknown:
            topics = {
                topic.name: topic
                for topic in await self._describe(sorted({partition.topic for partition in unknown}))
            }
            for partition in unknown:
                topic = topics[partition.topic]
                try:
                    entry = self._client.partition_of(topic, partition)
                except KafkaError as error:
                    errors[partition] = self._shown(partition, error)
                else:
                    self._leaders[partition] = Leader(entry.leader_id, entry.leader_epoch, topic.topic_id)
        return {partition: errors.get(partition) or self._leaders[partition] for partition in partitions}

    async def fetch(
        self, offsets: Mapping[TopicPartition, int], limits: FetchLimits
    ) -> dict[TopicPartition, PartitionData | KafkaError]:
        """Fetches from the leaders of partitions: the answer of each partition, which may have an error code, or the
        error of the request. An answer may lack partitions."""

        async def at_leader(
            node_id: int, leaders: dict[TopicPartition, Leader]
        ) -> dict[TopicPartition, PartitionData]:
            positions = [
                (partition, FetchPosition(leader.topic_id, offsets[partition], leader.epoch))
                for partition, leader in leaders.items()
            ]
            request = fetch_request(without_session(positions), limits)
            response = await self._client.send(request, ApiKey.FETCH, to=node_id)
            assert isinstance(response, FetchResponse)
            return fetched_partitions(response, topic_names(positions))

        return await self._at_leaders(offsets, at_leader)

    async def produce(
        self,
        batches: Mapping[TopicPartition, bytes],
        *,
        timeout_ms: int,
        acks: int = ACKS_ALL,
        transactional_id: str | None = None,
        at_least: int = 0,
        at_most: int = VERSION_MAX,
    ) -> dict[TopicPartition, PartitionProduceResponse | KafkaError]:
        """Sends one batch to each leader: the answer of each partition, which may have an error code, or the error of
        the request. Producer id, epoch and sequence are in the batches.

        `at_least` and `at_most` limit the version of Produce. Since version 12, it adds partitions to a transaction
        (KIP-890).
        """
        assert acks != 0, "a request with acks=0 has no answer"

        async def at_leader(
            node_id: int, leaders: dict[TopicPartition, Leader]
        ) -> dict[TopicPartition, PartitionProduceResponse]:
            topic_ids = {partition.topic: leader.topic_id for partition, leader in leaders.items()}
            request = produce_request(
                {partition: batches[partition] for partition in leaders},
                topic_ids,
                timeout_ms=timeout_ms,
                acks=acks,
                transactional_id=transactional_id,
            )
            response = await self._client.send(
                request, ApiKey.PRODUCE, to=node_id, at_least=at_least, at_most=at_most
            )
            assert isinstance(response, ProduceResponse)
            return produced_partitions(response, topic_ids)

        return await self._at_leaders(batches, at_leader)

    async def read(
        self, partition: TopicPartition, offset: int, limits: FetchLimits
    ) -> tuple[int, PartitionData]:
        """Fetches from one partition, and tries again until the time limit of a call. Follows a change of leader.

        Returns the offset of the fetch, and an answer without an error. If the records at `offset` were deleted, the
        fetch begins at the first offset of the log. Raises OffsetOutOfRangeException if the log ends before `offset`.
        """

        async def attempt() -> PartitionData:
            return await self._fetch_one(partition, offset, limits)

        try:
            return offset, await self._client.call("fetch", attempt)
        except OffsetOutOfRangeException:
            start = await self._start(partition)
            if offset >= start:
                raise
            offset = start
            return offset, await self._client.call("fetch", attempt)

    async def read_now(self, partition: TopicPartition, offset: int, limits: FetchLimits) -> PartitionData:
        """Fetches from one partition, and after an error that may pass once more, from the leader of that time.

        So a caller that reports the state of a partition learns an error soon, but does not report a change of leader.
        Returns an answer without an error.
        """
        try:
            return await self._fetch_one(partition, offset, limits)
        except KafkaError as error:
            if not error.retriable or isinstance(error, TimeoutException):
                raise
        await asyncio.sleep(self._client.config.retry_backoff_ms / 1000)
        return await self._fetch_one(partition, offset, limits)

    async def _fetch_one(self, partition: TopicPartition, offset: int, limits: FetchLimits) -> PartitionData:
        answers = await self.fetch({partition: offset}, limits)
        if partition not in answers:
            # A broker whose quota is used up answers without partitions, and serves the next request later (KIP-219).
            raise error_for(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"the answer of the broker lacks {partition}"
            )
        answer = value_of(answers[partition])
        if answer.error_code is not ErrorCode.NONE:
            raise reading_error(partition, offset, answer.error_code)
        return answer

    async def _start(self, partition: TopicPartition) -> int:
        from kcli.client.admin.offsets import list_offsets

        offsets = await list_offsets(self._client, {partition: EARLIEST}, wait_for_leaders=False)
        return value_of(offsets[partition]).offset

    async def _at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        at_leader: Callable[[int, dict[TopicPartition, Leader]], Awaitable[dict[TopicPartition, T]]],
    ) -> dict[TopicPartition, T | KafkaError]:
        """Calls `at_leader` for the partitions of each leader, for all leaders at the same time."""
        results: dict[TopicPartition, T | KafkaError] = {}
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        for partition, leader in (await self.leaders(partitions)).items():
            if isinstance(leader, KafkaError):
                results[partition] = leader
            else:
                by_node.setdefault(leader.node_id, {})[partition] = leader

        async def attempt(node_id: int, leaders: dict[TopicPartition, Leader]) -> None:
            try:
                results.update(await at_leader(node_id, leaders))
            except KafkaError as error:
                results.update(dict.fromkeys(leaders, error))

        await asyncio.gather(*(attempt(node_id, leaders) for node_id, leaders in by_node.items()))
        for partition, result in results.items():
            if getattr(result, "error_code", None) not in _STAYS:
                self._leaders.pop(partition, None)
        return results

    def _shown(self, partition: TopicPartition, error: KafkaError) -> KafkaError:
        if self._no_leader is None or error.code is not ErrorCode.LEADER_NOT_AVAILABLE:
            return error
        return error_for(ErrorCode.LEADER_NOT_AVAILABLE, self._no_leader(partition))

    async def _metadata(self, topics: list[str]) -> Iterable[MetadataResponseTopic]:
        return (await self._client.metadata(topics)).topics


def value_of(result: T | KafkaError) -> T:
    """Returns a result. Raises it if it is an error."""
    if isinstance(result, KafkaError):
        raise result
    return result
