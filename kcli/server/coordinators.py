"""The group coordinator of this broker: the shards of `__consumer_offsets`, and what is its own of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.controller.delta import MetadataDelta
from kcli.controller.image import MetadataImage
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.records import LogRecord, decode, encode
from kcli.coordinator.group.shard import GroupReady, GroupShard
from kcli.protocol.compression import Codec
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.server.coordinator_shards import CoordinatorShards, ShardKind
from kcli.server.internal_topics import GROUP_TOPIC
from kcli.server.shard_runner import RunnerSettings, ShardRunner

if TYPE_CHECKING:
    from kcli.server.replicas import LeaderPartition

GroupRunner = ShardRunner[LogRecord, GroupShard]
GroupStep = Callable[[GroupShard, asyncio.Future[object], int], GroupReady]


class GroupCoordinator:
    def __init__(self, config: BrokerConfig, clock: Clock, rng: Rng) -> None:
        self._config = config
        settings = group_config(config)
        kind: ShardKind[LogRecord, GroupShard] = ShardKind(
            topic=GROUP_TOPIC.name,
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            create=lambda: GroupShard(settings, rng),
            encode=encode,
            decode=decode,
            settings=self._settings,
            logger=logging.getLogger("kcli.server.GroupCoordinator"),
        )
        self.shards: CoordinatorShards[LogRecord, GroupShard] = CoordinatorShards(
            kind, config.integer("offsets.topic.num.partitions"), clock
        )
        self.leadership_changed = self.shards.leadership_changed
        self.load = self.shards.load
        self.stop = self.shards.stop

    def now_ms(self) -> int:
        return self.shards.now_ms()

    def partition_of(self, group_id: str) -> int:
        return self.shards.partition_of(group_id)

    def runner(self, group_id: str) -> GroupRunner:
        """The shard that coordinates this group. Raises KafkaError when it is not here, or not yet."""
        return self.shards.runner(group_id)

    @property
    def is_loading(self) -> bool:
        """Whether some of this broker's groups cannot be served yet."""
        return self.shards.is_loading

    def runners(self) -> Iterator[GroupRunner]:
        """Every shard of this broker; raises COORDINATOR_LOAD_IN_PROGRESS while one is being loaded."""
        return self.shards.runners()

    def call(self, group_id: str, step: GroupStep) -> object | Awaitable[object]:
        """Runs one step on the shard of a group: the answer, or a future of it. Raises KafkaError like `runner`."""
        return self.shards.call(group_id, step)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Told of every change, after the replicas: offsets of deleted topics are forgotten in every group."""
        self.load(image)
        now_ms = self.now_ms()
        for topic in delta.topics_deleted:
            for runner in self.shards.loaded():
                runner.take(runner.shard.delete_topic(topic.name, now_ms))

    def _settings(self, leader: LeaderPartition) -> RunnerSettings:
        return RunnerSettings(
            linger_ms=self._config.integer("group.coordinator.append.linger.ms"),
            commit_timeout_ms=self._config.integer("offsets.commit.timeout.ms"),
            max_batch_bytes=leader.log.config.max_message_bytes,
            codec=Codec(self._config.integer("offsets.topic.compression.codec")),
        )


def group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_length=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
    )
