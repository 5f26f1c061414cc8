"""The shards of one coordinator on this broker: one for each partition of its internal topic that the broker leads.

A shard is loaded when the broker becomes the leader of its partition and given up when it ceases to be; meanwhile
callers hear COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR. Creating the topic is FindCoordinator's business. What
differs between groups and transactions is in a `ShardKind`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kcli.coordinator.hashing import partition_for
from kcli.coordinator.runtime import Ready
from kcli.coordinator.write_errors import write_error
from kcli.errors import (
    CoordinatorLoadInProgressException,
    CoordinatorNotAvailableException,
    KafkaError,
    NotCoordinatorException,
    StorageError,
)
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.server.coordinators.loader import load
from kcli.server.coordinators.shard_runner import RunnerSettings, Shard, ShardRunner

if TYPE_CHECKING:
    from kcli.server.partitions.replicas import LeaderPartition

RecordT = TypeVar("RecordT")
ShardT = TypeVar("ShardT", bound=Shard[Any])

Token = asyncio.Future[object]


@dataclass(frozen=True, slots=True)
class ShardKind(Generic[RecordT, ShardT]):
    """What one coordinator's shards are made of. `send` does the `sends` of a shard's Ready."""

    topic: str
    load_buffer_bytes: int
    create: Callable[[], ShardT]
    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], RecordT | None]
    settings: Callable[[LeaderPartition], RunnerSettings]
    logger: logging.Logger
    send: Callable[[ShardRunner[RecordT, ShardT], object], None] | None = None


class CoordinatorShards(Generic[RecordT, ShardT]):
    def __init__(self, kind: ShardKind[RecordT, ShardT], partition_count: int, clock: Clock) -> None:
        self._kind = kind
        self._partition_count = partition_count
        self._clock = clock
        self._runners: dict[int, ShardRunner[RecordT, ShardT]] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._awaited: dict[int, asyncio.Event] = {}
        self._stopped = False
        # Sessions must neither end early nor late when somebody sets the machine's clock, so the coordinators' time
        # is the wall clock at the start plus what has passed since.
        self._epoch_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        return self._epoch_ms + int(self._clock.monotonic() * 1000)

    # Which shard

    def partition_of(self, key: str) -> int:
        return partition_for(key, self._partition_count)

    def runner(self, key: str) -> ShardRunner[RecordT, ShardT]:
        """The shard that coordinates this group or id. Raises KafkaError when it is not here, or not yet."""
        return self.runner_at(self.partition_of(key))

    def runner_at(self, partition: int) -> ShardRunner[RecordT, ShardT]:
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
        """Whether something that this broker coordinates cannot be served yet."""
        return bool(self._loading)

    def runners(self) -> Iterator[ShardRunner[RecordT, ShardT]]:
        """Every shard of this broker; raises COORDINATOR_LOAD_IN_PROGRESS while one is being loaded."""
        if self.is_loading:
            raise CoordinatorLoadInProgressException
        return self.loaded()

    def loaded(self) -> Iterator[ShardRunner[RecordT, ShardT]]:
        return iter(tuple(self._runners.values()))

    def is_loaded(self, partition: int) -> bool:
        return partition in self._runners

    async def wait_until_loaded(self, partitions: Iterable[int], seconds: float) -> None:
        """Not for ever: whoever asks the shards then hears how it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for partition in partitions:
                    if not self.is_loaded(partition):
                        await self._awaited.setdefault(partition, asyncio.Event()).wait()

    def call(
        self, key: str, step: Callable[[ShardT, Token, int], Ready[RecordT]]
    ) -> object | Awaitable[object]:
        """Runs one step on the shard of a key: the answer, or a future of it. Raises KafkaError like `runner`."""
        runner = self.runner(key)
        now_ms = self.now_ms()
        return runner.call(lambda token: step(runner.shard, token, now_ms))

    # Leadership

    def leadership_changed(self, leader: LeaderPartition, led: bool) -> None:
        """Told by the replicas for every partition: begins or ends (or, with a new epoch, both) the shard's life."""
        if leader.topic != self._kind.topic or self._stopped:
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
        kind = self._kind
        shard = kind.create()

        def replay(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
            record = kind.decode(key, value)
            if record is not None:
                shard.replay(record, offset, producer_id)

        began_ms = self.now_ms()
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
            # Nobody is served from half a log: its keys stay without a coordinator here until it leads anew.
            ours = not isinstance(error, KafkaError | StorageError)
            kind.logger.error("Loading %s failed: %s", leader, error, exc_info=ours)
            self._loading.pop(leader.partition, None)
            return
        now_ms = self.now_ms()
        kind.logger.info("Loaded %d records of %s in %d ms", count, leader, now_ms - began_ms)
        del self._loading[leader.partition]
        runner = self._runners[leader.partition] = ShardRunner(
            shard,
            leader,
            kind.settings(leader),
            encode=kind.encode,
            write_error=write_error,
            now_ms=self.now_ms,
            send=lambda send: self._send(runner, send),
        )
        runner.take(shard.start(now_ms))
        runner.wake_in_time()
        awaited = self._awaited.pop(leader.partition, None)
        if awaited is not None:
            awaited.set()

    def _send(self, runner: ShardRunner[RecordT, ShardT], send: object) -> None:
        assert self._kind.send is not None, f"shards of {self._kind.topic} have nobody to send {send} to"
        self._kind.send(runner, send)

    # Metadata

    def load(self, image: MetadataImage) -> None:
        """Told at start, before any leadership. Once the topic exists its number of partitions counts, whatever is
        configured: every broker must find the same coordinator."""
        topic = image.topics.topic(self._kind.topic)
        if topic is not None:
            self._partition_count = len(topic.partitions)

    # The end

    async def stop(self) -> None:
        """Writes what is gathered, answers whoever waits, and refuses the rest."""
        self._stopped = True
        for runner in tuple(self._runners.values()):
            try:
                await runner.drain()
            except (KafkaError, TimeoutError) as error:
                self._kind.logger.warning(
                    "Writes to %s were not committed before the stop: %s", runner.partition, error
                )
        for partition in (*self._loading, *self._runners):
            self._give_up(partition)
