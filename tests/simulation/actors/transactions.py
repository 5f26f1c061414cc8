"""Producers that run one transaction after another, and the judgment of what a read_committed consumer saw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from kcli.model.topic_partition import TopicPartition
from simulation.actors.client import BACKOFF_S, TROUBLE, Client, Moved, World
from simulation.actors.consumer import CommittedConsumer
from simulation.actors.transaction_client import Refused, TransactionClient
from simulation.checks.history import Outcome, Transaction, anomalies
from simulation.checks.replica_log import Content

T = TypeVar("T")

TIMEOUT_MS = 6_000
AUDIT_S = 120.0
PREFIX = "transactional-"
"""How the names of the producers, and all values of their records, begin."""


class TransactionalProducer:
    """After an error it calls InitProducerId, as a restarted producer does."""

    def __init__(self, world: World, nth: int, partitions: Sequence[TopicPartition], *, is_new: bool) -> None:
        """`is_new` is True for TV2 (`TransactionClient`)."""
        self.name = f"{PREFIX}{nth}"
        self.client = Client(world, self.name)
        self.world = world
        self.transactions: list[Transaction] = []
        self.is_done = False
        self._partitions = partitions
        self._requests = TransactionClient(self.client, self.name, is_new=is_new, timeout_ms=TIMEOUT_MS)
        self._rng = self.client.rng

    async def run(self) -> None:
        while not self.world.ending:
            try:
                await self._persist("InitProducerId", self._requests.init_producer_id)
                while not self.world.ending:
                    await self._transact()
                    await self.client.pause(0.0, 0.5)
            except Refused as refused:
                self.client.note(f"{refused}")
                await self.client.pause(0.0, BACKOFF_S)
        self.is_done = True
        self.client.close()

    async def _transact(self) -> None:
        loop = self.world.cluster.loop
        transaction = Transaction(self.name, len(self.transactions), loop.time())
        self.transactions.append(transaction)
        chosen = self._rng.sample(self._partitions, self._rng.randint(1, len(self._partitions)))
        await self._persist("AddPartitionsToTxn", partial(self._requests.add_partitions, chosen))
        for partition in chosen:
            await self._write(transaction, partition)
        if self._rng.random() < 0.1:
            # the coordinator may abort the transaction meanwhile
            await self.client.pause(0.0, 2 * TIMEOUT_MS / 1000)
        commits = self._rng.random() < 0.7
        if commits:
            transaction.outcome = Outcome.UNKNOWN
        identity = await self._persist("EndTxn", partial(self._requests.end, commits=commits))
        self._requests.has_ended(*identity)
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        transaction.ended = loop.time()
        loop.note(f"{self.name} {transaction.outcome.value} {transaction.number}")

    async def _write(self, transaction: Transaction, partition: TopicPartition) -> None:
        contents: list[Content] = [
            (None, f"{self.name} {transaction.number} {partition} {nth} ".encode())
            for nth in range(self._rng.randint(1, 3))
        ]
        batch = self._requests.encode(partition, contents)
        losses = self.world.watch.losses
        base_offset = await self._persist(f"Produce to {partition}", partial(self._requests.produce, batch))
        self._requests.is_written(batch)
        transaction.writes += [(partition, value) for _, value in contents]
        if base_offset >= 0 and losses == self.world.watch.losses:
            self.world.watch.acknowledged(partition, base_offset, batch.crc, contents)

    async def _persist(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Sends a request again while the cluster moves. Begins again after an error of a connection, because the
        outcome of the request is unknown then.

        At the end of a story with losses, the producer gives up. A coordinator that has lost its newest records does
        not know all open transactions of the partitions, so it cannot end these transactions.
        """
        while True:
            try:
                return await attempt()
            except Moved as error:
                if self.world.ending and self.world.watch.losses:
                    raise Refused(f"gives up {what}") from error
            except TROUBLE as error:
                self._requests.forget()
                raise Refused(f"{what}: {error!r}") from error
            self._requests.forget()
            await self.client.pause(0.0, BACKOFF_S)


async def check_atomic(
    world: World, producers: Sequence[TransactionalProducer], partitions: Sequence[TopicPartition]
) -> None:
    """Checks that a consumer sees each transaction completely or not at all. Must be called when all transactions have
    ended."""
    reader = CommittedConsumer(world, "committed-reader", partitions, from_followers=False)
    async with asyncio.timeout(AUDIT_S):
        await reader.run()
    history = [transaction for producer in producers for transaction in producer.transactions]
    prefix = PREFIX.encode()
    values = {
        partition: [value for value in committed if value.startswith(prefix)]
        for partition, committed in reader.values.items()
    }
    found = anomalies(history, values)
    assert not found, "\n".join(found)
