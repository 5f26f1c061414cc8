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

    return await _by_leader(client, "listOffsets", list(wanted), ask)


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

    return await _by_leader(client, "deleteRecords", list(before), ask)


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
) -> dict[TopicPartition, R | KafkaError]:
    """Ask each partition's leader; a partition whose leader has moved or is unknown is asked again, alone.

    A partition that does not exist has no leader until it is created: it ends with TimeoutException, as in Kafka.
    """
    found: dict[TopicPartition, R | KafkaError] = {}
    left = dict.fromkeys(partitions)

    async def attempt() -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        with looking_up():
            leaders, missing = await _leaders(client, list(left))
        for partition, leader in leaders.items():
            by_leader.setdefault(leader, []).append(partition)
        for leader, part in by_leader.items():
            for partition, result in (await ask(leader, part)).items():
                if isinstance(result, KafkaError) and result.retriable:
                    missing = result
                    continue
                left.pop(partition, None)
                found[partition] = result
        if left:
            with looking_up():
                raise missing or error_for(ErrorCode.LEADER_NOT_AVAILABLE)

    try:
        await client.call(f"{name}(api=METADATA)", attempt)
    except KafkaError as error:
        found.update(dict.fromkeys(left, error))
    return found


async def _leaders(
    client: Client, partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], KafkaError | None]:
    """The leaders that are known, and why another is not."""
    response = await client.metadata(sorted({topic for topic, _ in partitions}))
    known: dict[TopicPartition, int] = {}
    problem: KafkaError | None = None
    wanted = set(partitions)
    for topic in response.topics:
        problem = error_of(topic.error_code) or problem
        if problem is not None and not problem.retriable:
            raise problem
        for each in topic.partitions:
            if (topic.name or "", each.partition_index) in wanted and each.leader_id >= 0:
                known[topic.name or "", each.partition_index] = each.leader_id
    if problem is None and len(known) < len(wanted):
        problem = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return known, problem
