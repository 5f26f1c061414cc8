"""Decides how an EndTxn request changes the state of its transaction, for both transaction protocols (KIP-98,
KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.transaction.state import (
    COMPLETE,
    EXHAUSTED_EPOCH,
    MAX_EPOCH,
    TV2,
    Transaction,
    TransactionStatus,
)
from kcli.errors import ErrorCode
from kcli.protocol.messages.end_txn import EndTxnRequest


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The decision on an EndTxn: either the status to enter, or the error code to return."""

    code: ErrorCode = ErrorCode.NONE
    next_status: TransactionStatus | None = None


_REFUSED = EndDecision(ErrorCode.INVALID_TXN_STATE)
_AGAIN = EndDecision(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED = EndDecision(ErrorCode.PRODUCER_FENCED)
_OTHER_PRODUCER = EndDecision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_DONE = EndDecision()


def judge_end(
    known: Transaction, request: EndTxnRequest, client_version: int, *, is_moving: bool, is_fenced: bool
) -> EndDecision:
    """`is_moving`: a change of the transaction is not complete. A Prepare state is never complete, because its markers
    are being written. `is_fenced`: a write that fences the epoch of the request has begun."""
    if client_version >= TV2:
        return _judge_tv2(known, request, is_moving=is_moving, is_fenced=is_fenced)
    return _judge_tv1(known, request, is_moving=is_moving, is_fenced=is_fenced)


def _judge_tv1(
    known: Transaction, request: EndTxnRequest, *, is_moving: bool, is_fenced: bool
) -> EndDecision:
    if known.producer_id != request.producer_id:
        return _OTHER_PRODUCER
    # In TV1, EndTxn does not change the epoch. So the epoch can be compared during a change, and a fenced producer does
    # not try again in vain.
    if known.producer_epoch != request.producer_epoch or is_fenced:
        return _FENCED
    if is_moving:
        return _AGAIN
    if known.status is TransactionStatus.ONGOING:
        return _decide(request)
    return (
        _REFUSED if known.status is TransactionStatus.EMPTY or known.commits != request.committed else _DONE
    )


def _judge_tv2(
    known: Transaction, request: EndTxnRequest, *, is_moving: bool, is_fenced: bool
) -> EndDecision:
    if is_moving:
        # The client may already have the epoch, or the producer id, that is valid after the change. So the change must
        # be complete before the epoch is compared (KAFKA-18575).
        return _AGAIN
    repeats_rotated = (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch == EXHAUSTED_EPOCH
        and known.producer_epoch == 0
    )
    if known.producer_id != request.producer_id and not repeats_rotated:
        return _OTHER_PRODUCER
    repeats = repeats_rotated or request.producer_epoch + 1 == known.producer_epoch
    is_current = known.producer_id == request.producer_id and known.producer_epoch == request.producer_epoch
    if is_fenced or (repeats and known.producer_epoch == MAX_EPOCH):
        return _FENCED  # the coordinator has fenced this producer with the highest epoch (KAFKA-20090)
    if is_current:
        # If the present transaction has no partitions, an abort still raises the epoch.
        return _decide(request) if known.status is TransactionStatus.ONGOING else _bump_only(request)
    if known.status in COMPLETE and repeats:
        return _DONE if known.commits == request.committed else _REFUSED
    return _FENCED


def _decide(request: EndTxnRequest) -> EndDecision:
    return EndDecision(
        next_status=TransactionStatus.PREPARE_COMMIT if request.committed else TransactionStatus.PREPARE_ABORT
    )


def _bump_only(request: EndTxnRequest) -> EndDecision:
    return _REFUSED if request.committed else EndDecision(next_status=TransactionStatus.PREPARE_ABORT)
