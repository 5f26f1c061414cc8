"""The shards of one coordinator on this broker: one for each partition of its internal topic that the broker leads.

A shard is the coordinator's state for one partition. A shard is loaded when the broker becomes the leader of the
partition, and dropped when the leadership ends. If the broker stays the leader with a new leader epoch, the shard stays
as it is. While a shard is being loaded, its requests get COORDINATOR_LOAD_IN_PROGRESS. Requests for a shard of another
broker, or for a shard that could not be loaded, get NOT_COORDINATOR. If the internal topic does not exist, a
FindCoordinator request creates it. A `ShardKind` contains the differences between groups and transactions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

from kcli.coordinator.hashing import partition_for
from kcli.coordinator.runtime import RecordT, SendT
from kcli.errors import (
    CoordinatorLoadInProgressException,
    CoordinatorNotAvailableException,
    KafkaError,
    NotCoordinatorException,
    StorageError,
)
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.runtime.turns import within
from kcli.server.coordinators.loader import load
from kcli.server.coordinators.shard_log import RunnerSettings
from kcli.server.coordinators.shard_runner import ShardRunner, ShardT
from kcli.server.coordinators.shard_times import ShardTimes
from kcli.server.partitions.leader_partition import LeaderPartition

DRAIN_SECONDS = 5.0
"""The longest time for which a stop waits for other replicas: the default of offsets.commit.timeout.ms. There is a
limit, because the last writes are never committed if most brokers stop at the same time."""


@dataclass(frozen=True, slots=True)
class ShardKind(Generic[RecordT, SendT, ShardT]):
    """The differences between group and transaction shards. A shard returns its results as `Ready`. `send` begins one
    of the pieces of work that a `Ready` lists in its field `sends`. `loaded` is called after a shard is loaded. Its
    argument is the metadata at the beginning of the load.
    """

    topic: str
    load_buffer_bytes: int
    create: Callable[[], ShardT]
    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], RecordT | None]
    settings: Callable[[LeaderPartition], RunnerSettings]
    logger: logging.Logger
    send: Callable[[ShardRunner[RecordT, SendT, ShardT], SendT], None]
    loaded: Callable[[ShardRunner[RecordT, SendT, ShardT], MetadataImage], None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class _Load:
    leader: LeaderPartition
    task: asyncio.Task[None]


@dataclass(slots=True)
class _Loads:
    """Loads of shards that overlap in time, such as all loads at a start. One log line reports all of them."""

    began_ms: int
    partitions: int = 0
    records: int = 0


class CoordinatorShards(Generic[RecordT, SendT, ShardT]):
    def __init__(self, kind: ShardKind[RecordT, SendT, ShardT], partition_count: int, clock: Clock) -> None:
        self._kind = kind
        self._partition_count = partition_count
        self._clock = clock
        self._runners: dict[int, ShardRunner[RecordT, SendT, ShardT]] = {}
        self._loading: dict[int, _Load] = {}
        self._image = MetadataImage()
        self._loads = _Loads(0)
        self._failed: set[int] = set()
        self.times = ShardTimes()
        self._awaited: dict[int, asyncio.Event] = {}
        self._stopped = False
        # The time of coordinators is the wall clock at the start plus the monotonic time since the start. So a change
        # of the machine's clock does not change the length of sessions.
        self._epoch_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        return self._epoch_ms + int(self._clock.monotonic() * 1000)

    # --- which shard

    def partition_of(self, key: str) -> int:
        return partition_for(key, self._partition_count)

    def runner(self, key: str) -> ShardRunner[RecordT, SendT, ShardT]:
        """Returns the runner of the shard of a group or transactional id. Raises KafkaError if the shard is on another
        broker or is being loaded."""
        return self.runner_at(self.partition_of(key))

    def runner_at(self, partition: int) -> ShardRunner[RecordT, SendT, ShardT]:
        runner = self._runners.get(partition)
        if runner is not None:
            return runner
        if self._stopped:
            raise CoordinatorNotAvailableException
        if partition in self._loading:
            raise CoordinatorLoadInProgressException
        raise NotCoordinatorException

    @property
    def is_loading(self) -> bool:
        """Whether a shard of this broker is still being loaded."""
        return bool(self._loading)

    @property
    def counts_by_state(self) -> dict[str, int]:
        """The number of shards of this broker by their state, with Kafka's names."""
        return {"loading": len(self._loading), "active": len(self._runners), "failed": len(self._failed)}

    def runners(self) -> Iterator[ShardRunner[RecordT, SendT, ShardT]]:
        """Returns all shards of this broker. Raises COORDINATOR_LOAD_IN_PROGRESS while a shard is being loaded."""
        if self.is_loading:
            raise CoordinatorLoadInProgressException
        return self.loaded()

    def loaded(self) -> Iterator[ShardRunner[RecordT, SendT, ShardT]]:
        return iter(tuple(self._runners.values()))

    def is_loaded(self, partition: int) -> bool:
        return partition in self._runners

    async def wait_until_loaded(self, partitions: Iterable[int], seconds: float) -> None:
        """Waits until the shards of these partitions are loaded, but at most `seconds`. After the wait, the caller must
        check whether a shard is loaded.
        """
        with contextlib.suppress(TimeoutError):
            await within(seconds, self._all_loaded(partitions))

    async def _all_loaded(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if not self.is_loaded(partition):
                await self._awaited.setdefault(partition, asyncio.Event()).wait()

    # --- leadership

    def leadership_changed(self, leader: LeaderPartition, led: bool) -> None:
        """Loads the shard of a partition that this broker begins to lead, and stops a shard whose leadership has ended.
        The replicas call this method for every partition.

        If the load of a shard has failed, the broker loads the shard again in the next leader epoch.
        """
        if leader.topic != self._kind.topic:
            return
        if led and self._is_of(leader):
            return  # only the leader epoch is new, and the log has everything that the shard knows
        # Another broker may become the leader while this broker stops. The shard must write nothing more then.
        self._give_up(leader.partition)
        if led and not self._stopped:
            self._begin_load(leader)

    def _begin_load(self, leader: LeaderPartition) -> None:
        if not self._loading:
            self._loads = _Loads(self.now_ms())
        task = asyncio.get_running_loop().create_task(self._load(leader), name=f"load {leader}")
        self._loading[leader.partition] = _Load(leader, task)

    def _load_again(self, leader: LeaderPartition) -> None:
        """Drops a shard that could not apply a record of its log, and loads it from the log. If the load fails too, the
        shard serves no requests until the next leader epoch."""
        try:
            self._give_up(leader.partition)
        except Exception:
            self._kind.logger.exception("The shard of %s could not be stopped", leader)
        if leader.is_leader and not self._stopped:
            self._begin_load(leader)

    def _is_of(self, leader: LeaderPartition) -> bool:
        """Whether the shard of a partition is loaded, or is being loaded, from this `LeaderPartition` object."""
        runner = self._runners.get(leader.partition)
        loading = self._loading.get(leader.partition)
        return (runner is not None and runner.partition is leader) or (
            loading is not None and loading.leader is leader
        )

    def _give_up(self, partition: int) -> None:
        self._failed.discard(partition)
        loading = self._loading.pop(partition, None)
        if loading is not None:
            loading.task.cancel()
        runner = self._runners.pop(partition, None)
        if runner is not None:
            runner.stop()

    async def _load(self, leader: LeaderPartition) -> None:
        kind = self._kind
        image = self._image
        began = self._clock.monotonic()
        shard = kind.create()

        def replay(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
            record = kind.decode(key, value)
            if record is not None:
                shard.replay(record, offset, producer_id)

        try:
            count = await load(
                leader,
                replay=replay,
                end_transaction=lambda producer_id, committed: shard.end_transaction(
                    producer_id, committed=committed
                ),
                buffer_bytes=kind.load_buffer_bytes,
            )
        except Exception as error:
            # A shard that has replayed only a part of its log must not serve requests. So its groups or transactions
            # have no coordinator until a broker becomes the leader again.
            ours = not isinstance(error, KafkaError | StorageError)
            # If another broker leads the partition now, it loads the same records, and nothing is lost.
            level = logging.ERROR if leader.is_leader else logging.INFO
            kind.logger.log(level, "Loading %s failed: %s", leader, error, exc_info=ours)
            self._loading.pop(leader.partition, None)
            self._failed.add(leader.partition)
            self._log_loads()
            return
        kind.logger.debug("Loaded %d records of %s", count, leader)
        self.times.load_ms.add((self._clock.monotonic() - began) * 1000)
        del self._loading[leader.partition]
        self._loads.partitions += 1
        self._loads.records += count
        self._log_loads()
        runner = self._runners[leader.partition] = ShardRunner(
            shard,
            leader,
            kind.settings(leader),
            encode=kind.encode,
            now_ms=self.now_ms,
            send=lambda work: kind.send(runner, work),
            broken=lambda: self._load_again(leader),
            times=self.times,
        )
        kind.loaded(runner, image)
        runner.run(lambda shard, now_ms: shard.start(now_ms))
        awaited = self._awaited.pop(leader.partition, None)
        if awaited is not None:
            awaited.set()

    def _log_loads(self) -> None:
        """After the last of several loads that overlap, logs one line about all of them."""
        loads = self._loads
        if loads.partitions and not self._loading:
            self._kind.logger.info(
                "Loaded %d records of %d partitions of %s in %d ms",
                loads.records,
                loads.partitions,
                self._kind.topic,
                self.now_ms() - loads.began_ms,
            )

    # --- metadata

    def load(self, image: MetadataImage) -> None:
        """Applies a metadata image. The first call comes before the broker leads any partition. Each later call follows
        a change of the metadata.

        If the internal topic exists, its number of partitions takes precedence over the configuration, because every
        broker must find the same coordinator for a key.
        """
        self._image = image
        topic = image.topics.topic(self._kind.topic)
        if topic is not None:
            self._partition_count = len(topic.partitions)

    # --- the end

    async def stop(self) -> None:
        """Writes the collected records, answers the waiting requests, and refuses later requests."""
        self._stopped = True
        runners = tuple(self._runners.values())
        outcomes = await asyncio.gather(
            *(runner.drain(DRAIN_SECONDS) for runner in runners), return_exceptions=True
        )
        for runner, outcome in zip(runners, outcomes, strict=True):
            if outcome is not None:
                self._kind.logger.warning(
                    "Writes to %s were not committed before the stop: %r", runner.partition, outcome
                )
        for partition in (*self._loading, *self._runners):
            self._give_up(partition)
