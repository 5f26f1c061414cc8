"""Serves DescribeTransactions and ListTransactions, the requests of operators (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kcli.coordinator.transaction.records import by_topic
from kcli.coordinator.transaction.state import Transaction
from kcli.errors import ErrorCode
from kcli.protocol.messages.describe_transactions import TopicData, TransactionState
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction


class Pattern(Protocol):
    def fullmatch(self, text: str, /) -> object | None: ...


def describe(transactional_id: str, known: Transaction | None) -> TransactionState:
    if not transactional_id or known is None:
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return TransactionState(transactional_id=transactional_id, error_code=missing)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=tuple(
            TopicData(topic=topic.topic, partitions=topic.partition_ids)
            for topic in by_topic(known.partitions)
        ),
    )


def list_transactions(
    transactions: Iterable[tuple[str, Transaction]],
    request: ListTransactionsRequest,
    pattern: Pattern | None,
    now_ms: int,
) -> tuple[ListedTransaction, ...]:
    """The transactions that match every filter. For the filter by duration, a transactional id that never began a
    transaction is older than all others."""
    producer_ids = frozenset(request.producer_id_filters)
    states = frozenset(request.state_filters)

    def is_wanted(transactional_id: str, known: Transaction) -> bool:
        if producer_ids and known.producer_id not in producer_ids:
            return False
        if states and known.state.label not in states:
            return False
        if request.duration_filter >= 0 and now_ms - known.start_ms <= request.duration_filter:
            return False
        return pattern is None or pattern.fullmatch(transactional_id) is not None

    return tuple(
        ListedTransaction(
            transactional_id=transactional_id,
            producer_id=known.producer_id,
            transaction_state=known.state.label,
        )
        for transactional_id, known in transactions
        if is_wanted(transactional_id, known)
    )
