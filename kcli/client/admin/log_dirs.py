"""Admin calls about log directories: their replicas, and moves of replicas between them (KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.admin.topics import group_partitions
from kcli.client.client import error_of, raise_for
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


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
    """A log directory of a broker. The sizes of its volume are None if unknown."""

    path: str
    error: KafkaError | None
    replicas: tuple[ReplicaInfo, ...]
    total_bytes: int | None
    usable_bytes: int | None


async def describe_log_dirs(
    client: Client, brokers: Iterable[int], *, partitions: Iterable[TopicPartition] | None = None
) -> dict[int, tuple[LogDirDescription, ...] | KafkaError]:
    """Returns the log directories of each broker, in the broker's order, or the error of the broker. `partitions`
    limits the replicas in the result. None means all partitions."""
    from kcli.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    topics = None
    if partitions is not None:
        topics = tuple(
            DescribableLogDirTopic(topic=topic, partitions=numbers)
            for topic, numbers in group_partitions(partitions).items()
        )

    async def of(broker: int) -> tuple[LogDirDescription, ...] | KafkaError:
        async def attempt() -> tuple[LogDirDescription, ...]:
            request = DescribeLogDirsRequest(topics=topics)
            response = await client.send(request, ApiKey.DESCRIBE_LOG_DIRS, to=broker)
            raise_for(response.error_code)
            return tuple(
                LogDirDescription(
                    path=result.log_dir,
                    error=error_of(result.error_code),
                    replicas=tuple(
                        ReplicaInfo(
                            topic=topic.name,
                            partition=partition.partition_index,
                            size_bytes=partition.partition_size,
                            offset_lag=partition.offset_lag,
                            is_future=partition.is_future_key,
                        )
                        for topic in result.topics
                        for partition in topic.partitions
                    ),
                    total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
                    usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
                )
                for result in response.results
            )

        try:
            return await client.call("describeLogDirs", attempt)
        except KafkaError as error:
            return error

    broker_ids = list(brokers)
    return dict(zip(broker_ids, await asyncio.gather(*map(of, broker_ids)), strict=True))


async def alter_replica_log_dirs(
    client: Client, paths: Mapping[Replica, str]
) -> dict[Replica, KafkaError | None]:
    """Moves replicas to other log directories of their brokers. Returns the error of each replica, or None."""
    brokers = sorted({replica.broker for replica in paths})
    parts = await asyncio.gather(
        *(
            _alter_on(
                client, broker, {replica: path for replica, path in paths.items() if replica.broker == broker}
            )
            for broker in brokers
        )
    )
    return {replica: error for part in parts for replica, error in part.items()}


async def _alter_on(
    client: Client, broker: int, paths: Mapping[Replica, str]
) -> dict[Replica, KafkaError | None]:
    from kcli.protocol.messages import alter_replica_log_dirs as messages

    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in paths.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    request = messages.AlterReplicaLogDirsRequest(
        dirs=tuple(
            messages.AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    messages.AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                    for topic, numbers in group_partitions(partitions).items()
                ),
            )
            for path, partitions in by_path.items()
        )
    )

    async def attempt() -> dict[Replica, KafkaError | None]:
        response = await client.send(request, ApiKey.ALTER_REPLICA_LOG_DIRS, to=broker)
        return {
            Replica(topic.topic_name, partition.partition_index, broker): error_of(partition.error_code)
            for topic in response.results
            for partition in topic.partitions
        }

    answered = await client.call("alterReplicaLogDirs", attempt)
    silent = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"Broker {broker} did not answer for this replica")
    return {replica: answered.get(replica, silent) for replica in paths}
