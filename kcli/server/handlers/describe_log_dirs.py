"""DescribeLogDirs (key 35, versions 1-4): the replicas in each log directory (KIP-113), and the size and the free space
of its file system (KIP-827).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.turns import Steps, run_in_turns
from kcli.storage.store.description import LogDirDescription

PARTITIONS_PER_TURN = 500
"""Partitions that are described in one iteration of the event loop. A partition takes 2 µs."""


def handle(
    context: BrokerContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    return run_in_turns(_described(context, request), PARTITIONS_PER_TURN)


def _described(context: BrokerContext, request: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            for partition in topic.partitions:
                wanted.add(TopicPartition(topic.topic, partition))
                yield
            yield
    results = []
    for directory in context.ports.logs.describe():
        results.append((yield from _result(directory, wanted)))
        yield
    return DescribeLogDirsResponse(results=tuple(results))


def _result(directory: LogDirDescription, wanted: set[TopicPartition] | None) -> Steps[DescribeLogDirsResult]:
    if directory.error is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for part in directory.partitions:
        yield
        if wanted is None or (part.topic, part.partition) in wanted:
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
