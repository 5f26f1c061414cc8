"""Asks the coordinator of a transaction whether a batch may begin the transaction in a partition (KIP-890).

In version 1 of the transaction protocol (TV1), the coordinator only verifies that the client has added the partition.
In version 2 (TV2), the coordinator also adds the partition. A client uses TV2 if it sends Produce in version 12 or
later, or TxnOffsetCommit in version 5 or later. If the producer's transaction is already open in a partition, no
verification is needed. The result is a `Verification` for the append, or the error for the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.dynamic import DynamicConfig
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.ids import ProducerId
from kcli.model.observations import Observations
from kcli.model.pace import Pace
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.server.coordinators.transaction_coordinators import TransactionCoordinators
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.storage.log.producer_state import ALREADY_OPEN, Verification

VerificationResult = Verification | KafkaError | None
"""The result for one partition. None means that verification is disabled, and the batch is appended without a
verification."""
VerificationResults = Mapping[TopicPartition, VerificationResult]
Codes = dict[TopicPartition, ErrorCode]

BATCH_COST = 2
"""The cost to begin the verification of a partition. The coordinator decides about all partitions at once."""
BATCHES_AT_ONCE = 50

_NOT_NOW = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalClient:
    """The producer of a transaction. `adds` is True if the producer uses TV2. `knows_abortable` is True if the producer
    can handle the error TRANSACTION_ABORTABLE.

    `knows_coordinators` is True if the client can handle the errors of a coordinator that is not ready. Clients that
    commit offsets can handle these errors. If `knows_coordinators` is False, a Produce of TV1 gets NOT_ENOUGH_REPLICAS
    instead, because every client sends the request again after this error.
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


@dataclass(slots=True, eq=False, weakref_slot=True)
class VerificationCounts:
    """The number of partitions that failed the verification since the start of the broker."""

    failures: int = 0


class TransactionVerifier:
    """Asks the coordinator before a batch begins a transaction in a partition that this broker leads."""

    def __init__(self, config: DynamicConfig, clock: Clock, transactions: TransactionCoordinators) -> None:
        self._config = config
        self._clock = clock
        self._transactions = transactions
        self._running: dict[tuple[int, int], asyncio.Future[None]] = {}
        """The last verification of each producer that has not ended."""
        self.counts = VerificationCounts()
        self.times_ms = Observations()

    async def verify(
        self, client: TransactionalClient, batches: list[tuple[LeaderPartition, int]], pace: Pace
    ) -> VerificationResults:
        """Returns the result for each partition. `batches` contains the lowest first sequence of the batches of each
        partition.

        The batches of one producer are verified in order. The next verification continues only after the caller of
        this verification has appended its batch."""
        if not client.adds and not self._config.current.boolean("transaction.partition.verification.enable"):
            return {TopicPartition(leader.topic, leader.partition): None for leader, _ in batches}
        before = self._running.get(client.producer)
        mine = self._running[client.producer] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait((before,))
            return await self._verify_in_order(client, batches, pace)
        finally:
            if self._running.get(client.producer) is mine:
                del self._running[client.producer]
            mine.set_result(None)

    async def _begin(
        self, client: TransactionalClient, batches: list[tuple[LeaderPartition, int]], pace: Pace
    ) -> tuple[dict[TopicPartition, VerificationResult], dict[TopicPartition, Verification]]:
        """Begins a verification of each batch in the log of its partition. Returns two mappings: all verifications, and
        only the verifications that the coordinator must confirm.
        """
        now_ms = self._clock.now_ms()
        verdicts: dict[TopicPartition, VerificationResult] = {}
        unconfirmed: dict[TopicPartition, Verification] = {}
        for number, (leader, base_sequence) in enumerate(batches):
            if number % BATCHES_AT_ONCE == 0:
                await pace(min(BATCHES_AT_ONCE, len(batches) - number) * BATCH_COST)
            verification = leader.log.producers.state.verification(
                ProducerId(client.producer_id),
                client.producer_epoch,
                base_sequence,
                from_zero=client.adds,
                now_ms=now_ms,
            )
            key = TopicPartition(leader.topic, leader.partition)
            verdicts[key] = verification
            if verification is not ALREADY_OPEN:
                unconfirmed[key] = verification
        return verdicts, unconfirmed

    def _count(self, codes: Codes, began: float) -> None:
        self.times_ms.add((self._clock.monotonic() - began) * 1000)
        self.counts.failures += sum(code is not ErrorCode.NONE for code in codes.values())

    async def _verify_in_order(
        self, client: TransactionalClient, batches: list[tuple[LeaderPartition, int]], pace: Pace
    ) -> VerificationResults:
        """Asks the coordinator, and waits until the markers of the producer's last transaction are written. A client of
        TV2 begins its next transaction without waiting for these markers.

        Each attempt makes new verifications, because a marker makes the old verifications invalid. If a marker is
        written before the coordinator has answered, the answer may be about the next transaction. So the coordinator is
        asked again.
        """
        verdicts, unconfirmed = await self._begin(client, batches, pace)
        if not unconfirmed:
            return verdicts
        began = self._clock.monotonic()
        step_ms = self._config.current.integer("add.partitions.to.txn.retry.backoff.ms")
        left_ms = self._config.current.integer("add.partitions.to.txn.retry.backoff.max.ms")
        while unconfirmed:
            codes = await self._transactions.verify_or_add(
                client.transactional_id,
                client.producer_id,
                client.producer_epoch,
                unconfirmed,
                add=client.adds,
            )
            is_early = client.adds and _is_concurrent(codes)
            if left_ms <= 0 or not (is_early or _is_dropped(client, batches, unconfirmed)):
                self._count(codes, began)
                return verdicts | _judged(client, unconfirmed, codes)
            if is_early:
                await asyncio.sleep(step_ms / 1000)
            left_ms -= step_ms
            verdicts, unconfirmed = await self._begin(client, batches, pace)
        return verdicts


def _is_dropped(
    client: TransactionalClient,
    batches: list[tuple[LeaderPartition, int]],
    unconfirmed: Mapping[TopicPartition, Verification],
) -> bool:
    """Whether the log has dropped a verification since the verification began."""
    producer_id = ProducerId(client.producer_id)
    return any(
        (verification := unconfirmed.get(TopicPartition(leader.topic, leader.partition))) is not None
        and not leader.log.producers.state.is_valid(producer_id, verification)
        for leader, _ in batches
    )


def _is_concurrent(codes: Mapping[TopicPartition, ErrorCode]) -> bool:
    return ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()


def _judged(
    client: TransactionalClient,
    unconfirmed: Mapping[TopicPartition, Verification],
    codes: Mapping[TopicPartition, ErrorCode],
) -> dict[TopicPartition, VerificationResult]:
    return {
        key: verification if codes[key] is ErrorCode.NONE else error_for(_code_for(client, codes[key]))
        for key, verification in unconfirmed.items()
    }


def _code_for(client: TransactionalClient, code: ErrorCode) -> ErrorCode:
    """Converts an error of the coordinator to the error for the client."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and not client.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if client.knows_coordinators:
        return write_error(code)
    if code in _NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not client.adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
