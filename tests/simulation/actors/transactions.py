"""Transactions in a simulation: producers that commit and abort, and a reader that checks for atomicity."""

from __future__ import annotations

import asyncio

from kcli.client.records.produce import produce_request
from kcli.errors import ErrorCode
from kcli.model.ids import NO_OFFSET
from kcli.model.request_values import READ_COMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, decode_control
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.wire.api import ApiKey
from simulation.actors.clients import BACKOFF_S, PASSING, Actor, Link, World, fetch_request, partitions_of
from simulation.checks.history import Outcome, Transaction, anomalies
from simulation.checks.invariants import Content

TIMEOUT_MS = 6_000
TRANSACTION = 1
"""The key type of FindCoordinator for transactional ids."""
# The versions of Produce and EndTxn of two kinds of clients. Old clients add partitions to the transaction themselves.
# For new clients, the broker adds the partitions (KIP-890).
OLD_PRODUCE, OLD_END = 11, 4
NEW_PRODUCE, NEW_END = 13, 5
KEY = b"transaction"

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
NOT_NOW = PASSING | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,  # the broker could not ask the coordinator about the transaction (KIP-890)
}


class Refused(Exception):
    """Raised if the producer has to begin again."""


class TransactionalProducer(Actor):
    """Runs one transaction after another. After an error it calls InitProducerId, as a restarted producer does."""

    world: World

    def __init__(self, world: World, name: str, partitions: list[TopicPartition], *, new: bool) -> None:
        super().__init__(world, name)
        self.transactions: list[Transaction] = []
        self._partitions = partitions
        self._new = new
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def is_done(self) -> bool:
        return self.world.ending

    async def work(self, link: Link) -> None:
        try:
            await self._begin(link)
            while not self.is_done:
                await self._transact(link)
                await self.pause(0.0, 0.5)
        except Refused:
            await self.pause(0.0, BACKOFF_S)

    def _check(self, code: ErrorCode, what: str) -> bool:
        """Checks an error code. Returns False if the request must be sent again.

        Raises Refused if the producer must begin again.
        """
        if code is ErrorCode.NONE:
            return True
        assert code in FENCED or code in NOT_NOW, f"{self.name}: {what} failed with {code!r}"
        # A coordinator that has lost its newest records does not know all open transactions of the partitions. So it
        # cannot end these transactions.
        stuck = self.world.ending and self.world.ledger.losses
        if code in FENCED or stuck:
            raise Refused
        return False

    async def _begin(self, link: Link) -> None:
        find = fc.FindCoordinatorRequest(key=self.name, key_type=TRANSACTION, coordinator_keys=(self.name,))
        while not self._check(
            (await link.ask(find, ApiKey.FIND_COORDINATOR)).coordinators[0].error_code, "find"
        ):
            await self.pause(0.0, BACKOFF_S)
        request = ip.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        while True:
            response = await link.ask(request, ApiKey.INIT_PRODUCER_ID)
            if self._check(response.error_code, "InitProducerId"):
                self._set_identity(response.producer_id, response.producer_epoch)
                return
            await self.pause(0.0, BACKOFF_S)

    def _set_identity(self, producer_id: int, epoch: int) -> None:
        grows = producer_id != self._producer_id or epoch > self._epoch or self.world.ledger.losses
        assert grows, f"{self.name}: epoch {epoch} after {self._epoch} of producer id {producer_id}"
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences = {}

    async def _transact(self, link: Link) -> None:
        loop = self.world.cluster.loop
        transaction = Transaction(self.name, len(self.transactions), loop.time())
        self.transactions.append(transaction)
        chosen = self.rng.sample(self._partitions, self.rng.randint(1, len(self._partitions)))
        if not self._new:
            await self._add(link, chosen)
        for partition in chosen:
            await self._write(link, transaction, partition)
        if self.rng.random() < 0.1:
            # the coordinator may abort the transaction meanwhile
            await self.pause(0.0, 2 * TIMEOUT_MS / 1000)
        commits = self.rng.random() < 0.7
        if commits:
            transaction.outcome = Outcome.UNKNOWN
        await self._end(link, commits=commits)
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        transaction.ended = loop.time()
        loop.note(f"{self.name} {transaction.outcome.value} {transaction.number}")

    async def _add(self, link: Link, partitions: list[TopicPartition]) -> None:
        topics = tuple(
            ap.AddPartitionsToTxnTopic(name=name, partitions=(index,)) for name, index in partitions
        )
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=_merged(topics),
        )
        while True:
            response = await link.ask(request, ApiKey.ADD_PARTITIONS_TO_TXN, at_most=3)
            codes = [
                result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ]
            if all(self._check(code, "AddPartitionsToTxn") for code in codes):
                return
            await self.pause(0.0, BACKOFF_S)

    async def _write(self, link: Link, transaction: Transaction, partition: TopicPartition) -> None:
        sequence = self._sequences.get(partition, 0)
        count = self.rng.randint(1, 3)
        contents: list[Content] = [
            (KEY, f"{self.name} {transaction.number} {partition} {nth} ".encode()) for nth in range(count)
        ]
        now_ms = self.world.cluster.node.clock.now_ms()
        encoded = encode_batch(
            [Record(-1, now_ms, key, value) for key, value in contents],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce_request(
            {partition: encoded}, self.world.topic_ids, timeout_ms=5_000, transactional_id=self.name
        )
        while True:
            version = NEW_PRODUCE if self._new else OLD_PRODUCE
            response = await link.ask(request, ApiKey.PRODUCE, at_most=version)
            (answer,) = response.responses[0].partition_responses
            if self._check(answer.error_code, f"produce to {partition}"):
                break
            await self.pause(0.0, BACKOFF_S)
        self._sequences[partition] = sequence + count
        transaction.writes += [(partition, value) for _, value in contents]
        if answer.base_offset != NO_OFFSET:
            for offset, content in enumerate(contents, answer.base_offset):
                self.world.ledger.acknowledged(partition, offset, content, losses=link.losses)

    async def _end(self, link: Link, *, commits: bool) -> None:
        request = et.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )
        while True:
            response = await link.ask(request, ApiKey.END_TXN, at_most=NEW_END if self._new else OLD_END)
            if self._check(response.error_code, "EndTxn"):
                if self._new:
                    self._set_identity(response.producer_id, response.producer_epoch)
                return
            await self.pause(0.0, BACKOFF_S)


