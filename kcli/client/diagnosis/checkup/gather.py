"""Reads from a cluster everything that the check-up needs.

Each part is a separate request. A request may fail, for example because the client has no permission. In this case the
snapshot contains the reason in place of the part, and the other parts are still used.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.cluster import ClusterDescription
from kcli.client.admin.configs import ConfigEntry
from kcli.client.admin.features import FeatureDescription
from kcli.client.admin.groups import CommittedOffset, GroupDescription
from kcli.client.admin.log_dirs import LogDirDescription
from kcli.client.admin.quorum import QuorumDescription
from kcli.client.admin.topics import TopicDescription
from kcli.client.client import Node
from kcli.client.diagnosis import ports
from kcli.client.diagnosis.checkup import snapshot as parts
from kcli.client.diagnosis.checkup.growth import partition_histories
from kcli.client.diagnosis.checkup.open_transactions import hanging_transactions, long_transactions
from kcli.client.diagnosis.checkup.snapshot import GroupHistory, GroupLook, Metrics, Snapshot, StoppedGroup
from kcli.client.diagnosis.checkup.stopped_groups import Commits, stopped_groups
from kcli.errors import ClusterAuthorizationException, KafkaError, ProtocolError
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_text import parse_int
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

T = TypeVar("T")

TOPICS_AT_ONCE = 500
"""The most topics in one request for configs. The answer has about 5 kB for each topic."""
GROUPS_MAX = 2_000
"""The most groups in one sample, because each sample requests the members of every group."""

MetricsSource = Callable[[tuple[Node, ...]], Awaitable[Metrics]]
"""Reads the figures of the brokers from their metrics endpoints."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The number of samples of the groups, and the time between two samples."""

    count: int = 3
    pause_s: float = 2.0


async def gather(
    admin: AdminClient, *, looks: Looks | None = None, metrics: MetricsSource | None = None
) -> Snapshot:
    """Returns a snapshot. Raises KafkaError or ProtocolError if the cluster cannot be described at all."""
    looks = looks or Looks()
    cluster = await admin.describe_registered()
    requests = _Requests(admin, cluster)
    topics = await requests.part(parts.TOPICS, requests.topics(), {})
    quorum, groups = await asyncio.gather(
        requests.part(parts.QUORUM, requests.quorum(), (None, None, 0)),
        requests.part(parts.GROUPS, requests.groups(looks), ()),
    )
    commits = await requests.part(parts.GROUPS, requests.commits(group.group_id for group in groups), {})
    entries = await requests.part(parts.TOPIC_CONFIGS, requests.topic_configs(topics), {})
    configs = {name: {entry.name: entry.value for entry in settings} for name, settings in entries.items()}
    now_ms = _now_ms()
    return Snapshot(
        time_ms=now_ms,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        nodes=cluster.nodes,
        topics=topics,
        reassigning=await requests.part(parts.REASSIGNMENTS, requests.reassigning(), frozenset()),
        topic_configs=configs,
        topic_overrides={name: _overrides(settings) for name, settings in entries.items()},
        broker_configs=await requests.part(parts.BROKER_CONFIGS, requests.broker_configs(), {}),
        log_dirs=await requests.part(parts.LOG_DIRS, requests.log_dirs(), {}),
        quorum=quorum[0],
        clock_ahead_ms=quorum[1],
        clock_error_ms=quorum[2],
        features=await requests.part(parts.FEATURES, requests.features(), ()),
        groups=groups,
        stopped=await requests.part(parts.STOPPED, requests.stopped(groups, commits, now_ms), ()),
        sampled_s=looks.pause_s * (looks.count - 1),
        read_topics=frozenset(partition.topic for offsets in commits.values() for partition in offsets),
        last_record_ms=await requests.part(parts.LAST_RECORDS, requests.last_records(topics), {}),
        long_transactions=await requests.part(parts.TRANSACTIONS, long_transactions(admin, now_ms), ()),
        hanging=await requests.part(parts.TRANSACTIONS, hanging_transactions(admin, topics, now_ms), ()),
        history=await requests.part(parts.HISTORY, partition_histories(admin, topics, configs, now_ms), {}),
        certificates=await requests.part(parts.CERTIFICATES, requests.certificates(), {}),
        metrics=await requests.part(parts.METRICS, requests.metrics(metrics), Metrics()),
        missing=requests.missing,
    )


class _NotKnown(KafkaError):
    """Raised if a part of the snapshot cannot be read. The message is the reason."""


