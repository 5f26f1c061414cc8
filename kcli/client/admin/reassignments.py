"""Admin calls that move replicas to other brokers (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.admin.topics import group_partitions
from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import KafkaError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client


KEEP_REPLICATION_FACTOR_SINCE = 1
"""The first version of the request that can forbid a change of the replication factor (KIP-860)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition in reassignment. `replicas` has both the old and the new replicas."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


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


async def list_reassignments(
    client: Client, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Returns the partitions in reassignment. `partitions` limits the result; None means all partitions."""
    from kcli.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )

    topics = None
    if partitions is not None:
        by_topic = group_partitions(partitions)
        topics = tuple(
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic.items()
        )

    async def attempt() -> dict[TopicPartition, Reassignment]:
        request = ListPartitionReassignmentsRequest(
            topics=topics, timeout_ms=client.config.request_timeout_ms
        )
        response = await client.send(request, ApiKey.LIST_PARTITION_REASSIGNMENTS, to=Destination.CONTROLLER)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): Reassignment(
                replicas=partition.replicas,
                adding=partition.adding_replicas,
                removing=partition.removing_replicas,
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    return await client.call("listPartitionReassignments", attempt)
