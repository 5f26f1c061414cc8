"""Finds transactions that are open for too long, and transactions that no coordinator will end (KIP-664).

`kcli transactions find-hanging` asks the brokers for the producers of all partitions. This module asks only about
partitions with an open transaction. The last stable offset of such a partition is smaller than its high watermark.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import TopicDescription
from kcli.client.admin.transactions import ProducerState, TransactionDescription
from kcli.client.diagnosis.checkup.snapshot import HangingTransaction
from kcli.errors import KafkaError
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

HANGING_MS = 15 * 60 * 1000
"""A transaction is old if its last record is older than this: the largest time-out that brokers allow by default
(transaction.max.timeout.ms).
"""
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
GRACE_MS = 60_000
"""After the time-out of a transaction, its coordinator gets this time to end the transaction. A coordinator looks for
expired transactions every ten seconds.
"""


async def long_transactions(admin: AdminClient, now_ms: int) -> tuple[TransactionDescription, ...]:
    """Returns the transactions that are open for longer than their time-out. Raises KafkaError."""
    listed = await admin.list_transactions(states=OPEN_STATES)
    described = (
        await admin.describe_transactions([transaction.transactional_id for transaction in listed])
        if listed
        else {}
    )
    return tuple(
        description
        for description in described.values()
        if isinstance(description, TransactionDescription)
        and description.start_ms is not None
        and now_ms - description.start_ms > description.timeout_ms + GRACE_MS
    )


async def hanging_transactions(
    admin: AdminClient, topics: Mapping[str, TopicDescription], now_ms: int
) -> tuple[HangingTransaction, ...]:
    """Returns the old open transactions that no coordinator has. Raises KafkaError."""
    blocked = await _blocked(admin, topics)
    answers = await admin.describe_producers(blocked) if blocked else {}
    candidates = [
        HangingTransaction(partition, producer)
        for partition, producers in answers.items()
        if not isinstance(producers, KafkaError)
        for producer in producers
        if producer.start_offset is not None and now_ms - producer.last_timestamp_ms > HANGING_MS
    ]
    return tuple(
        [
            candidate
            for candidate in candidates
            if not await _is_known(admin, candidate.partition, candidate.producer)
        ]
    )


async def _blocked(admin: AdminClient, topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
    """The partitions whose last stable offset is before their high watermark."""
    specs = {
        TopicPartition(name, partition.partition): int(OffsetSpec.LATEST)
        for name, topic in topics.items()
        for partition in topic.partitions
        if partition.leader is not None
    }
    if not specs:
        return []
    ends = await admin.list_offsets(specs, wait_for_leaders=False)
    stable = await admin.list_offsets(specs, read_committed=True, wait_for_leaders=False)
    return [
        partition
        for partition, end in ends.items()
        if isinstance(end, OffsetAt)
        and isinstance(at := stable.get(partition), OffsetAt)
        and at.offset < end.offset
    ]


async def _is_known(admin: AdminClient, partition: TopicPartition, producer: ProducerState) -> bool:
    """Whether a coordinator has this transaction, and so will end it."""
    listed = await admin.list_transactions(producer_ids=[producer.producer_id])
    described = (
        await admin.describe_transactions([transaction.transactional_id for transaction in listed])
        if listed
        else {}
    )
    return any(
        isinstance(description, TransactionDescription) and partition in description.partitions
        for description in described.values()
    )
