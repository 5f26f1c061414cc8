"""Describes topics in the format of Kafka (`kafka-topics --describe`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from kcli.cli.java.uuid import java_uuid
from kcli.cli.missing_rights import forgive
from kcli.cli.output import warn
from kcli.cli.tools.topics.options import TopicsOptions
from kcli.client.admin.configs import ConfigEntry
from kcli.client.admin.reassignments import Reassignment
from kcli.client.admin.topics import (
    PARTITIONS_PER_RESPONSE,
    PartitionDescription,
    TopicDescription,
)
from kcli.errors import ErrorCode, KafkaError
from kcli.model.configs import ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_order import hash_order, map_order, string_hash
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition
from kcli.model.uuids import uuid_to_text
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

MIN_ISR = "min.insync.replicas"
Reassignments = dict[TopicPartition, Reassignment]
Described = tuple[list["TopicRow"], list[KafkaError]]
"""The described topics, and the errors of topics that could not be described."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of a described topic."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] | None
    removing_replicas: tuple[int, ...] | None
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One described topic, with the partitions that the options select."""

    topic: str
    topic_id: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str | None]
    partitions: tuple[PartitionRow, ...]


def id_of(text: str | None) -> uuid.UUID | None:
    """Parses the id of `--topic-id`. Returns None for the zero id, which means no topic.

    Raises ValueError for an invalid id.
    """
    if text is None:
        return None
    topic_id = java_uuid(text)
    return topic_id if topic_id.int else None


async def describe_by_id(options: TopicsOptions, client: AdminClient, topic_id: uuid.UUID) -> Described:
    """Describes the topic with an id. Raises ValueError if the topic does not exist."""
    topic = (await client.describe_topics_by_id([topic_id])).get(topic_id)
    if isinstance(topic, TopicDescription):
        return await _rows(options, client, [topic])
    if options.if_exists:
        return [], []
    raise ValueError(f"TopicId '{options.topic_id}' does not exist as expected")


async def describe(options: TopicsOptions, client: AdminClient, names: list[str]) -> Described:
    """Describes the topics `names`, in Kafka's order."""
    page = options.partition_size_limit_per_response or PARTITIONS_PER_RESPONSE
    topics = await client.describe_topics(names, page_partitions=page)
    ordered = [topics[name] for name in map_order(names, string_hash, capacity=len(names))]
    rows, failures = await _rows(
        options, client, [topic for topic in ordered if isinstance(topic, TopicDescription)]
    )
    return rows, [error for error in ordered if isinstance(error, KafkaError)] + failures


def text(row: TopicRow, *, topic: bool, partitions: bool) -> str:
    """Returns the lines about a topic."""
    lines = [_topic_line(row)] if topic else []
    if partitions:
        lines += [_partition_line(partition) for partition in row.partitions]
    return "\n".join(lines)


async def _rows(options: TopicsOptions, client: AdminClient, topics: list[TopicDescription]) -> Described:
    if not topics:
        return [], []
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
    configs = await client.describe_configs(resources)
    live = {node.id for node in (await client.describe_cluster()).nodes}
    moving = await _reassignments(client, topics)
    rows: list[TopicRow] = []
    failures: list[KafkaError] = []
    for topic, resource in zip(topics, resources, strict=True):
        entries = configs[resource]
        if isinstance(entries, KafkaError):
            failures.append(entries)
            break  # Kafka's tool also stops here, after the topics before this one
        row = _row(options, topic, entries, live, moving)
        if row.configs or not options.topics_with_overrides:
            rows.append(row)
    return rows, failures


async def _reassignments(client: AdminClient, topics: Iterable[TopicDescription]) -> Reassignments:
    """Returns the reassignments of partitions. If the cluster does not support or permit the request, the result is
    empty."""
    partitions = [
        TopicPartition(topic.name, partition.partition) for topic in topics for partition in topic.partitions
    ]
    try:
        return await client.list_reassignments(partitions)
    except KafkaError as error:
        if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            warn(f"Reassignments are not shown: {error.message}")
        forgive(ApiKey.LIST_PARTITION_REASSIGNMENTS)
        return {}


