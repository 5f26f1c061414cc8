"""Reads from the cluster what `--balance` needs. Nothing is kept in a file between two runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.reassignments import Reassignment
from kcli.client.admin.topics import TopicDescription
from kcli.client.reassign.assignment import Assignment, ReassignError
from kcli.client.reassign.balance import BrokerPlace, PlacedPartition
from kcli.client.reassign.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS, throttles_of
from kcli.errors import KafkaError
from kcli.model.configs import ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition

MIN_ISR = "min.insync.replicas"
_DYNAMIC = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG})


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster at one moment.

    For a partition that is moving, `partitions` has the replicas after the move. `min_isr` has min.insync.replicas of
    all topics. `throttled_brokers` and `throttled_topics` still have the throttle of an earlier run.
    """

    brokers: tuple[BrokerPlace, ...]
    partitions: tuple[PlacedPartition, ...]
    leaders: Mapping[TopicPartition, int | None]
    running: Mapping[TopicPartition, Reassignment]
    min_isr: Mapping[str, int]
    throttled_brokers: tuple[int, ...]
    throttled_topics: tuple[str, ...]

    @property
    def assignment(self) -> Assignment:
        return {partition.partition: partition.replicas for partition in self.partitions}

    @property
    def sizes(self) -> dict[TopicPartition, int]:
        return {partition.partition: partition.size_bytes for partition in self.partitions}


async def read_cluster_state(client: AdminClient, matches: Callable[[str], bool]) -> ClusterState:
    """Reads the state of the cluster. `ClusterState.partitions` has the partitions of the topics that match. Raises
    KafkaError or ReassignError.
    """
    nodes = (await client.describe_cluster()).nodes
    names = [topic.name for topic in await client.list_topics()]
    running = await client.list_reassignments()
    described = await client.describe_topics(name for name in names if matches(name))
    sizes = largest_replicas(await replica_sizes(client, (node.id for node in nodes)))
    partitions, leaders = [], {}
    for name, topic in described.items():
        if isinstance(topic, KafkaError):
            raise topic
        for description in topic.partitions:
            partition = TopicPartition(name, description.partition)
            replicas = description.replicas
            if partition in running:
                replicas = tuple(r for r in replicas if r not in running[partition].removing)
            partitions.append(PlacedPartition(partition, replicas, sizes.get(partition, 0)))
            leaders[partition] = description.leader
    min_isr, throttled_topics = await _topic_settings(client, names)
    return ClusterState(
        brokers=tuple(BrokerPlace(node.id, node.rack) for node in nodes),
        partitions=tuple(partitions),
        leaders=leaders,
        running=running,
        min_isr=min_isr,
        throttled_brokers=await _throttled_brokers(client, [node.id for node in nodes]),
        throttled_topics=throttled_topics,
    )


async def replica_sizes(client: AdminClient, brokers: Iterable[int]) -> dict[int, dict[TopicPartition, int]]:
    """Returns the bytes of each replica of each broker. Raises KafkaError if a broker does not answer."""
    sizes: dict[int, dict[TopicPartition, int]] = {}
    for broker, directories in (await client.describe_log_dirs(brokers)).items():
        if isinstance(directories, KafkaError):
            raise directories
        sizes[broker] = {
            TopicPartition(replica.topic, replica.partition): replica.size_bytes
            for directory in directories
            for replica in directory.replicas
            if not replica.is_future
        }
    return sizes


def largest_replicas(sizes: Mapping[int, Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """Returns the bytes of the largest replica of each partition. (Smaller replicas may be incomplete copies.)"""
    largest: dict[TopicPartition, int] = {}
    for replicas in sizes.values():
        for partition, size in replicas.items():
            largest[partition] = max(size, largest.get(partition, 0))
    return largest


async def growth(client: AdminClient, brokers: Iterable[int], seconds: float) -> float:
    """Measures the growth of all replicas of each broker, and returns the largest value in bytes per second."""
    ids = list(brokers)
    before = await replica_sizes(client, ids)
    await asyncio.sleep(seconds)
    after = await replica_sizes(client, ids)
    # A replica from which old segments are deleted becomes smaller, but it does not receive a negative number of bytes.
    grown = (
        sum(max(0, size - before[broker].get(partition, size)) for partition, size in after[broker].items())
        for broker in ids
    )
    return max(grown, default=0) / seconds


async def below_min_isr(
    client: AdminClient, min_isr: Mapping[str, int], leaving: frozenset[int]
) -> list[TopicPartition]:
    """Returns the partitions below min.insync.replicas.

    A partition does not count if only replicas on leaving brokers are missing in its ISR, because the move of the
    partition repairs the ISR.
    """
    partitions = []
    for name, topic in (await client.describe_topics(min_isr)).items():
        if not isinstance(topic, TopicDescription):
            continue  # the topic has been deleted
        for partition in topic.partitions:
            is_short = len(partition.isr) < min(min_isr[name], len(partition.replicas))
            if is_short and set(partition.replicas) - set(partition.isr) - leaving:
                partitions.append(TopicPartition(name, partition.partition))
    return partitions


async def _topic_settings(client: AdminClient, names: list[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Returns min.insync.replicas of each topic, and the topics with throttled replicas."""
    min_isr: dict[str, int] = {}
    throttled = []
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    for resource, settings in (await client.describe_configs(resources)).items():
        if isinstance(settings, KafkaError):
            raise settings
        values = {setting.name: setting for setting in settings}
        if MIN_ISR not in values or values[MIN_ISR].value is None:
            raise ReassignError(f"The cluster does not report {MIN_ISR} of topic {resource.name}.")
        min_isr[resource.name] = parse_int(values[MIN_ISR].value or "0")
        if any(
            name in values and values[name].value and values[name].source in _DYNAMIC
            for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
        ):
            throttled.append(resource.name)
    return min_isr, tuple(throttled)


async def _throttled_brokers(client: AdminClient, brokers: list[int]) -> tuple[int, ...]:
    return tuple(parse_int(resource.name) for resource in await throttles_of(client, brokers, ()))
