"""Verifies with the coordinator that a batch may begin a transaction in its partition (KIP-890).

With the first transaction protocol (TV1) the coordinator only verifies that the client has added the partition. With
the second (TV2: Produce from version 12, TxnOffsetCommit from version 5) it also adds the partition. A partition in
which the producer's transaction is already open needs no verification. The result is a `Verification` for the append,
or the error for the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from inspect import isawaitable

from kcli.config.dynamic import DynamicConfig
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.ids import ProducerId
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.partitions.replicas import LeaderPartition
from kcli.storage.log.producer_state import ALREADY_OPEN, Verification

Verdict = Verification | KafkaError | None
"""The result for one partition. None means that verification is disabled, and the batch is appended without it."""
Verdicts = Mapping[TopicPartition, Verdict]
Codes = dict[TopicPartition, ErrorCode]
Answer = Codes | Awaitable[Codes]
Turn = asyncio.Task[Verdicts]

_NOT_NOW = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The producer of a transaction. `adds`: it uses TV2. `knows_abortable`: it knows the error TRANSACTION_ABORTABLE.

    `knows_coordinators`: it knows the errors of a coordinator that is not ready, as clients that commit offsets do. A
    Produce of TV1 gets NOT_ENOUGH_REPLICAS instead, which every client retries.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    knows_abortable: bool
    knows_coordinators: bool = False

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch


class TransactionVerifier:
    """Asks the coordinator before a batch begins a transaction in a partition that this broker leads."""

    def __init__(self, config: DynamicConfig, clock: Clock, transactions: TransactionCoordinator) -> None:
        self._config = config
        self._clock = clock
        self._transactions = transactions
        self._turns: dict[tuple[int, int], Turn] = {}

    def verify(
        self, asker: Asker, batches: list[tuple[LeaderPartition, int]]
    ) -> Verdicts | Awaitable[Verdicts]:
        """Returns the result for each partition. `batches` has the first sequence of the batch of each partition."""
        if not asker.adds and not self._config.current.boolean("transaction.partition.verification.enable"):
            return {TopicPartition(leader.topic, leader.partition): None for leader, _ in batches}
        answer: Answer | None
        turns = self._turns
        before = turns.get(asker.producer)
        verdicts, asked = self._guarded(asker, batches)
        if before is None:
            if not asked:
                return verdicts
            answer = self._ask(asker, asked)
            if isinstance(answer, dict) and not (asker.adds and _is_concurrent(answer)):
                return verdicts | _judged(asker, asked, answer)
        else:
            answer = None  # the coordinator is asked in turn
        work = self._in_turn(asker, batches, before, verdicts, asked, answer)
        mine = turns[asker.producer] = asyncio.get_running_loop().create_task(work)
        mine.add_done_callback(lambda done: _leave(turns, asker.producer, done))
        return mine

    async def _in_turn(
        self,
        asker: Asker,
        batches: list[tuple[LeaderPartition, int]],
        before: Turn | None,
        verdicts: dict[TopicPartition, Verdict],
        asked: dict[TopicPartition, Verification],
        answer: Answer | None,
    ) -> Verdicts:
        """Verifies the batches of one producer in order. The next verification continues only after the caller of this
        one has appended its batch, because that caller waited first."""
        if before is not None:
            await asyncio.wait((before,))
        return await self._wait(asker, batches, verdicts, asked, answer)

    def _guarded(
        self, asker: Asker, batches: list[tuple[LeaderPartition, int]]
    ) -> tuple[dict[TopicPartition, Verdict], dict[TopicPartition, Verification]]:
        """Returns the verification of each batch, and those that the coordinator must confirm."""
        now_ms = self._clock.now_ms()
        verdicts: dict[TopicPartition, Verdict] = {}
        asked: dict[TopicPartition, Verification] = {}
        for leader, base_sequence in batches:
            verification = leader.log.producers.verification(
                ProducerId(asker.producer_id),
                asker.producer_epoch,
                base_sequence,
                from_zero=asker.adds,
                now_ms=now_ms,
            )
            key = TopicPartition(leader.topic, leader.partition)
            verdicts[key] = verification
            if verification is not ALREADY_OPEN:
                asked[key] = verification
        return verdicts, asked

    def _ask(self, asker: Asker, asked: Mapping[TopicPartition, Verification]) -> Answer:
        return self._transactions.verify_or_add(
            asker.transactional_id, asker.producer_id, asker.producer_epoch, asked, add=asker.adds
        )

    async def _wait(
        self,
        asker: Asker,
        batches: list[tuple[LeaderPartition, int]],
        verdicts: dict[TopicPartition, Verdict],
        asked: dict[TopicPartition, Verification],
        answer: Answer | None,
    ) -> Verdicts:
        """Waits for the markers of the last transaction, because a client of TV2 does not wait for them.

        Each attempt creates its verifications again, because a new marker makes the log drop earlier ones.
        """
        step_ms = self._config.current.integer("add.partitions.to.txn.retry.backoff.ms")
        left_ms = self._config.current.integer("add.partitions.to.txn.retry.backoff.max.ms")
        while True:
            if answer is not None:
                codes = await answer if isawaitable(answer) else answer
                if not (asker.adds and _is_concurrent(codes)) or left_ms <= 0:
                    return verdicts | _judged(asker, asked, codes)
                await asyncio.sleep(step_ms / 1000)
                left_ms -= step_ms
            verdicts, asked = self._guarded(asker, batches)
            if not asked:
                return verdicts
            answer = self._ask(asker, asked)


def _leave(turns: dict[tuple[int, int], Turn], producer: tuple[int, int], done: Turn) -> None:
    if turns.get(producer) is done:
        del turns[producer]


def _is_concurrent(codes: Mapping[TopicPartition, ErrorCode]) -> bool:
    return ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()


def _judged(
    asker: Asker, asked: Mapping[TopicPartition, Verification], codes: Mapping[TopicPartition, ErrorCode]
) -> dict[TopicPartition, Verdict]:
    return {
        key: verification if codes[key] is ErrorCode.NONE else error_for(_said(asker, codes[key]))
        for key, verification in asked.items()
    }


def _said(asker: Asker, code: ErrorCode) -> ErrorCode:
    """Converts an error of the coordinator to the error for the client."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and not asker.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if asker.knows_coordinators:
        return write_error(code)
    if code in _NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not asker.adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
