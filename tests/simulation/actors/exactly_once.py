"""Exactly-once copying in a simulated cluster: a copier with takeovers, and read_committed consumers of the copies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from simulation.actors.administrator import Topic
from simulation.actors.client import BACKOFF_S, TROUBLE, Client, Moved, World
from simulation.actors.consumer import CommittedConsumer
from simulation.actors.copying_producer import CopyingProducer, CopyJob
from simulation.actors.transaction_client import Refused
from simulation.checks.copies import CopyLedger

COPIES = "copies"
CHANCE = 0.4
"""The part of all seeds that have a copier."""
AUDIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Copying:
    """The choices of a seed for the copier. `is_new` is True for the second protocol (TV2)."""

    is_new: bool
    partitions: int
    timeout_ms: int

    @classmethod
    def of(cls, seed: int) -> Self | None:
        """Draws from an own random generator, so that the other choices of the seed do not depend on the copier."""
        rng = random.Random(f"exactly once {seed}")
        if rng.random() >= CHANCE:
            return None
        return cls(
            is_new=rng.random() < 0.5, partitions=rng.choice((2, 3)), timeout_ms=rng.choice((2_000, 10_000))
        )

    def topic(self, replication_factor: int) -> Topic:
        config = {"min.insync.replicas": str(min(2, replication_factor))}
        return Topic(COPIES, self.partitions, replication_factor, config)


class CopyReader(CommittedConsumer):
    """Checks each copy with the ledger when it reads the copy."""

    def __init__(
        self,
        world: World,
        name: str,
        partitions: Sequence[TopicPartition],
        ledger: CopyLedger,
        *,
        from_followers: bool,
    ) -> None:
        super().__init__(world, name, partitions, from_followers=from_followers)
        self._ledger = ledger

    def _take_value(self, partition: TopicPartition, record: Record) -> None:
        value = bytes(record.value or b"")
        self._ledger.read(partition, record.offset, value)
        self.values[partition].append(value)


class ExactlyOnce:
    """A copier from partition 0 of a topic to the topic COPIES, its consumers, and a client that asks for the committed
    position."""

    def __init__(self, world: World, copying: Copying, source: TopicPartition) -> None:
        self.world = world
        self.ledger = CopyLedger()
        self.takeovers = 0
        targets = tuple(TopicPartition(COPIES, index) for index in range(copying.partitions))
        self._job = CopyJob(source, targets, "copiers", copying.is_new, copying.timeout_ms)
        self._clients = [Client(world, f"copier {nth}") for nth in range(2)]
        self.readers = [
            CopyReader(world, f"reader of copies {nth}", targets, self.ledger, from_followers=bool(nth))
            for nth in range(2)
        ]
        self._audit = CopyReader(world, "audit of copies", targets, self.ledger, from_followers=False)
        self._observer = CopyingProducer(Client(world, "observer"), self._job, self.ledger)
        self._rng = self._observer.client.rng
        self._serving: CopyingProducer | None = None
        self._replaced: CopyingProducer | None = None
        self._running: set[CopyingProducer] = set()

    @property
    def is_done(self) -> bool:
        """Whether the copier has finished. The consumers may still read."""
        return self.world.ending and self._serving is not None and not self._running

    @property
    def has_read_all(self) -> bool:
        return all(reader.is_done for reader in self.readers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reader in self.readers:
                group.create_task(reader.run())
            group.create_task(self._observe())
            self._start(group)
            while not self.world.ending:
                await asyncio.sleep(1.0 + 5.0 * self._rng.random())
                if self._replaced is not None:
                    self._replaced.leave()
                if not self.world.ending and self._rng.random() < 0.7:
                    self._take_over(group)

    def _start(self, group: asyncio.TaskGroup) -> None:
        free = next(each for each in self._clients if all(each is not one.client for one in self._running))
        started = self._serving = CopyingProducer(free, self._job, self.ledger)
        started.began = self._fence_replaced
        self._running.add(started)
        group.create_task(self._run(started))

    async def _run(self, producer: CopyingProducer) -> None:
        await producer.run()
        self._running.discard(producer)

    def _take_over(self, group: asyncio.TaskGroup) -> None:
        """Starts another instance with the same transactional id. The former instance continues for a while."""
        serving = self._serving
        if serving is None or not serving.is_begun or len(self._running) > 1:
            return
        self.takeovers += 1
        self.world.cluster.loop.note("another copier takes over")
        serving.is_replaced = True
        self._replaced = serving
        self._start(group)

    def _fence_replaced(self) -> None:
        if self._replaced is not None:
            self._replaced.is_fenced = True

    async def _observe(self) -> None:
        """Asks for the committed position, also without require_stable."""
        observer = self._observer
        while not self.world.ending:
            try:
                stable = self._rng.random() < 0.5
                self.ledger.fetched(await observer.committed_position(require_stable=stable))
                await observer.client.pause(0.0, 1.0)
            except (Moved, *TROUBLE):
                observer.forget()
                await observer.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        observer.client.close()

    async def check_end(self, source: Sequence[bytes]) -> None:
        """Reads all copies once more, and compares them with the input."""
        async with asyncio.timeout(AUDIT_S):
            await self._audit.run()
            position = await self._last_position()
        for reader in self.readers:
            assert reader.values == self._audit.values, f"{reader.name} has read other copies"
        self.ledger.check_end(source, self._audit.values, position)

    async def _last_position(self) -> int:
        while True:
            try:
                return await self._observer.committed_position()
            except (Moved, Refused, *TROUBLE):
                self._observer.forget()
                await self._observer.client.pause(BACKOFF_S, 2 * BACKOFF_S)
