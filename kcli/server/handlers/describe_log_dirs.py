"""DescribeLogDirs (key 35, versions 1-4): the replicas in each log directory (KIP-113), and the size and the free space
of its file system (KIP-827).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.server.requests.context import RequestContext
from kcli.storage.store.description import LogDirDescription
from kcli.storage.store.store import LogStore

PARTITION_COST = 2


@dataclass(frozen=True, slots=True)
class Ports:
    logs: LogStore


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    selected: set[TopicPartition] | None = None
    if request.topics is not None:
        selected = set()
        for topic in request.topics:
            await context.pace(PARTITION_COST)
            for partition in topic.partitions:
                await context.pace(PARTITION_COST)
                selected.add(TopicPartition(topic.topic, partition))
    results = [await _result(context, directory, selected) for directory in context.ports.logs.describe()]
    return DescribeLogDirsResponse(results=tuple(results))


async def _result(
    context: Context, directory: LogDirDescription, selected: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    """The result for a directory. `selected` are the partitions of the request, or None for all partitions."""
    if directory.error is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for part in directory.partitions:
        await context.pace(PARTITION_COST)
        if selected is None or (part.topic, part.partition) in selected:
            topics.setdefault(part.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=part.partition,
                    partition_size=part.size_bytes,
                    offset_lag=part.offset_lag,
                    is_future_key=part.is_future,
                )
            )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()
        ),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )
