"""Serves DescribeTransactions and ListTransactions, the requests of operators (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from kcli.coordinator.transaction.records import by_topic
from kcli.coordinator.transaction.state import Transaction
from kcli.errors import ErrorCode
from kcli.protocol.messages.describe_transactions import TopicData
from kcli.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction


def describe(transactional_id: str, known: Transaction | None) -> DescribedTransaction:
    if not transactional_id or known is None:
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribedTransaction(transactional_id=transactional_id, error_code=missing)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=known.status.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=tuple(
            TopicData(topic=topic.topic, partitions=topic.partition_ids)
            for topic in by_topic(known.partitions)
        ),
    )


@dataclass(frozen=True, slots=True)
class Filter:
    """The filters of a ListTransactions, all of which a transaction must match. A transactional id that never began a
    transaction matches every filter by duration."""

    producer_ids: Container[int] | None
    states: Container[str] | None
    duration_ms: int

    def matches(self, known: Transaction, now_ms: int) -> bool:
        if self.producer_ids is not None and known.producer_id not in self.producer_ids:
            return False
        if self.states is not None and known.status.label not in self.states:
            return False
        return self.duration_ms < 0 or now_ms - known.start_ms > self.duration_ms


def listed(transactional_id: str, known: Transaction) -> ListedTransaction:
    return ListedTransaction(
        transactional_id=transactional_id,
        producer_id=known.producer_id,
        transaction_state=known.status.label,
    )
