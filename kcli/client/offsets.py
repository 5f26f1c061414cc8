"""Admin calls about records: offsets of partitions, deleting records, log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from kcli.client.client import error_of, looking_up, raise_for
from kcli.client.topics import group_partitions
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.protocol.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.messages.metadata import MetadataResponse

R = TypeVar("R")
TopicPartition = tuple[str, int]


class OffsetSpec(IntEnum):
    """The named points in time of ListOffsets; any value >= 0 is a timestamp in milliseconds."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3  # KIP-734
    EARLIEST_LOCAL = -4  # KIP-405
    LATEST_TIERED = -5  # KIP-1005
    EARLIEST_PENDING_UPLOAD = -6  # KIP-1023


# The first ListOffsets version that knows each of the later points; an older broker would take it for a timestamp.
_FIRST_VERSION: dict[int, int] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """The first record at or after a point in time: its offset (-1: none), timestamp and leader epoch (-1: unknown)."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """A replica in a log directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """A log directory of a broker; sizes of its volume are None when unknown."""

    path: str
    error: KafkaError | None
    replicas: tuple[ReplicaInfo, ...]
    total_bytes: int | None
    usable_bytes: int | None


async def list_offsets(
    client: Client, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """The offset of each partition at a timestamp or OffsetSpec."""
    from kcli.protocol.messages import list_offsets as messages

    async def ask(leader: int, part: list[TopicPartition]) -> dict[TopicPartition, OffsetAt | KafkaError]:
        request = messages.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=tuple(
                messages.ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        messages.ListOffsetsPartition(partition_index=number, timestamp=wanted[topic, number])
                        for number in numbers
                    ),
                )
                for topic, numbers in group_partitions(part).items()
            ),
            timeout_ms=client.config.request_timeout_ms,
        )
        at_least = max(_FIRST_VERSION.get(wanted[partition], 0) for partition in part)
        response = await client.send(request, ApiKey.LIST_OFFSETS, to=leader, at_least=at_least)
        return {
            (topic.name, each.partition_index): error_of(each.error_code)
            or OffsetAt(offset=each.offset, timestamp=each.timestamp, leader_epoch=each.leader_epoch)
            for topic in response.topics
            for each in topic.partitions
        }

    return await _by_leader(client, "listOffsets", list(wanted), ask, wait_for_topics=False)


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete records before an offset (-1: the high watermark); per partition its new low watermark."""
    from kcli.protocol.messages import delete_records as messages

    async def ask(leader: int, part: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        request = messages.DeleteRecordsRequest(
            topics=tuple(
                messages.DeleteRecordsTopic(
                    name=topic,
                    partitions=tuple(
                        messages.DeleteRecordsPartition(partition_index=number, offset=before[topic, number])
                        for number in numbers
                    ),
                )
                for topic, numbers in group_partitions(part).items()
            ),
            timeout_ms=client.config.request_timeout_ms,
        )
        response = await client.send(request, ApiKey.DELETE_RECORDS, to=leader)
        return {
            (topic.name, each.partition_index): error_of(each.error_code) or each.low_watermark
            for topic in response.topics
            for each in topic.partitions
        }

    return await _by_leader(client, "deleteRecords", list(before), ask, wait_for_topics=True)


async def describe_log_dirs(
    client: Client, brokers: Iterable[int]
) -> dict[int, tuple[LogDirDescription, ...]]:
    """The log directories of each broker, in the broker's order."""
    from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

    async def of(broker: int) -> tuple[LogDirDescription, ...]:
        async def attempt() -> tuple[LogDirDescription, ...]:
            request = DescribeLogDirsRequest(topics=None)
            response = await client.send(request, ApiKey.DESCRIBE_LOG_DIRS, to=broker)
            raise_for(response.error_code)
            return tuple(
                LogDirDescription(
                    path=result.log_dir,
                    error=error_of(result.error_code),
                    replicas=tuple(
                        ReplicaInfo(
                            topic=topic.name,
                            partition=each.partition_index,
                            size_bytes=each.partition_size,
                            offset_lag=each.offset_lag,
                            is_future=each.is_future_key,
                        )
                        for topic in result.topics
                        for each in topic.partitions
                    ),
                    total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
                    usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
                )
                for result in response.results
            )

        return await client.call("describeLogDirs", attempt)

    wanted = list(brokers)
    return dict(zip(wanted, await asyncio.gather(*map(of, wanted)), strict=True))


async def _by_leader(
    client: Client,
    name: str,
    partitions: list[TopicPartition],
    ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, R | KafkaError]]],
    *,
    wait_for_topics: bool,
) -> dict[TopicPartition, R | KafkaError]:
    """Ask each partition's leader; a partition whose leader has moved or is unknown is asked again, alone.

    A partition that does not exist has no leader until it is created: it ends with TimeoutException, as in Kafka; so
    does a topic that does not exist, unless `wait_for_topics` is false.
    """
    found: dict[TopicPartition, R | KafkaError] = {}
    left = dict.fromkeys(partitions)

    async def attempt() -> None:
        with looking_up():
            metadata = await client.metadata(sorted({topic for topic, _ in left}))
        if not wait_for_topics:
            found.update(_of_unknown_topics(metadata, left))
        missing = _problem(metadata)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition, leader in _leaders(metadata).items():
            if partition in left and partition not in found:
                by_leader.setdefault(leader, []).append(partition)
        for leader, part in by_leader.items():
            for partition, result in (await ask(leader, part)).items():
                if isinstance(result, KafkaError) and result.retriable:
                    missing = result
                else:
                    found[partition] = result
        for partition in found:
            left.pop(partition, None)
        if left:
            with looking_up():
                raise missing or error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    try:
        await client.call(f"{name}(api=METADATA)", attempt)
    except KafkaError as error:
        found.update(dict.fromkeys(left, error))
    return found


def _of_unknown_topics(
    metadata: MetadataResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError]:
    unknown = {
        topic.name for topic in metadata.topics if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    return {
        (topic, number): error_for(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Failed to fetch metadata for partition {topic}-{number} because metadata for topic `{topic}` "
            "could not be found",
        )
        for topic, number in partitions
        if topic in unknown
    }


def _problem(metadata: MetadataResponse) -> KafkaError | None:
    """Why a topic's leaders are not known yet. Raises what will not pass by waiting."""
    problem = None
    for topic in metadata.topics:
        problem = error_of(topic.error_code) or problem
        if problem is not None and not problem.retriable:
            raise problem
    return problem


def _leaders(metadata: MetadataResponse) -> dict[TopicPartition, int]:
    return {
        (topic.name or "", each.partition_index): each.leader_id
        for topic in metadata.topics
        for each in topic.partitions
        if each.leader_id >= 0
    }
