"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets` that it leads.

A shard is loaded when the broker becomes the leader of its partition and given up when it ceases to be; meanwhile
callers hear COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR. Creating the topic is FindCoordinator's business.
"""

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
from kcli.coordinator.hashing import partition_for
from kcli.coordinator.write_errors import write_error
from kcli.errors import (
    CoordinatorLoadInProgressException,
    CoordinatorNotAvailableException,
    KafkaError,
    NotCoordinatorException,
    StorageError,
)
from kcli.protocol.compression import Codec
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.server.coordinator_loader import load
from kcli.server.internal_topics import GROUP_TOPIC
from kcli.server.shard_runner import RunnerSettings, ShardRunner

if TYPE_CHECKING:
    from kcli.server.replicas import LeaderPartition

_log = logging.getLogger("kcli.server.GroupCoordinator")

GroupRunner = ShardRunner[LogRecord, GroupShard]
Token = asyncio.Future[object]
GroupStep = Callable[[GroupShard, Token, int], GroupReady]


class GroupCoordinator:
    def __init__(self, config: BrokerConfig, clock: Clock, rng: Rng) -> None:
        self._partition_count = config.integer("offsets.topic.num.partitions")
        self._config = config
        self._group_config = group_config(config)
        self._clock = clock
        self._rng = rng
        self._runners: dict[int, GroupRunner] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._stopped = False
        # Sessions must neither end early nor late when somebody sets the machine's clock, so the coordinators' time
        # is the wall clock at the start plus what has passed since.
        self._epoch_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        return self._epoch_ms + int(self._clock.monotonic() * 1000)

    # Which shard

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self._partition_count)

    def runner(self, group_id: str) -> GroupRunner:
        """The shard that coordinates this group. Raises KafkaError when it is not here, or not yet."""
        partition = self.partition_of(group_id)
        found = self._runners.get(partition)
        if found is not None:
            return found
        if self._stopped:
            raise CoordinatorNotAvailableException
        if partition in self._loading:
            raise CoordinatorLoadInProgressException
        raise NotCoordinatorException

    @property
    def is_loading(self) -> bool:
        """Whether some of this broker's groups cannot be served yet."""
        return bool(self._loading)

    def runners(self) -> Iterator[GroupRunner]:
        """Every shard of this broker; raises COORDINATOR_LOAD_IN_PROGRESS while one is being loaded."""
        if self.is_loading:
            raise CoordinatorLoadInProgressException
        return iter(tuple(self._runners.values()))

    def call(self, group_id: str, step: GroupStep) -> object | Awaitable[object]:
        """Runs one step on the shard of a group: the answer, or a future of it. Raises KafkaError like `runner`."""
        runner = self.runner(group_id)
        now_ms = self.now_ms()
        return runner.call(lambda token: step(runner.shard, token, now_ms))

    # Leadership

    def leadership_changed(self, leader: LeaderPartition, led: bool) -> None:
        """Told by the replicas for every partition: begins or ends (or, with a new epoch, both) the shard's life."""
        if leader.topic != GROUP_TOPIC.name or self._stopped:
            return
        self._give_up(leader.partition)
        if led:
            loading = self._load(leader)
            task = asyncio.get_running_loop().create_task(loading, name=f"load {leader}")
            self._loading[leader.partition] = task

    def _give_up(self, partition: int) -> None:
        task = self._loading.pop(partition, None)
        if task is not None:
            task.cancel()
        runner = self._runners.pop(partition, None)
        if runner is not None:
            runner.stop(runner.shard.resign(self.now_ms()))

    async def _load(self, leader: LeaderPartition) -> None:
        shard = GroupShard(self._group_config, self._rng)

        def replay(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
            record = decode(key, value)
            if record is not None:
                shard.replay(record, offset, producer_id)

        began_ms = self.now_ms()
        try:
            count = await load(
                leader.log,
                replay=replay,
                end_transaction=lambda producer_id, committed: shard.end_transaction(
                    producer_id, committed=committed
                ),
                buffer_bytes=self._config.integer("offsets.load.buffer.size"),
            )
        except (KafkaError, StorageError) as error:
            # Nobody is served from half a log: its groups stay without a coordinator here until it leads anew.
            _log.error("Loading groups and offsets from %s failed: %s", leader, error)
            self._loading.pop(leader.partition, None)
            return
        now_ms = self.now_ms()
        _log.info("Loaded %d records of %s in %d ms", count, leader, now_ms - began_ms)
        del self._loading[leader.partition]
        runner = self._runners[leader.partition] = ShardRunner(
            shard, leader, self._settings(leader), encode=encode, write_error=write_error, now_ms=self.now_ms
        )
        runner.take(shard.start(now_ms))
        runner.wake_in_time()

    def _settings(self, leader: LeaderPartition) -> RunnerSettings:
        return RunnerSettings(
            linger_ms=self._config.integer("group.coordinator.append.linger.ms"),
            commit_timeout_ms=self._config.integer("offsets.commit.timeout.ms"),
            max_batch_bytes=leader.log.config.max_message_bytes,
            codec=Codec(self._config.integer("offsets.topic.compression.codec")),
        )

    # Metadata

    def load(self, image: MetadataImage) -> None:
        """Told at start, before any leadership. Once the topic exists its number of partitions counts, whatever is
        configured: every broker must find the same coordinator."""
        topic = image.topics.topic(GROUP_TOPIC.name)
        if topic is not None:
            self._partition_count = len(topic.partitions)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Told of every change, after the replicas: offsets of deleted topics are forgotten in every group."""
        self.load(image)
        now_ms = self.now_ms()
        for topic in delta.topics_deleted:
            for runner in self._runners.values():
                runner.take(runner.shard.delete_topic(topic.name, now_ms))

    # The end

    async def stop(self) -> None:
        """Writes what is gathered, answers whoever waits, and refuses the rest."""
        self._stopped = True
        for runner in tuple(self._runners.values()):
            try:
                await runner.drain()
            except (KafkaError, TimeoutError) as error:
                _log.warning("Writes to %s were not committed before the stop: %s", runner.partition, error)
        for partition in (*self._loading, *self._runners):
            self._give_up(partition)


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
