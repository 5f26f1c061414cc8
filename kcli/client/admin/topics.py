"""Admin calls about topics and their partitions."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.client.admin.parts import ask_in_parts
from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )
    from kcli.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

    AnyTopic = MetadataResponseTopic | DescribeTopicPartitionsResponseTopic
    AnyPartition = MetadataResponsePartition | DescribeTopicPartitionsResponsePartition

PARTITIONS_PER_RESPONSE = 2000
"""The most partitions in a page of DescribeTopicPartitions (KIP-966)."""


TOPICS_PER_REQUEST = 1000
"""The most topics of one request to describe topics. Kafka's own client sends all names in each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """A topic's name and id."""

    name: str
    topic_id: uuid.UUID | None
    is_internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition. The two ELR lists are None if the broker does not report them (KIP-966)."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and all its partitions, sorted by number."""

    name: str
    topic_id: uuid.UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create.

    The topic has either `assignments` (the brokers of each partition), or the numbers of partitions and replicas. The
    number -1 means the broker's default.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """The new number of partitions of a topic. `assignments` has the brokers of each added partition, in order."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


async def list_topics(client: Client, *, internal: bool = True) -> list[TopicListing]:
    """Returns all topics, sorted by name."""

    async def attempt() -> list[TopicListing]:
        response = await client.metadata(None)
        return [
            TopicListing(name=topic.name or "", topic_id=topic.topic_id, is_internal=topic.is_internal)
            for topic in sorted(response.topics, key=lambda topic: topic.name or "")
            if internal or not topic.is_internal
        ]

    return await client.call("listTopics", attempt)


async def describe_topics(
    client: Client, names: Iterable[str], *, page_partitions: int = PARTITIONS_PER_RESPONSE
) -> dict[str, TopicDescription | KafkaError]:
    """Returns the description of each topic, or its error, in the order of `names`."""
    distinct = list(dict.fromkeys(names))

    async def describe(part: Sequence[str]) -> dict[str, TopicDescription | KafkaError]:
        async def attempt() -> dict[str, TopicDescription | KafkaError]:
            if await client.speaks(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
                return await _describe_in_pages(client, part, page_partitions)
            return await _describe_by_metadata(client, part)

        return await client.call("describeTopics", attempt)

    descriptions: dict[str, TopicDescription | KafkaError] = {}
    for part in await ask_in_parts(distinct, TOPICS_PER_REQUEST, describe):
        descriptions |= part
    return {
        name: descriptions.get(name) or error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in distinct
    }


async def describe_topics_by_id(
    client: Client, ids: Iterable[uuid.UUID]
) -> dict[uuid.UUID, TopicDescription | KafkaError]:
    """Returns the description of each topic, or its error, by topic id."""
    from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    topic_ids = list(ids)

    async def attempt() -> dict[uuid.UUID, TopicDescription | KafkaError]:
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids),
            allow_auto_topic_creation=False,
        )
        response = await client.send(request, ApiKey.METADATA)
        return {
            topic.topic_id: error_of(topic.error_code) or _from_metadata(topic) for topic in response.topics
        }

    return await client.call("describeTopics", attempt)


