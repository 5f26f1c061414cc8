"""InitProducerId: decides the producer id and epoch of a producer that begins (KIP-98, KIP-360)."""

from __future__ import annotations

from kcli.coordinator.transaction.state import (
    EXHAUSTED_EPOCH,
    MAX_EPOCH,
    Transaction,
    new_transactional_id,
    with_new_producer_id,
    with_next_epoch,
)
from kcli.errors import ErrorCode
from kcli.model.ids import NO_PRODUCER_ID
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def expected_epoch(request: InitProducerIdRequest) -> int | None:
    """The producer epoch in the request. None if the producer is new."""
    return None if request.producer_id == NO_PRODUCER_ID else request.producer_epoch


def is_own(known: Transaction, request: InitProducerIdRequest) -> bool:
    """Whether the producer id in the request belongs to this transactional id (KIP-360). This is True if the request
    names no producer id, the present producer id, or the previous producer id with an exhausted epoch."""
    if request.producer_id in (NO_PRODUCER_ID, known.producer_id):
        return True
    return request.producer_id == known.previous_producer_id and request.producer_epoch >= EXHAUSTED_EPOCH


def rotates(known: Transaction, expected_epoch: int | None) -> bool:
    """Whether the producer needs a new producer id, because the next epoch is reserved for the coordinator."""
    if known.producer_epoch == MAX_EPOCH and expected_epoch == known.last_producer_epoch:
        return True
    return known.epoch_is_exhausted and expected_epoch in (None, known.producer_epoch)


def renewed(
    before: Transaction | None, request: InitProducerIdRequest, fresh_producer_id: int | None, now_ms: int
) -> Transaction | ErrorCode:
    timeout_ms = request.transaction_timeout_ms
    expected = expected_epoch(request)
    if before is None or rotates(before, expected):
        if fresh_producer_id is None:
            # The id was removed meanwhile. The client sends the request again.
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if before is None:
            return new_transactional_id(fresh_producer_id, timeout_ms, now_ms)
        return with_new_producer_id(
            before, fresh_producer_id, timeout_ms, now_ms, keep_last_epoch=expected is not None
        )
    after = with_next_epoch(before, expected, timeout_ms, now_ms)
    return ErrorCode.PRODUCER_FENCED if after is None else after