def _row(
    options: TopicsOptions,
    topic: TopicDescription,
    entries: tuple[ConfigEntry, ...],
    live: set[int],
    moving: Reassignments,
) -> TopicRow:
    values = {entry.name: entry for entry in entries}
    min_isr = parse_int(values[MIN_ISR].value or "1") if MIN_ISR in values else 1
    first = topic.partitions[0] if topic.partitions else None
    factor = _replication_factor(topic.name, first, moving) if first is not None else 0
    return TopicRow(
        topic=topic.name,
        topic_id=uuid_to_text(topic.topic_id) if topic.topic_id is not None and topic.topic_id.int else "",
        partition_count=len(topic.partitions),
        replication_factor=factor,
        configs={
            name: values[name].value
            for name in _hash_order(tuple(values))
            if values[name].source is not ConfigSource.DEFAULT_CONFIG
        },
        partitions=tuple(
            _partition_row(topic.name, partition, moving)
            for partition in topic.partitions
            if _is_wanted(options, topic.name, partition, min_isr, live, moving)
        ),
    )


@lru_cache(maxsize=16)
def _hash_order(names: tuple[str, ...]) -> list[str]:
    """Returns the names of settings in Kafka's order. Nearly all topics have the same settings."""
    return hash_order(names)


def _is_wanted(
    options: TopicsOptions,
    topic: str,
    partition: PartitionDescription,
    min_isr: int,
    live: set[int],
    moving: Reassignments,
) -> bool:
    reports = (
        (
            options.under_replicated_partitions,
            _replication_factor(topic, partition, moving) > len(partition.isr),
        ),
        (options.unavailable_partitions, partition.leader is None or partition.leader not in live),
        (options.under_min_isr_partitions, partition.leader is None or len(partition.isr) < min_isr),
        (options.at_min_isr_partitions, len(partition.isr) == min_isr),
    )
    results = [matches for is_chosen, matches in reports if is_chosen]
    return any(results) if results else True


def _replication_factor(topic: str, partition: PartitionDescription, moving: Reassignments) -> int:
    move = moving.get(TopicPartition(topic, partition.partition))
    return len(partition.replicas) - (len(move.adding) if move is not None else 0)


def _partition_row(topic: str, partition: PartitionDescription, moving: Reassignments) -> PartitionRow:
    move = moving.get(TopicPartition(topic, partition.partition))
    return PartitionRow(
        topic=topic,
        partition=partition.partition,
        leader=partition.leader,
        replicas=partition.replicas,
        isr=partition.isr,
        adding_replicas=move.adding if move is not None else None,
        removing_replicas=move.removing if move is not None else None,
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
    )


def _topic_line(row: TopicRow) -> str:
    shown_id = f"\tTopicId: {row.topic_id}" if row.topic_id else ""
    configs = ",".join(f"{name}={'null' if value is None else value}" for name, value in row.configs.items())
    return (
        f"Topic: {row.topic}{shown_id}\tPartitionCount: {row.partition_count}"
        f"\tReplicationFactor: {row.replication_factor}\tConfigs: {configs}"
    )


def _partition_line(row: PartitionRow) -> str:
    leader = "none" if row.leader is None else row.leader
    line = (
        f"\tTopic: {row.topic}\tPartition: {row.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(row.replicas)}\tIsr: {_ids(row.isr)}"
    )
    if row.adding_replicas is not None and row.removing_replicas is not None:
        line += f"\tAdding Replicas: {_ids(row.adding_replicas)}\tRemoving Replicas: {_ids(row.removing_replicas)}"
    return f"{line}\tElr: {_or_unknown(row.elr)}\tLastKnownElr: {_or_unknown(row.last_known_elr)}"


def _or_unknown(ids: tuple[int, ...] | None) -> str:
    return "N/A" if ids is None else _ids(ids)


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
