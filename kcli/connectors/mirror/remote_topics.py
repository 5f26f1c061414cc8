"""Keeps the remote topics of a flow in step with the topics of the source: partitions, configs and ACLs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.configs import ConfigEntry
from kcli.client.admin.topics import NewPartitions, NewTopic
from kcli.connectors.mirror.decisions import config_changes, new_topic_configs, remote_acl
from kcli.connectors.mirror.filters import ConfigFilter, CopiedTopics
from kcli.connectors.mirror.policy import ReplicationPolicy
from kcli.errors import (
    InvalidPartitionsException,
    KafkaError,
    SecurityDisabledException,
    UnsupportedVersionException,
)
from kcli.formats.connect.errors import ConnectException
from kcli.metadata.image import AclEntry
from kcli.model.acl import PatternType, ResourceType
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition
from kcli.security.acls.filters import AclFilter

_log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorSourceConnector")

Counts = Mapping[str, int]
"""The number of partitions of each topic."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What is copied from which cluster to which."""

    source: str
    target: str
    policy: ReplicationPolicy
    copied: CopiedTopics
    configs: ConfigFilter
    replication_factor: int

    def remote(self, topic: str) -> str:
        return self.policy.remote_topic(self.source, topic)


class RemoteTopics:
    """Looks at both clusters, and changes the target."""

    def __init__(
        self,
        flow: Flow,
        source: AdminClient,
        target: AdminClient,
        fail: Callable[[Exception], None],
    ) -> None:
        """`fail` fails the connector, after an error that does not pass."""
        self._flow = flow
        self._source = source
        self._target = target
        self._fail = fail
        self._has_acls = True
        self.counts: Counts = {}
        """The topics of the source that are copied."""
        self._remote: Counts = {}
        """The remote topics that the target has."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the source that are copied, sorted."""
        return [
            TopicPartition(topic, number)
            for topic, count in sorted(self.counts.items())
            for number in range(count)
        ]

    async def load(self) -> None:
        self.counts = await self._source_topics()
        await self.load_remote()

    async def load_remote(self) -> None:
        policy, source = self._flow.policy, self._flow.source
        checkpoints = policy.names.checkpoints(source)
        topics = await self._target.list_topics(internal=False)
        self._remote = await _counts(
            self._target,
            (
                topic.name
                for topic in topics
                if policy.topic_source(topic.name) == source and topic.name != checkpoints
            ),
        )

    async def refresh(self) -> bool:
        """Looks at both clusters again, and creates what is missing. Returns whether something has changed."""
        before = self.counts
        now = await self._source_topics()
        await self.load_remote()
        missing = sum(
            max(count - self._remote.get(self._flow.remote(topic), 0), 0) for topic, count in now.items()
        )
        if now == before and not missing:
            return False
        new, deleted = _more(now, before), _more(before, now)
        source, target = self._flow.source, self._flow.target
        _log.info(
            "Found %d new topic-partitions on %s. Found %d deleted topic-partitions on %s. Found %d "
            "topic-partitions missing on %s.",
            new, source, deleted, source, missing, target,
        )  # fmt: skip
        self.counts = now
        await self.create_missing()
        return True

    async def create_missing(self) -> None:
        """Creates the remote topics and partitions that the target does not have."""
        new = {
            topic: count
            for topic, count in self.counts.items()
            if self._flow.remote(topic) not in self._remote
        }
        if new:
            await self._create_topics(new)
        grown = {
            remote: count
            for topic, count in self.counts.items()
            if count > self._remote.get(remote := self._flow.remote(topic), count)
        }
        if grown:
            await self._grow(grown)

    async def sync_configs(self) -> None:
        """Gives the remote topics the configs of their sources."""
        topics = [topic for topic in self.counts if self._flow.remote(topic) in self._remote]
        changes = {
            ConfigResource(ConfigResourceType.TOPIC, self._flow.remote(topic)): config_changes(
                entries, self._flow.configs
            )
            for topic, entries in (await self._topic_configs(topics)).items()
        }
        changes = {resource: change for resource, change in changes.items() if change}
        if not changes:
            return
        try:
            errors = await self._target.incremental_alter_configs(changes)
        except UnsupportedVersionException as error:
            failure = ConnectException(
                f"the target cluster '{self._flow.target}' is not compatible with IncrementalAlterConfigs API"
            )
            failure.__cause__ = error
            self._fail(failure)
            return
        for resource, problem in errors.items():
            if problem is not None:
                _log.warning("Could not alter configuration of topic %s.", resource.name, exc_info=problem)

    async def sync_acls(self) -> None:
        """Gives the remote topics the ACLs of their sources. ACLs are never removed."""
        if not self._has_acls:
            return
        wanted = AclFilter(resource_type=ResourceType.TOPIC, pattern_type=PatternType.LITERAL)
        try:
            acls = await self._source.describe_acls(wanted)
            remote = list(filter(None, map(self._remote_acl, acls)))
            errors = await self._target.create_acls(remote) if remote else []
        except SecurityDisabledException:
            _log.info("A cluster has no authorizer, so the ACLs of topics are not copied.")
            self._has_acls = False
            return
        for acl, error in zip(remote, errors, strict=True):
            if isinstance(error, SecurityDisabledException):
                _log.info("The target has no authorizer, so the ACLs of topics are not copied.")
                self._has_acls = False
                return
            if error is not None:
                _log.warning("Could not sync ACL of topic %s.", acl.resource_name, exc_info=error)

    def _remote_acl(self, acl: AclEntry) -> AclEntry | None:
        if not self._flow.copied.accepts(acl.resource_name):
            return None
        return remote_acl(acl, self._flow.remote(acl.resource_name))

    async def _source_topics(self) -> Counts:
        topics = await self._source.list_topics(internal=False)
        return await _counts(
            self._source, (topic.name for topic in topics if self._flow.copied.accepts(topic.name))
        )

    async def _topic_configs(self, topics: Iterable[str]) -> dict[str, tuple[ConfigEntry, ...]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        configs: dict[str, tuple[ConfigEntry, ...]] = {}
        for resource, entries in (await self._source.describe_configs(resources)).items():
            if isinstance(entries, KafkaError):
                _log.warning("Could not read configuration of topic %s.", resource.name, exc_info=entries)
            else:
                configs[resource.name] = entries
        return configs

    async def _create_topics(self, counts: Counts) -> None:
        configs = await self._topic_configs(counts)
        new = {
            (remote := self._flow.remote(topic)): NewTopic(
                name=remote,
                partitions=counts[topic],
                replication_factor=self._flow.replication_factor,
                configs=new_topic_configs(entries, self._flow.configs),
            )
            for topic, entries in configs.items()
        }
        for name, error in (await self._target.create_topics(new.values())).items():
            if error is not None:
                _log.warning("Could not create topic %s.", name, exc_info=error)
            else:
                _log.info("Created remote topic %s with %d partitions.", name, new[name].partitions)

    async def _grow(self, counts: Counts) -> None:
        new = [NewPartitions(topic=topic, count=count) for topic, count in counts.items()]
        for name, error in (await self._target.create_partitions(new)).items():
            if error is None:
                _log.info("Increased size of %s to %d partitions.", name, counts[name])
            elif not isinstance(error, InvalidPartitionsException):  # another worker was faster
                _log.warning("Could not create topic-partitions for %s.", name, exc_info=error)


async def _counts(client: AdminClient, topics: Iterable[str]) -> Counts:
    """The partitions of topics. A topic that was deleted in the meantime is left out."""
    described = await client.describe_topics(topics)
    return {
        name: len(topic.partitions) for name, topic in described.items() if not isinstance(topic, KafkaError)
    }


def _more(counts: Counts, others: Counts) -> int:
    """The partitions that `counts` has and `others` does not have."""
    return sum(max(count - others.get(topic, 0), 0) for topic, count in counts.items())
