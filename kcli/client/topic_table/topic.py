"""Creates the topic of a table if it is missing, and checks that it is compacted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.client.admin.configs import describe_configs
from kcli.client.admin.topics import NewTopic, create_topics
from kcli.client.client import Client, raise_for
from kcli.errors import ErrorCode, KafkaError, KcliError
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition

CLEANUP_POLICY = "cleanup.policy"
COMPACT = "compact"

_log = logging.getLogger("kcli.client.topic_table")


class NotCompacted(KcliError):
    """Raised if the topic exists and records of it may be deleted by age or size. `policy` is its cleanup.policy."""

    def __init__(self, topic: str, policy: str) -> None:
        super().__init__(f"topic {topic} has {CLEANUP_POLICY}={policy}: expected {COMPACT}")
        self.policy = policy


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTopic:
    """The topic of a table, and how to create it if it is missing. -1 means the default of the broker."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    must_exist: bool = False
    """Whether the topic is neither created nor checked, because the user vouches for it."""


async def ensure_topic(client: Client, topic: TableTopic) -> tuple[TopicPartition, ...]:
    """Returns the partitions of the topic, which exists and is compacted then. Raises NotCompacted or KafkaError."""
    if topic.must_exist:
        return await client.call("metadata", lambda: _existing_partitions(client, topic.name))
    partitions = await _partitions(client, topic.name)
    if not partitions:
        created = await _create(client, topic)
        partitions = await client.call("metadata", lambda: _existing_partitions(client, topic.name))
        if created:
            return partitions
    await _check(client, topic.name)
    return partitions


async def _create(client: Client, topic: TableTopic) -> bool:
    """Creates the topic. Returns False if another program has created it first."""
    new = NewTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs={CLEANUP_POLICY: COMPACT, **topic.configs},
    )
    error = (await create_topics(client, [new]))[topic.name]
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error
    return error is None


async def _check(client: Client, name: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    settings = (await describe_configs(client, [resource]))[resource]
    if isinstance(settings, KafkaError):
        if settings.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise settings
        # As in Kafka Connect, a user without the permission to describe the topic is trusted.
        _log.warning("The %s of topic %s cannot be checked: %s", CLEANUP_POLICY, name, settings)
        return
    policy = next((entry.value for entry in settings if entry.name == CLEANUP_POLICY), None)
    if policy != COMPACT:
        raise NotCompacted(name, str(policy))


async def _partitions(client: Client, name: str) -> tuple[TopicPartition, ...]:
    """Returns the partitions of the topic. A missing topic has none."""

    async def attempt() -> tuple[TopicPartition, ...]:
        try:
            return await _existing_partitions(client, name)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return ()
            raise

    return await client.call("metadata", attempt)


async def _existing_partitions(client: Client, name: str) -> tuple[TopicPartition, ...]:
    (topic,) = (await client.metadata([name])).topics
    raise_for(topic.error_code)
    return tuple(sorted(TopicPartition(name, entry.partition_index) for entry in topic.partitions))
