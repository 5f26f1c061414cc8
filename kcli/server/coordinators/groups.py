"""The group coordinator of this broker: the shards of `__consumer_offsets`, their settings and their metadata."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kcli.config.broker import BrokerConfig
from kcli.config.features import GROUP_VERSION
from kcli.config.group import GROUP, ConsumerGroupKeys, consumer_group_keys, effective_consumer_times
from kcli.config.stored import usable
from kcli.coordinator.group.config import ConsumerTimes, GroupConfig, MigrationPolicy
from kcli.coordinator.group.consumer.requests import REGEXES_RESOLVED
from kcli.coordinator.group.consumer.targets.regexes import RegexesResolved, ResolveRegexes
from kcli.coordinator.group.counts import GroupCounts
from kcli.coordinator.group.records import LogRecord, encode
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.step import GroupSend
from kcli.coordinator.group.types import decode
from kcli.errors import RecordTooLargeException
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.protocol.batches.compression import Codec
from kcli.runtime import log_text
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.runtime.turns import Turn
from kcli.server.coordinators.group_topics import ImageTopics
from kcli.server.coordinators.internal_topics import GROUP_TOPIC
from kcli.server.coordinators.regex_search import RegexSearch
from kcli.server.coordinators.shard_log import RunnerSettings
from kcli.server.coordinators.shard_runner import ShardRunner
from kcli.server.coordinators.shards import CoordinatorShards, ShardKind
from kcli.server.partitions.leader_partition import LeaderPartition

GroupRunner = ShardRunner[LogRecord, GroupSend, GroupShard]

_log = logging.getLogger("kcli.server.GroupCoordinator")

SHORTEST_INITIAL_DELAY_MS = 100
"""The initial delay of a classic group, if group.initial.rebalance.delay.ms is shorter.