async def create_topics(
    client: Client, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Creates topics. Returns the error of each topic, or None.

    As in Kafka's client, a topic without a name is not requested.
    """
    from kcli.protocol.messages import create_topics as messages

    topics = list(topics)
    unnamed = error_for(
        ErrorCode.INVALID_TOPIC_EXCEPTION, "The given topic name '' cannot be represented in a request."
    )
    refused: dict[str, KafkaError | None] = {topic.name: unnamed for topic in topics if not topic.name}
    creatable = tuple(
        messages.CreatableTopic(
            name=topic.name,
            num_partitions=-1 if topic.assignments else topic.partitions,
            replication_factor=-1 if topic.assignments else topic.replication_factor,
            assignments=tuple(
                messages.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
                for partition, brokers in topic.assignments.items()
            ),
            configs=tuple(
                messages.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
            ),
        )
        for topic in topics
        if topic.name
    )
    if not creatable:
        return refused

    async def attempt() -> dict[str, KafkaError | None]:
        request = messages.CreateTopicsRequest(
            topics=creatable, timeout_ms=client.config.request_timeout_ms, validate_only=validate_only
        )
        response = await client.send(request, ApiKey.CREATE_TOPICS, to=Destination.CONTROLLER)
        return _by_name((topic.name, topic.error_code, topic.error_message) for topic in response.topics)

    return refused | await client.call("createTopics", attempt)


async def delete_topics(client: Client, names: Iterable[str]) -> dict[str, KafkaError | None]:
    """Deletes topics. Returns the error of each topic, or None."""
    from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    topic_names = tuple(names)

    async def attempt() -> dict[str, KafkaError | None]:
        request = DeleteTopicsRequest(
            topics=tuple(DeleteTopicState(name=name) for name in topic_names),
            topic_names=topic_names,
            timeout_ms=client.config.request_timeout_ms,
        )
        response = await client.send(request, ApiKey.DELETE_TOPICS, to=Destination.CONTROLLER)
        return _by_name(
            (topic.name or "", topic.error_code, topic.error_message) for topic in response.responses
        )

    return await client.call("deleteTopics", attempt)


async def create_partitions(
    client: Client, topics: Iterable[NewPartitions], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Adds partitions to topics. Returns the error of each topic, or None."""
    from kcli.protocol.messages import create_partitions as messages

    new_counts = tuple(
        messages.CreatePartitionsTopic(
            name=topic.topic,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(
                messages.CreatePartitionsAssignment(broker_ids=brokers) for brokers in topic.assignments
            ),
        )
        for topic in topics
    )

    async def attempt() -> dict[str, KafkaError | None]:
        request = messages.CreatePartitionsRequest(
            topics=new_counts, timeout_ms=client.config.request_timeout_ms, validate_only=validate_only
        )
        response = await client.send(request, ApiKey.CREATE_PARTITIONS, to=Destination.CONTROLLER)
        return _by_name((topic.name, topic.error_code, topic.error_message) for topic in response.results)

    return await client.call("createPartitions", attempt)


async def elect_leaders(
    client: Client, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
) -> dict[TopicPartition, KafkaError | None]:
    """Elects the preferred replica of each partition as its leader. If `unclean` is True, elects any live replica.

    If `partitions` is None, elects a leader for each partition that needs one.
    """
    from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    topics = None
    if partitions is not None:
        by_topic = group_partitions(partitions)
        topics = tuple(
            TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()
        )

    async def attempt() -> dict[TopicPartition, KafkaError | None]:
        request = ElectLeadersRequest(
            election_type=int(unclean), topic_partitions=topics, timeout_ms=client.config.request_timeout_ms
        )
        response = await client.send(request, ApiKey.ELECT_LEADERS, to=Destination.CONTROLLER)
        raise_for(response.error_code)
        return {
            TopicPartition(topic.topic, result.partition_id): error_of(
                result.error_code, result.error_message
            )
            for topic in response.replica_election_results
            for result in topic.partition_result
        }

    return await client.call("electLeaders", attempt)


def group_partitions(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Groups partitions by topic. Topics and partitions stay in the order in which they first appear."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {topic: tuple(numbers) for topic, numbers in by_topic.items()}


def _by_name(results: Iterable[tuple[str, ErrorCode, str | None]]) -> dict[str, KafkaError | None]:
    """Returns errors by topic. If a topic has the error NOT_CONTROLLER, raises this error, so that the whole call is
    tried again."""
    errors: dict[str, KafkaError | None] = {}
    for name, code, message in results:
        if code is ErrorCode.NOT_CONTROLLER:
            raise_for(code, message)
        errors[name] = error_of(code, message)
    return errors


async def _describe_in_pages(
    client: Client, names: Sequence[str], page_partitions: int
) -> dict[str, TopicDescription | KafkaError]:
    """Runs DescribeTopicPartitions page by page. The partitions of a topic may be on several pages."""
    from kcli.protocol.messages import describe_topic_partitions as messages

    descriptions: dict[str, TopicDescription | KafkaError] = {}
    cursor = None
    remaining = sorted(names)
    while True:
        request = messages.DescribeTopicPartitionsRequest(
            topics=tuple(messages.TopicRequest(name=name) for name in remaining),
            response_partition_limit=page_partitions,
            cursor=cursor,
        )
        response = await client.send(request, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
        for topic in response.topics:
            error = error_of(topic.error_code)
            before = descriptions.get(topic.name)
            partitions = tuple(
                _described(partition, partition.eligible_leader_replicas, partition.last_known_elr)
                for partition in topic.partitions
            )
            if isinstance(before, TopicDescription):
                partitions = (*before.partitions, *partitions)
            descriptions[topic.name] = error or _description(topic, partitions)
        if response.next_cursor is None:
            return descriptions
        cursor = messages.RequestCursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )
        remaining = remaining[bisect_left(remaining, cursor.topic_name) :]


async def _describe_by_metadata(
    client: Client, names: Sequence[str]
) -> dict[str, TopicDescription | KafkaError]:
    response = await client.metadata(names)
    return {
        topic.name or "": error_of(topic.error_code) or _from_metadata(topic) for topic in response.topics
    }


def _from_metadata(topic: MetadataResponseTopic) -> TopicDescription:
    return _description(topic, tuple(_described(partition, None, None) for partition in topic.partitions))


def _description(topic: AnyTopic, partitions: tuple[PartitionDescription, ...]) -> TopicDescription:
    return TopicDescription(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(sorted(partitions, key=lambda partition: partition.partition)),
    )


def _described(
    partition: AnyPartition, elr: tuple[int, ...] | None, last_known_elr: tuple[int, ...] | None
) -> PartitionDescription:
    return PartitionDescription(
        partition=partition.partition_index,
        leader=partition.leader_id if partition.leader_id >= 0 else None,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
        elr=elr,
        last_known_elr=last_known_elr,
    )
