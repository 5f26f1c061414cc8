"""One transactional id as the log has it, and every way in which it may change (KIP-98, KIP-360, KIP-890).

Theory of operation. A transactional id owns a producer id; the producer's epoch tells its incarnations apart. A
transaction is Ongoing from the first partition that is added; its end is decided by writing PrepareCommit or
PrepareAbort, carried out by markers in all its partitions, and over with CompleteCommit or CompleteAbort. Once Prepare
is committed there is no way back, so the next coordinator carries it out.

Clients speak two protocols. In the first (TV1) the epoch moves when a producer begins again. In the second (TV2,
KIP-890) each end of a transaction moves it, so that a straggler of the transaction before cannot slip into the next.
The marker carries the new epoch, and the client gets it with the answer. A new producer id replaces an exhausted epoch.

A `Transaction` is a value; the functions below return the next one. They do not check who asks: that is the shard's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from kcli.model.topic_partition import TopicPartition

MAX_EPOCH = 32_767
EXHAUSTED_EPOCH = MAX_EPOCH - 1
"""The last epoch a client may have: the one above it is kept for fencing."""
TV0 = 0
TV2 = 2


class State(IntEnum):
    """The status in `__transaction_state`; DEAD is never written, its record being a tombstone."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def label(self) -> str:
        """The name that the tools show: `CompleteCommit`."""
        return self.name.title().replace("_", "")


_COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
IDLE = (State.EMPTY, *_COMPLETE)
PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)

# The states from which each may be entered; EMPTY also from nothing.
LEGAL_BEFORE: Mapping[State, tuple[State, ...]] = {
    State.EMPTY: IDLE,
    State.ONGOING: (State.ONGOING, *IDLE),
    State.PREPARE_COMMIT: (State.ONGOING,),
    # TV2 aborts also a transaction to which nothing was added, to move the epoch.
    State.PREPARE_ABORT: (State.ONGOING, *IDLE),
    State.COMPLETE_COMMIT: (State.PREPARE_COMMIT,),
    State.COMPLETE_ABORT: (State.PREPARE_ABORT,),
    State.DEAD: IDLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """`last_producer_epoch` is known only to the coordinator that bumped it: the log has no place for it."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    update_ms: int
    state: State = State.EMPTY
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
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


def new_transactional_id(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(producer_id=producer_id, producer_epoch=0, timeout_ms=timeout_ms, update_ms=now_ms)


def with_next_epoch(
    before: Transaction, expected_epoch: int | None, timeout_ms: int, now_ms: int
) -> Transaction | None:
    """The producer begins again; None if `expected_epoch`, the one that it believes to have, was taken over.

    A producer that expects the epoch before the last bump repeats a request whose answer was lost: it gets the same
    again.
    """
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
        state=State.EMPTY,
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
    """The producer begins again after its epochs were used up."""
    return replace(
        before,
        state=State.EMPTY,
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
        state=State.ONGOING,
        partitions=before.partitions | partitions,
        start_ms=before.start_ms if before.state is State.ONGOING else now_ms,
        update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    before: Transaction,
    state: State,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The client ends its transaction."""
    nothing_added = before.state is not State.ONGOING
    after = replace(
        before,
        state=state,
        next_producer_id=next_producer_id,
        start_ms=now_ms if nothing_added else before.start_ms,
        update_ms=now_ms,
        client_version=client_version,
    )
    return _bumped(after) if client_version >= TV2 else after


def fenced(before: Transaction, version: int, now_ms: int) -> Transaction:
    """The coordinator aborts in the client's place, whose epoch is not good any more.

    `version` is the protocol of the cluster, whatever the client speaks. In TV2 a client that names the epoch before
    gets the new one (KIP-588: a transaction that took too long does not end its producer), in TV1 it is fenced.
    """
    after = replace(
        _bumped(before),
        state=State.PREPARE_ABORT,
        update_ms=now_ms,
        client_version=TV2 if version >= TV2 else TV0,
    )
    return after if version >= TV2 else replace(after, last_producer_epoch=NO_PRODUCER_EPOCH)


def _bumped(before: Transaction) -> Transaction:
    assert before.producer_epoch < MAX_EPOCH, "no client has the last epoch, so it is never bumped"
    return replace(
        before, producer_epoch=before.producer_epoch + 1, last_producer_epoch=before.producer_epoch
    )


def completed(before: Transaction, now_ms: int) -> Transaction:
    """Every marker is written. A producer id that was put by for an exhausted epoch takes over here."""
    after = replace(
        before,
        state=State.COMPLETE_COMMIT if before.commits else State.COMPLETE_ABORT,
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