@dataclass(slots=True)
class _Requests:
    """Sends the requests to one cluster, and stores the reason for each part that failed."""

    admin: AdminClient
    cluster: ClusterDescription
    missing: dict[str, str] = field(default_factory=dict)
    first_commits: Commits = field(default_factory=dict)
    """The offsets of groups without members at the first sample."""

    async def part(self, name: str, answer: Awaitable[T], nothing: T) -> T:
        try:
            return await answer
        except ClusterAuthorizationException as error:
            # Kafka's own text may be a dump of the request.
            self.missing.setdefault(name, error.default_message)
            return nothing
        except (KafkaError, ProtocolError) as error:
            self.missing.setdefault(name, str(error) or type(error).__name__)
            return nothing

    @property
    def alive(self) -> tuple[Node, ...]:
        return tuple(node for node in self.cluster.nodes if not node.is_fenced)

    async def topics(self) -> Mapping[str, TopicDescription]:
        names = [topic.name for topic in await self.admin.list_topics()]
        descriptions = await self.admin.describe_topics(names) if names else {}
        return {
            name: description
            for name, description in descriptions.items()
            if isinstance(description, TopicDescription)
        }

    async def reassigning(self) -> frozenset[TopicPartition]:
        return frozenset(await self.admin.list_reassignments())

    async def topic_configs(
        self, topics: Mapping[str, TopicDescription]
    ) -> Mapping[str, tuple[ConfigEntry, ...]]:
        names, configs = sorted(topics), {}
        for at in range(0, len(names), TOPICS_AT_ONCE):
            resources = [
                ConfigResource(ConfigResourceType.TOPIC, name) for name in names[at : at + TOPICS_AT_ONCE]
            ]
            for resource, entries in (await self.admin.describe_configs(resources)).items():
                if not isinstance(entries, KafkaError):
                    configs[resource.name] = entries
        return configs

    async def broker_configs(self) -> Mapping[int, tuple[ConfigEntry, ...]]:
        resources = [ConfigResource(ConfigResourceType.BROKER, str(node.id)) for node in self.alive]
        configs = await self.admin.describe_configs(resources)
        return {
            parse_int(key.name): entries
            for key, entries in configs.items()
            if not isinstance(entries, KafkaError)
        }

    async def log_dirs(self) -> Mapping[int, tuple[LogDirDescription, ...]]:
        answers = await self.admin.describe_log_dirs([node.id for node in self.alive])
        refused = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
        if refused and len(refused) == len(answers):
            raise refused[0]
        return {broker: dirs for broker, dirs in answers.items() if not isinstance(dirs, KafkaError)}

    async def quorum(self) -> tuple[QuorumDescription | None, int | None, int]:
        """The quorum, how far the clock of its leader is ahead of this machine in ms, and the largest error of this
        difference. (A leader reports its present time as the time of its own last fetch.)"""
        before = _now_ms()
        quorum = await self.admin.describe_quorum()
        after = _now_ms()
        leader = next((voter for voter in quorum.voters if voter.id == quorum.leader_id), None)
        if leader is None or leader.last_fetch_ms is None:
            return quorum, None, 0
        return quorum, leader.last_fetch_ms - (before + after) // 2, (after - before) // 2 + 1

    async def features(self) -> tuple[FeatureDescription, ...]:
        return tuple(await self.admin.describe_features())

    async def groups(self, looks: Looks) -> tuple[GroupHistory, ...]:
        """Takes several samples of all groups."""
        samples: dict[str, list[GroupLook]] = {}
        for nth in range(looks.count):
            if nth:
                await asyncio.sleep(looks.pause_s)
            looks_now = await self._look()
            for look in looks_now:
                samples.setdefault(look.group_id, []).append(look)
            if not nth:
                self.first_commits = await self.commits(
                    look.group_id for look in looks_now if not look.members
                )
        return tuple(GroupHistory(tuple(history)) for _, history in sorted(samples.items()))

    async def _look(self) -> list[GroupLook]:
        listed = [group.group_id for group in await self.admin.list_groups()][:GROUPS_MAX]
        described = await self.admin.describe_groups(listed) if listed else {}
        return [
            GroupLook(group.group_id, group.state, group.epoch, len(group.members))
            for group in described.values()
            if isinstance(group, GroupDescription)
        ]

    async def commits(self, groups: Iterable[str]) -> Commits:
        """The committed offsets of groups."""
        offsets_by_group = await self.admin.list_all_offsets(list(groups))
        return {
            group: {
                partition: committed.offset
                for partition, committed in offsets.items()
                if isinstance(committed, CommittedOffset)
            }
            for group, offsets in offsets_by_group.items()
            if not isinstance(offsets, KafkaError)
        }

    async def stopped(
        self, groups: Iterable[GroupHistory], commits: Commits, now_ms: int
    ) -> tuple[StoppedGroup, ...]:
        """The groups that had no members in any sample, and whose records have waited for a while."""
        empty = [group.group_id for group in groups if not any(look.members for look in group.looks)]
        return await stopped_groups(
            self.admin,
            self.first_commits,
            {group: commits[group] for group in empty if group in commits},
            now_ms,
        )

    async def last_records(self, topics: Mapping[str, TopicDescription]) -> Mapping[str, int]:
        """The time of the newest record of each topic (KIP-734), or -1 for a topic without records."""
        specs = {
            TopicPartition(name, partition.partition): int(OffsetSpec.MAX_TIMESTAMP)
            for name, topic in topics.items()
            if not topic.is_internal
            for partition in topic.partitions
            if partition.leader is not None
        }
        offsets = await self.admin.list_offsets(specs, wait_for_leaders=False) if specs else {}
        last: dict[str, int] = {}
        for partition, at in offsets.items():
            if isinstance(at, OffsetAt):
                last[partition.topic] = max(last.get(partition.topic, -1), at.timestamp)
        unknown = {partition.topic for partition, at in offsets.items() if isinstance(at, KafkaError)}
        return {topic: time_ms for topic, time_ms in last.items() if topic not in unknown}

    async def certificates(self) -> Mapping[str, datetime]:
        security = self.admin.config.security
        if security is None or security.tls is None:
            return {}
        expiries = {}
        for node in self.alive:
            address = Address(node.host, node.port)
            try:
                look = await asyncio.to_thread(ports.look_at_tls, address)
            except OSError as error:
                raise _NotKnown(f"{address}: {error}") from error
            if look.certificate is not None:
                expiries[str(address)] = look.certificate.not_valid_after_utc
        return expiries

    async def metrics(self, source: MetricsSource | None) -> Metrics:
        if source is None:
            raise _NotKnown("no metrics endpoint was named or is reachable")
        metrics = await source(self.alive)
        if len(metrics.without) == len(self.alive):
            raise _NotKnown(f"broker {self.alive[0].id}: {metrics.without[self.alive[0].id]}")
        return metrics


def _overrides(entries: Iterable[ConfigEntry]) -> frozenset[str]:
    return frozenset(entry.name for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
