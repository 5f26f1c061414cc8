"""Decides how an EndTxn request changes the state of its transaction, for both transaction protocols (KIP-98,
KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.transaction.state import (
    EXHAUSTED_EPOCH,
    IDLE,
    MAX_EPOCH,
    PREPARED,
    TV2,
    State,
    Transaction,
)
from kcli.errors import ErrorCode
from kcli.protocol.messages.end_txn import EndTxnRequest


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The decision on an EndTxn: either the state to enter, or the error code to return."""

    code: ErrorCode = ErrorCode.NONE
    next_state: State | None = None


_REFUSED = EndDecision(ErrorCode.INVALID_TXN_STATE)
_AGAIN = EndDecision(ErrorCode.CONCURRENT_TRANSACTIONS)
_FENCED = EndDecision(ErrorCode.PRODUCER_FENCED)
_DONE = EndDecision()


def judge_end(known: Transaction, request: EndTxnRequest, client_version: int) -> EndDecision:
    return _judge_tv2(known, request) if client_version >= TV2 else _judge_tv1(known, request)


def _judge_tv1(known: Transaction, request: EndTxnRequest) -> EndDecision:
    if known.producer_id != request.producer_id:
        return EndDecision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != request.producer_epoch:
        return _FENCED
    if known.state is State.ONGOING:
        return _decide(request)
    if known.state is State.EMPTY or known.commits != request.committed:
        return _REFUSED
    return _AGAIN if known.state in PREPARED else _DONE


def _judge_tv2(known: Transaction, request: EndTxnRequest) -> EndDecision:
    repeats_rotated = (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch == EXHAUSTED_EPOCH
        and known.producer_epoch == 0
        and known.state not in PREPARED
    )
    repeats = repeats_rotated or request.producer_epoch + 1 == known.producer_epoch
    if known.producer_id != request.producer_id and not repeats_rotated:
        return EndDecision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.state in PREPARED:
        if not repeats:
            return _FENCED
        return _AGAIN if known.commits == request.committed else _REFUSED
    if repeats and known.producer_epoch == MAX_EPOCH:
        return _FENCED  # the coordinator has fenced this producer with the highest epoch (KAFKA-20090)
    is_current = known.producer_id == request.producer_id and known.producer_epoch == request.producer_epoch
    if known.state in (State.ONGOING, State.EMPTY):
        if not is_current:
            return _FENCED
        return _decide(request) if known.state is State.ONGOING else _bump_only(request)
    assert known.state in IDLE, f"{known.state.label} has its rows above"
    if is_current:
        # The earlier transaction has ended, and the present transaction has no partitions. An abort still raises the
        # epoch.
        return _bump_only(request)
    if not repeats:
        return _FENCED
    return _DONE if known.commits == request.committed else _REFUSED


def _decide(request: EndTxnRequest) -> EndDecision:
    return EndDecision(next_state=State.PREPARE_COMMIT if request.committed else State.PREPARE_ABORT)


def _bump_only(request: EndTxnRequest) -> EndDecision:
    return _REFUSED if request.committed else EndDecision(next_state=State.PREPARE_ABORT)
