"""A producer with transactions of the second protocol (TV2, KIP-890), built on the asyncio client of kcli.

A Produce request adds its partition to the transaction, and the answer to EndTxn contains the producer epoch for the
next transaction. A request without an answer is sent again, if necessary over a new connection. Transactions also poll,
by Fetch requests with read_committed. At times a producer leaves its transaction open, and the next producer with the
same transactional id has to fence the first producer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kcli.client.client import Client
from kcli.client.config import ClientConfig, parse_addresses
from kcli.client.coordinator import find_coordinator, forget_coordinator
from kcli.client.records.fetch import FetchLimits
from kcli.client.records.records import Records, value_of
from kcli.errors import ErrorCode, KafkaError, ProtocolError, error_for
from kcli.model.request_values import READ_COMMITTED, CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.wire.api import ApiKey
from simulation.checks.operations import Operation, Outcome, Polled, Protocol, Sent
from simulation.histories.recorder import PARTITIONS, TOPIC, Recorder

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 4_000
PATIENCE_S = 60.0
"""The seconds after which a step of a transaction fails. The time is longer than any fault."""
TRANSACTION_TIMEOUT_MS = 60_000
RETRY_S = 0.05
PRODUCE_AT_LEAST, END_AT_LEAST = 12, 5
"""The first versions of Produce and EndTxn that use TV2."""
COMMIT_CHANCE = 0.75
POLL_CHANCE = 0.4
LEAVE_CHANCE = 0.04
SENDS_MAX = 4
PAUSE_S = 0.05
FETCH_BYTES = 1 << 20
FETCH_LIMITS = FetchLimits(max_wait_ms=10, partition_max_bytes=FETCH_BYTES, isolation_level=READ_COMMITTED)
# Errors after which the same request may succeed, in addition to those that are retriable for every client.
AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class Refused(Exception):
    """Raised for an error that this producer cannot repair, for example because its successor has fenced it."""


class NewTransactionalProducer:
    def __init__(self, recorder: Recorder, name: str, rng: random.Random) -> None:
        self.recorder, self.name, self._rng = recorder, name, rng
        self._client = Client(
            ClientConfig(
                servers=parse_addresses(recorder.bootstrap),
                client_id=name,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                connection_setup_timeout_ms=REQUEST_TIMEOUT_MS,
            )
        )
        self._records = Records(self._client)
        self._producer_id = self._epoch = -1
        self._sequences: Counter[int] = Counter()
        self._positions = dict.fromkeys(range(PARTITIONS), 0)

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        while not self.recorder.is_stopping:
            try:
                if self._producer_id < 0:
                    await self._begin()
                await self._transaction()
            except Refused:
                self._producer_id = -1
            except TimeoutError:
                self.recorder.problems.append(f"{self.name}: a step takes longer than {PATIENCE_S:g} s")
                self._producer_id = -1
            await asyncio.sleep(self._rng.random() * PAUSE_S)
        try:
            await self._begin()  # ends a transaction that is still open
        except (Refused, TimeoutError) as error:
            self.recorder.problems.append(f"{self.name}: the last InitProducerId: {error!r}")
        await self._client.close()

    async def _begin(self) -> None:
        request = ip.InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )

        async def attempt() -> ip.InitProducerIdResponse:
            response = await self._client.send(
                request, ApiKey.INIT_PRODUCER_ID, to=await self._find_coordinator()
            )
            assert isinstance(response, ip.InitProducerIdResponse)
            _check(response.error_code)
            return response

        response = await self._persist(attempt)
        self._become(response.producer_id, response.producer_epoch)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            self._sequences.clear()

    async def _transaction(self) -> None:
        operation = self.recorder.begin(self.name, Protocol.TV2)
        for _ in range(self._rng.randint(1, SENDS_MAX)):
            await self._send(operation)
            if self._rng.random() < POLL_CHANCE:
                await self._poll(operation)
        if self._rng.random() < LEAVE_CHANCE:
            self._producer_id = -1
            return
        commits = self._rng.random() < COMMIT_CHANCE
        if commits:
            operation.asked, operation.outcome = time.monotonic(), Outcome.UNKNOWN
        await self._end(commits=commits)
        if commits:
            operation.outcome, operation.ended = Outcome.COMMITTED, time.monotonic()

    async def _send(self, operation: Operation) -> None:
        partition = self._rng.randrange(PARTITIONS)
        values = [self.recorder.value(self.name) for _ in range(self._rng.randint(1, 2))]
        first = len(operation.actions)
        operation.actions += [Sent(partition, value) for value in values]
        batch = encode_batch(
            [Record(-1, int(time.time() * 1000), None, value.encode()) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[partition],
            transactional=True,
        )

        place = TopicPartition(TOPIC, partition)

        async def attempt() -> int:
            answers = await self._records.produce(
                {place: bytes(batch)},
                timeout_ms=REQUEST_TIMEOUT_MS,
                transactional_id=self.name,
                at_least=PRODUCE_AT_LEAST,
            )
            answer = value_of(answers[place])
            if answer.error_code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return -1  # it was written before, at an offset that the broker does not know any more
            _check(answer.error_code)
            return answer.base_offset

        offset = await self._persist(attempt)
        self._sequences[partition] += len(values)
        if offset >= 0:
            operation.actions[first:] = [
                Sent(partition, value, offset + at) for at, value in enumerate(values)
            ]

    async def _end(self, *, commits: bool) -> None:
        request = et.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )

        async def attempt() -> et.EndTxnResponse:
            response = await self._client.send(
                request, ApiKey.END_TXN, to=await self._find_coordinator(), at_least=END_AT_LEAST
            )
            assert isinstance(response, et.EndTxnResponse)
            _check(response.error_code)
            return response

        response = await self._persist(attempt)
        self._become(response.producer_id, response.producer_epoch)

    async def _poll(self, operation: Operation) -> None:
        """Sends one Fetch request for one partition, and adds the records to the operation. After an error, adds
        nothing.
        """
        partition = self._rng.randrange(PARTITIONS)
        position = self._positions[partition]
        try:
            place = TopicPartition(TOPIC, partition)
            data = value_of((await self._records.fetch({place: position}, FETCH_LIMITS))[place])
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.recorder.problems.append(
                    f"{self.name}: offset {position} of {partition} is out of range"
                )
            _check(data.error_code)
        except (KafkaError, ProtocolError, OSError) as error:
            self._forget(error)
            return
        records, self._positions[partition] = _committed(data, position)
        operation.actions.append(Polled(partition, records, 0, time.monotonic(), position))

    # The cluster.

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Calls `attempt` until it succeeds. Raises Refused after an error that is not retriable, and TimeoutError
        after PATIENCE_S.
        """
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await attempt()
                except (KafkaError, ProtocolError, OSError) as error:
                    self._forget(error)
                    if isinstance(error, KafkaError) and not error.retriable and error.code not in AGAIN:
                        raise Refused(str(error)) from error
                await asyncio.sleep(RETRY_S)

    def _forget(self, error: Exception) -> None:
        if not (isinstance(error, KafkaError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS):
            forget_coordinator(self._client, self.name, CoordinatorType.TRANSACTION)

    async def _find_coordinator(self) -> int:
        return (await find_coordinator(self._client, self.name, CoordinatorType.TRANSACTION)).id


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        raise error_for(code)


def _committed(data: f.PartitionData, position: int) -> tuple[tuple[tuple[int, str], ...], int]:
    """Returns the committed records of a Fetch answer from `position` on, and the position for the next Fetch request.

    A batch of a producer was aborted if it is between the first offset of the producer's aborted transaction and the
    abort marker.
    """
    aborted = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset, reverse=True)
    ending: set[int] = set()
    found: list[tuple[int, str]] = []
    for at, header in iter_batches(data.records or b""):
        while aborted and aborted[-1].first_offset < header.next_offset:
            ending.add(aborted.pop().producer_id)
        if header.is_control:
            ending.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ending):
            found += [
                (record.offset, (record.value or b"").decode())
                for record in read_records(data.records or b"", at)
                if record.offset >= position
            ]
        position = max(position, header.next_offset)
    return tuple(found), position
