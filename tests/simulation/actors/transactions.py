"""Producers that run one transaction after another, and the judgment of what a read_committed consumer saw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.ids import NO_OFFSET
from kcli.model.request_values import ACKS_ALL, CoordinatorType
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, MOVING, TROUBLE, Client, Moved, World
from simulation.actors.consumer import CommittedConsumer
from simulation.checks.history import Outcome, Transaction, anomalies
from simulation.checks.replica_log import Content

TIMEOUT_MS = 6_000
AUDIT_S = 120.0
PREFIX = "transactional-"
"""How the names of the producers, and all values of their records, begin."""
# The versions of Produce and EndTxn of two kinds of clients. Old clients add partitions to the transaction themselves.
# For new clients, the broker adds the partitions (KIP-890).
OLD_PRODUCE, OLD_END = 11, 4
NEW_PRODUCE, NEW_END = 13, 5

# After these errors a producer calls InitProducerId again: it was fenced after a time-out or a crash.
FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
NOT_NOW = MOVING | {ErrorCode.CONCURRENT_TRANSACTIONS}


class Refused(Exception):
    """Raised if the producer has to begin again."""


class TransactionalProducer:
    """After an error it calls InitProducerId, as a restarted producer does."""

    def __init__(self, world: World, nth: int, partitions: Sequence[TopicPartition], *, is_new: bool) -> None:
        self.name = f"{PREFIX}{nth}"
        self.client = Client(world, self.name)
        self.world = world
        self.transactions: list[Transaction] = []
        self._partitions = partitions
        self._is_new = is_new
        self._rng = self.client.rng
        self._coordinator = -1
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        self._losses = 0
        self._has_ended = False

    @property
    def is_done(self) -> bool:
        return self._has_ended

    async def run(self) -> None:
        while not self.world.ending:
            try:
                await self._begin()
                while not self.world.ending:
                    await self._transact()
                    await self.client.pause(0.0, 0.5)
            except Refused:
                await self.client.pause(0.0, BACKOFF_S)
        self._has_ended = True
        self.client.close()

    async def _begin(self) -> None:
        request = ip.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        response = await self._ask_coordinator(
            request, ApiKey.INIT_PRODUCER_ID, lambda answer: answer.error_code
        )
        self._set_identity(response.producer_id, response.producer_epoch)

    def _set_identity(self, producer_id: int, epoch: int) -> None:
        grows = producer_id != self._producer_id or epoch > self._epoch or self.world.watch.losses
        assert grows, f"{self.name}: epoch {epoch} after {self._epoch} of producer id {producer_id}"
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences = {}

    async def _transact(self) -> None:
        loop = self.world.cluster.loop
        transaction = Transaction(self.name, len(self.transactions), loop.time())
        self.transactions.append(transaction)
        chosen = self._rng.sample(self._partitions, self._rng.randint(1, len(self._partitions)))
        if not self._is_new:
            await self._add(chosen)
        for partition in chosen:
            await self._write(transaction, partition)
        if self._rng.random() < 0.1:
            # the coordinator may abort the transaction meanwhile
            await self.client.pause(0.0, 2 * TIMEOUT_MS / 1000)
        commits = self._rng.random() < 0.7
        if commits:
            transaction.outcome = Outcome.UNKNOWN
        await self._end(commits=commits)
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        transaction.ended = loop.time()
        loop.note(f"{self.name} {transaction.outcome.value} {transaction.number}")

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        topics = tuple(
            ap.AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))
            for name, numbers in numbers_by_topic(partitions).items()
        )
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topics,
        )
        await self._ask_coordinator(request, ApiKey.ADD_PARTITIONS_TO_TXN, _first_error, at_most=3)

    async def _write(self, transaction: Transaction, partition: TopicPartition) -> None:
        sequence = self._sequences.get(partition, 0)
        count = self._rng.randint(1, 3)
        contents: list[Content] = [
            (None, f"{self.name} {transaction.number} {partition} {nth} ".encode()) for nth in range(count)
        ]
        now_ms = self.world.cluster.node.clock.now_ms()
        encoded = encode_batch(
            [Record(-1, now_ms, key, value) for key, value in contents],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = p.PartitionProduceData(index=partition.partition, records=encoded)
        topic_id = self.world.topic_ids[partition.topic]
        request = p.ProduceRequest(
            transactional_id=self.name,
            acks=ACKS_ALL,
            timeout_ms=5_000,
            topic_data=(p.TopicProduceData(name=partition.topic, topic_id=topic_id, partition_data=(data,)),),
        )
        at_most = NEW_PRODUCE if self._is_new else OLD_PRODUCE
        losses, answer = await self._ask_leader(partition, request, at_most)
        self._sequences[partition] = sequence + count
        transaction.writes += [(partition, value) for _, value in contents]
        if answer.base_offset != NO_OFFSET and losses == self.world.watch.losses:
            self.world.watch.acknowledged(partition, answer.base_offset, read_header(encoded).crc, contents)

    async def _end(self, *, commits: bool) -> None:
        request = et.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )
        at_most = NEW_END if self._is_new else OLD_END
        response = await self._ask_coordinator(
            request, ApiKey.END_TXN, lambda answer: answer.error_code, at_most=at_most
        )
        if self._is_new:
            self._set_identity(response.producer_id, response.producer_epoch)

    # Questions. Each is repeated while the cluster moves. After an error of a connection the producer begins again.

    async def _ask_coordinator(self, request: object, key: ApiKey, code_of: Any, *, at_most: int = 99) -> Any:
        while True:
            try:
                if self._coordinator < 0:
                    await self._find()
                response = await self.client.ask(self._coordinator, request, key, at_most=at_most)
                if self._check(code_of(response), key.name):
                    return response
            except Moved:
                self._check_ending()
            except TROUBLE as error:
                raise self._refused(key.name, error) from error
            self._coordinator = -1
            await self.client.pause(0.0, BACKOFF_S)

    async def _find(self) -> None:
        request = fc.FindCoordinatorRequest(
            key=self.name, key_type=CoordinatorType.TRANSACTION, coordinator_keys=(self.name,)
        )
        response = await self.client.ask(self.client.any_broker(), request, ApiKey.FIND_COORDINATOR)
        (found,) = response.coordinators
        if not self._check(found.error_code, "FindCoordinator"):
            raise Moved
        self._coordinator = found.node_id

    async def _ask_leader(self, partition: TopicPartition, request: object, at_most: int) -> tuple[int, Any]:
        """Returns the number of losses when the request was sent, and the answer for the partition."""
        while True:
            try:
                losses = self.world.watch.losses
                leader = await self.client.leader(partition)
                response = await self.client.ask(leader, request, ApiKey.PRODUCE, at_most=at_most)
                (answer,) = response.responses[0].partition_responses
                if self._check(answer.error_code, f"produce to {partition}"):
                    return losses, answer
            except Moved:
                self._check_ending()
            except TROUBLE as error:
                raise self._refused(f"produce to {partition}", error) from error
            self.client.forget_leader(partition)
            await self.client.pause(0.0, BACKOFF_S)

    def _refused(self, what: str, error: BaseException) -> Refused:
        """Forgets the coordinator and the leaders. The outcome of the request is unknown."""
        self.client.note(f"{what}: {error!r}")
        self._coordinator = -1
        self.client.leaders.clear()
        return Refused()

    def _check(self, code: ErrorCode, what: str) -> bool:
        """Checks an error code. Returns False if the request must be sent again.

        Raises Refused if the producer must begin again.
        """
        if code is ErrorCode.NONE:
            return True
        assert code in FENCED or code in NOT_NOW, f"{self.name}: {what} failed with {code!r}"
        if code in FENCED:
            raise Refused
        self._check_ending()
        return False

    def _check_ending(self) -> None:
        """Gives up at the end of a story with losses. A coordinator that has lost its newest records does not know all
        open transactions of the partitions, so it cannot end these transactions."""
        if self.world.ending and self.world.watch.losses:
            raise Refused


def _first_error(response: ap.AddPartitionsToTxnResponse) -> ErrorCode:
    codes = [
        result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)


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
        partition: [value for value in found if value.startswith(prefix)]
        for partition, found in reader.values.items()
    }
    found = anomalies(history, values)
    assert not found, "\n".join(found)
