"""The state of one transactional id in the log, and all its changes (KIP-98, KIP-360, KIP-890).

A transactional id owns a producer id, and each time a producer starts with this transactional id, the producer gets a
higher producer epoch. A transaction is Ongoing when its first partition is added. The coordinator
decides the end of the transaction by writing the record PrepareCommit or PrepareAbort. Then the coordinator writes
markers to all partitions of the transaction, and finally the record CompleteCommit or CompleteAbort. A committed
Prepare record is final: after a fail-over, the next coordinator completes the transaction.

Clients use two versions of the protocol. In version 1 (TV1), the epoch rises only when a producer starts. In version 2
(TV2, KIP-890), the epoch also rises at each end of a transaction. So a delayed request of one transaction cannot become
part of the next transaction. The marker and the response to the client both have the new epoch. If the epoch has
reached its largest value, the producer gets a new producer id.

A `Transaction` is an immutable value, and the functions below return the next one. These functions do not check whether
a client may make the change, because `TransactionShard` checks this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from kcli.model.topic_partition import TopicPartition

MAX_EPOCH = 32_767
EXHAUSTED_EPOCH = MAX_EPOCH - 1
"""The last epoch that a client may have. The next epoch is reserved for fencing."""
TV0 = 0
TV2 = 2


class TransactionStatus(IntEnum):
    """The status in `__transaction_state`. DEAD is never written, because a dead transactional id gets a tombstone."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def label(self) -> str:
        """The name that tools show, such as `CompleteCommit`."""
        return self.name.title().replace("_", "")


COMPLETE = (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
IDLE = (TransactionStatus.EMPTY, *COMPLETE)
PREPARED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)

# For each status, the statuses from which it may be entered. A new transactional id starts in EMPTY.
LEGAL_BEFORE: Mapping[TransactionStatus, tuple[TransactionStatus, ...]] = {
    TransactionStatus.EMPTY: IDLE,
    TransactionStatus.ONGOING: (TransactionStatus.ONGOING, *IDLE),
    TransactionStatus.PREPARE_COMMIT: (TransactionStatus.ONGOING,),
    # TV2 also aborts a transaction without partitions, in order to raise the epoch.
    TransactionStatus.PREPARE_ABORT: (TransactionStatus.ONGOING, *IDLE),
    TransactionStatus.COMPLETE_COMMIT: (TransactionStatus.PREPARE_COMMIT,),
    TransactionStatus.COMPLETE_ABORT: (TransactionStatus.PREPARE_ABORT,),
    TransactionStatus.DEAD: IDLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of a transactional id. `last_producer_epoch` is not in the log, so it is set only if this coordinator
    itself has raised the epoch."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    update_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = TV0

    @property
    def epoch_is_exhausted(self) -> bool:
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def commits(self) -> bool:
        return self.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)


def new_transactional_id(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(producer_id=producer_id, producer_epoch=0, timeout_ms=timeout_ms, update_ms=now_ms)


def with_next_epoch(
    before: Transaction, expected_epoch: int | None, timeout_ms: int, now_ms: int
) -> Transaction | None:
    """The state after a producer starts. If `expected_epoch` is old, another producer has taken over, and the result is
    None.

    If `expected_epoch` is the epoch before the present epoch, the producer has lost an answer and repeats its request.
    The producer then gets the present epoch again.
    """
    # A new process begins: the next epoch fences all earlier processes with this transactional id (KIP-98).
    if expected_epoch is None:
        epoch, last_epoch = before.producer_epoch + 1, NO_PRODUCER_EPOCH
    elif expected_epoch == before.producer_epoch:
        epoch, last_epoch = before.producer_epoch + 1, before.producer_epoch
    elif expected_epoch == before.last_producer_epoch:
        epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    else:
        return None
    return replace(
        before,
        status=TransactionStatus.EMPTY,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
    )


def with_new_producer_id(
    before: Transaction, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
) -> Transaction:
    """The state after a producer with an exhausted epoch starts: it has a new producer id."""
    return replace(
        before,
        status=TransactionStatus.EMPTY,
        producer_id=producer_id,
        previous_producer_id=before.producer_id,
        producer_epoch=0,
        last_producer_epoch=before.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
    )


def with_partitions(
    before: Transaction, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
) -> Transaction:
    return replace(
        before,
        status=TransactionStatus.ONGOING,
        partitions=before.partitions | partitions,
        start_ms=before.start_ms if before.status is TransactionStatus.ONGOING else now_ms,
        update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    before: Transaction,
    status: TransactionStatus,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The state after a client ends its transaction: PrepareCommit or PrepareAbort."""
    nothing_added = before.status is not TransactionStatus.ONGOING
    after = replace(
        before,
        status=status,
        next_producer_id=next_producer_id,
        start_ms=now_ms if nothing_added else before.start_ms,
        update_ms=now_ms,
        client_version=client_version,
    )
    return _bumped(after) if client_version >= TV2 else after


def fenced(before: Transaction, version: int, now_ms: int) -> Transaction:
    """The state after the coordinator itself aborts a transaction. The client's epoch becomes invalid.

    `version` is the transaction.version of the cluster, which may differ from the client's protocol. In TV2 a client
    with the previous epoch can get the new epoch and continue, because a time-out must not end the producer (KIP-588).
    In TV1 the client is fenced.
    """
    after = replace(
        _bumped(before),
        status=TransactionStatus.PREPARE_ABORT,
        update_ms=now_ms,
        client_version=TV2 if version >= TV2 else TV0,
    )
    return after if version >= TV2 else replace(after, last_producer_epoch=NO_PRODUCER_EPOCH)


def _bumped(before: Transaction) -> Transaction:
    """The state with the next epoch. A broken client may have taken the last epoch, which then stays the same."""
    epoch = min(before.producer_epoch + 1, MAX_EPOCH)
    return replace(before, producer_epoch=epoch, last_producer_epoch=before.producer_epoch)


def completed(before: Transaction, now_ms: int) -> Transaction:
    """The state after every marker is written: CompleteCommit or CompleteAbort. If a new producer id was reserved
    because the epoch is exhausted, the new id replaces the old id."""
    after = replace(
        before,
        status=TransactionStatus.COMPLETE_COMMIT if before.commits else TransactionStatus.COMPLETE_ABORT,
        partitions=frozenset(),
        update_ms=now_ms,
    )
    if before.next_producer_id == NO_PRODUCER_ID:
        return after
    return replace(
        after,
        producer_id=before.next_producer_id,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0,
    )
