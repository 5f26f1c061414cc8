"""Admin calls that move replicas: to other brokers (KIP-455, KIP-860), and to other log directories (KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.admin.topics import group_partitions
from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client


KEEP_REPLICATION_FACTOR_SINCE = 1
"""The first version of the request that can forbid a change of the replication factor (KIP-860)."""


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


async def alter_reassignments(
    client: Client,
    targets: Mapping[TopicPartition, tuple[int, ...] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> dict[TopicPartition, KafkaError | None]:
    """Moves each partition to its brokers in `targets`. If `targets` has None for a partition, cancels the reassignment
    of the partition. Returns the error of each partition, or None.
    """
    from kcli.protocol.messages import alter_partition_reassignments as messages

    request = messages.AlterPartitionReassignmentsRequest(
        timeout_ms=client.config.request_timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=tuple(
            messages.ReassignableTopic(
                name=topic,
                partitions=tuple(
                    messages.ReassignablePartition(
                        partition_index=number, replicas=targets[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in group_partitions(targets).items()
        ),
    )

    async def attempt() -> dict[TopicPartition, KafkaError | None]:
        response = await client.send(
            request,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            to=Destination.CONTROLLER,
            at_least=0 if allow_replication_factor_change else KEEP_REPLICATION_FACTOR_SINCE,
        )
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): error_of(
                partition.error_code, partition.error_message
            )
            for topic in response.responses
            for partition in topic.partitions
        }

    return await client.call("alterPartitionReassignments", attempt)


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