A librdkafka member that is not the group leader sends at most one JoinGroup per second. If the first generation begins
while other members are starting, a further rebalance follows. This rebalance delays all members by one to two seconds,
and in a cooperative group by one heartbeat more. Members that start together send their JoinGroup requests within
milliseconds, or within 100 ms on a busy machine. Each JoinGroup extends the initial delay.
"""


class GroupCoordinator:
    def __init__(self, config: BrokerConfig, clock: Clock, rng: Rng) -> None:
        self._config = config
        self._keys = consumer_group_keys(config)
        self._rng = rng
        self._settings_of_shards = group_config(config, self._keys)
        self.counts = GroupCounts()
        self.regexes = RegexSearch()
        self._image = MetadataImage()
        self._topics = ImageTopics(self._image)
        session_ms, heartbeat_ms = effective_consumer_times({}, config)
        self._own_times = ConsumerTimes(session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms)
        self._times: dict[str, ConsumerTimes] = {}
        """A cache of the times of groups that have their own configs. It is cleared when any group config changes."""
        kind: ShardKind[LogRecord, GroupSend, GroupShard] = ShardKind(
            topic=GROUP_TOPIC.name,
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            create=self._create,
            encode=encode,
            decode=decode,
            settings=self._settings,
            logger=_log,
            send=self._send,
            loaded=self._loaded,
        )
        self.shards: CoordinatorShards[LogRecord, GroupSend, GroupShard] = CoordinatorShards(
            kind, config.integer("offsets.topic.num.partitions"), clock
        )
        self.leadership_changed = self.shards.leadership_changed

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether this broker's configuration and the finalized level of group.version allow KIP-848."""
        return self._keys.is_enabled and self._image.features.get(GROUP_VERSION, 0) >= 1

    # --- metadata

    def load(self, image: MetadataImage) -> None:
        """Loads the first metadata image at the start, before the broker leads any partition."""
        self._image = image
        self._topics = ImageTopics(image)
        self.shards.load(image)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a change of metadata. Call this method after the replicas have applied the change.

        Groups drop the offsets of deleted topics. If topics of a consumer group have changed, the group computes a new
        target assignment.
        """
        self._image = image
        self._topics = ImageTopics(image, self._topics)
        if any(resource.type is ConfigResourceType.GROUP for resource in delta.configs_changed):
            self._times.clear()
        self.shards.load(image)
        deleted = delta.topics_deleted
        for topic in deleted:
            self._topics.forget(topic.topic_id)
        if deleted:
            gone = tuple(topic.name for topic in deleted)
            for runner in self.shards.loaded():
                runner.run(lambda shard, now_ms: shard.delete_topics(gone, now_ms))
        changed = dict.fromkeys(diff.topic for diff in delta.partitions_changed())
        has_new = bool(delta.topics_created)
        for runner in self.shards.loaded():
            runner.ask(lambda shard, _: shard.topics_changed(self._topics, changed, has_new=has_new))

    def times_of(self, group_id: str) -> ConsumerTimes:
        """Returns the session timeout and the heartbeat interval of a consumer group, from the group's configs or the
        broker's configs.
        """
        times = self._times.get(group_id)
        if times is None:
            overrides = self._image.config(ConfigResource(ConfigResourceType.GROUP, group_id))
            if not overrides:
                return self._own_times
            session_ms, heartbeat_ms = effective_consumer_times(usable(GROUP, overrides), self._config)
            times = ConsumerTimes(session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms)
            self._times[group_id] = times
        return times

    # --- shards

    def _create(self) -> GroupShard:
        shard = GroupShard(self._settings_of_shards, self._rng, self.times_of, self.counts)
        shard.topics_changed(self._topics, (), has_new=True)
        return shard

    def _loaded(self, runner: GroupRunner, before: MetadataImage) -> None:
        """Applies the changes of topics that came during the load of a shard to this shard."""
        if before is self._image:
            return
        runner.ask(lambda shard, _: shard.topics_changed(self._topics, (), has_new=True))
        present = self._image.topics
        gone = [topic.name for topic in before.topics if present.topic_by_id(topic.topic_id) is None]
        if gone:
            runner.run(lambda shard, now_ms: shard.delete_topics(gone, now_ms))

    async def stop(self) -> None:
        await self.shards.stop()

    # --- work outside the shards

    def _send(self, runner: GroupRunner, work: GroupSend) -> None:
        assert isinstance(work, ResolveRegexes), f"nothing carries out {work}"
        runner.spawn(self._resolve(runner, work), name=f"regexes of {work.group_id}")

    async def _resolve(self, runner: GroupRunner, work: ResolveRegexes) -> None:
        """Finds the topics of the regular expressions of a group, and gives them to its shard."""
        matches = None
        try:
            matches = await self.regexes.find(work.regexes, work.topics.names())
            if work.visible is not None:
                names = (name for names in matches.values() for name in names)
                seen = await work.visible(names, Turn())
                matches = {
                    regex: tuple(name for name in names if name in seen) for regex, names in matches.items()
                }
            _check_size(matches, runner.partition.log.config.max_message_bytes)
        except RecordTooLargeException as error:
            matches = None
            _log.error(
                "[GroupId %s] Couldn't update regular expressions: %s",
                log_text.name(work.group_id),
                error.message,
            )
        except Exception:
            matches = None
            _log.exception("[GroupId %s] Couldn't update regular expressions", log_text.name(work.group_id))
        resolved = RegexesResolved(work.group_id, matches, work.topics.version)
        runner.run(lambda shard, now_ms: shard.serve(REGEXES_RESOLVED, resolved, now_ms))

    def _settings(self, leader: LeaderPartition) -> RunnerSettings:
        return RunnerSettings(
            linger_ms=self._config.integer("group.coordinator.append.linger.ms"),
            commit_timeout_ms=self._config.integer("offsets.commit.timeout.ms"),
            max_batch_bytes=leader.log.config.max_message_bytes,
            codec=Codec(self._config.integer("offsets.topic.compression.codec")),
        )


def _check_size(matches: Mapping[str, tuple[str, ...]], max_bytes: int) -> None:
    """Raises RecordTooLargeException if the records of the result do not fit into one batch. The coordinator need not
    make millions of names for a write that must fail."""
    size = sum(len(name) for names in matches.values() for name in names)
    if size > max_bytes:
        raise RecordTooLargeException(
            f"the topics of {len(matches)} expressions have names of {size} bytes, and a batch has {max_bytes} at most"
        )


def group_config(config: BrokerConfig, keys: ConsumerGroupKeys) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=max(
            config.integer("group.initial.rebalance.delay.ms"), SHORTEST_INITIAL_DELAY_MS
        ),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_length=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        consumer_assignors=keys.assignors,
        consumer_max_size=config.integer("group.consumer.max.size"),
        migration_policy=MigrationPolicy(keys.migration_policy),
        regex_refresh_interval_ms=config.integer("group.consumer.regex.refresh.interval.ms"),
    )
