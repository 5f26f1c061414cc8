"""Describes a log directory and the sizes of its logs, for the response to DescribeLogDirs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kcli.errors import StorageError
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.storage.directory import LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.table import LogTable


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """The size of a partition's log. `is_future` is True for a copy of a log that moves to this directory. `offset_lag`
    is the number of offsets that the copy still lacks."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """The result of DescribeLogDirs for one directory. `total_bytes` and `usable_bytes` are −1 if the directory is
    offline.
    """

    path: str
    directory_id: uuid.UUID | None
    total_bytes: int
    usable_bytes: int
    partitions: tuple[PartitionSize, ...]
    error: StorageError | None


def describe_directory(directory: LogDirectory, table: LogTable) -> LogDirDescription:
    total_bytes, usable_bytes = -1, -1
    partitions: tuple[PartitionSize, ...] = ()
    if directory.error is None:
        try:
            total_bytes, usable_bytes = directory.disk.space(directory.path)
        except OSError as error:
            directory.failed(error)
        partitions = tuple(
            _size_of(log, table)
            for log in table.in_directory(directory)
            if log.topic != CLUSTER_METADATA_TOPIC
        )
    return LogDirDescription(
        directory.path, directory.id, total_bytes, usable_bytes, partitions, directory.error
    )


def _size_of(log: PartitionLog, table: LogTable) -> PartitionSize:
    key = TopicPartition(log.topic, log.partition)
    if table.futures.get(key) is not log:
        return PartitionSize(*key, log.size_bytes)
    current = table.logs.get(key)
    lag = 0 if current is None else max(current.log_end_offset - log.log_end_offset, 0)
    return PartitionSize(*key, log.size_bytes, lag, is_future=True)