def _merged(topics: tuple[ap.AddPartitionsToTxnTopic, ...]) -> tuple[ap.AddPartitionsToTxnTopic, ...]:
    """Groups the partitions by topic."""
    merged: dict[str, tuple[int, ...]] = {}
    for topic in topics:
        merged[topic.name] = merged.get(topic.name, ()) + topic.partitions
    return tuple(ap.AddPartitionsToTxnTopic(name=name, partitions=parts) for name, parts in merged.items())


class CommittedReader(Actor):
    """Reads all partitions once, as a consumer with isolation.level=read_committed does."""

    world: World

    def __init__(self, world: World, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self.positions = dict.fromkeys(partitions, 0)
        self.values: dict[TopicPartition, list[bytes | None]] = {each: [] for each in partitions}
        self._aborted: dict[TopicPartition, set[int]] = {each: set() for each in partitions}

    @property
    def is_done(self) -> bool:
        return all(position >= self.world.ledger.end(key) for key, position in self.positions.items())

    async def work(self, link: Link) -> None:
        while not self.is_done:
            request = fetch_request(self.positions, self.world.topic_ids, isolation_level=READ_COMMITTED)
            response = await link.ask(request, ApiKey.FETCH)
            for partition, data in partitions_of(response, self.world.topic_ids):
                if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:  # retention has deleted records
                    self.positions[partition] = max(data.log_start_offset, self.positions[partition] + 1)
                    continue
                assert data.error_code is ErrorCode.NONE, f"{self.name}: {partition}: {data.error_code!r}"
                self._read_partition(partition, data)

    def _read_partition(self, partition: TopicPartition, data: f.PartitionData) -> None:
        """Reads the answer for a partition, without aborted records.

        As in Java's consumer, the records of an aborted transaction are dropped: all records of its producer, from the
        first offset of the transaction to its marker.
        """
        to_come = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
        aborted = self._aborted[partition]
        for at, header in iter_batches(data.records or b""):
            if header.last_offset < self.positions[partition]:
                continue
            assert header.next_offset <= data.last_stable_offset, (
                f"{partition}: read beyond the stable offset"
            )
            while to_come and to_come[0].first_offset <= header.last_offset:
                aborted.add(to_come.pop(0).producer_id)
            records = list(read_records(data.records or b"", at))
            if header.is_control:
                marker = decode_control(records[0].key, records[0].value) if records else None
                if isinstance(marker, EndTransactionMarker) and not marker.committed:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                self.values[partition] += [record.value for record in records if record.key == KEY]
            self.positions[partition] = header.next_offset


async def check_atomic(
    world: World, producers: list[TransactionalProducer], partitions: list[TopicPartition]
) -> None:
    """Checks that the reader sees each transaction completely or not at all. Must be called when all transactions have
    ended."""
    reader = CommittedReader(world, "committed-reader", partitions)
    async with asyncio.timeout(120):
        await reader.run()
    history = [transaction for producer in producers for transaction in producer.transactions]
    found = anomalies(history, reader.values)
    assert not found, "\n".join(found)
