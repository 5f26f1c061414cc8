"""The records of `__transaction_state` in the form that `TransactionShard` uses, and the encoding of these records.

If transaction.version is 1 or more, version 1 of the value is written, because only this version has the fields of TV2.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.transaction.state import Transaction, TransactionStatus
from kcli.errors import CorruptRecordError
from kcli.model.ids import NO_PRODUCER_EPOCH
from kcli.model.java_order import hash_order
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.records.coordinator import UnknownRecordTypeError
from kcli.protocol.records.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

FLEXIBLE_VERSION = 1
OLD_VERSION = 0


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The state of a transactional id. A `transaction` of None is a tombstone, which removes the transactional id."""

    transactional_id: str
    transaction: Transaction | None


def encode(record: TransactionRecord, value_version: int = FLEXIBLE_VERSION) -> tuple[bytes, bytes | None]:
    key = encode_key(TransactionLogKey(transactional_id=record.transactional_id))
    after = record.transaction
    if after is None:
        return key, None
    value = TransactionLogValue(
        producer_id=after.producer_id,
        previous_producer_id=after.previous_producer_id,
        next_producer_id=after.next_producer_id,
        producer_epoch=after.producer_epoch,
        transaction_timeout_ms=after.timeout_ms,
        transaction_status=after.status,
        transaction_partitions=None
        if after.status is TransactionStatus.EMPTY
        else by_topic(after.partitions),
        transaction_last_update_timestamp_ms=after.update_ms,
        transaction_start_timestamp_ms=after.start_ms,
        client_transaction_version=after.client_version,
    )
    return key, encode_value(value, value_version)


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Decodes a record. Returns None for a type of a newer Kafka (KIP-915). Raises CorruptRecordError for invalid
    bytes."""
    try:
        parsed = decode_key(key)
    except UnknownRecordTypeError:
        return None
    if value is None:
        return TransactionRecord(parsed.transactional_id, None)
    stored, _ = decode_value(parsed, value)
    try:
        status = TransactionStatus(stored.transaction_status)
    except ValueError:
        raise CorruptRecordError(
            f"The transaction of '{parsed.transactional_id}' has the unknown status {stored.transaction_status}"
        ) from None
    partitions = frozenset(
        TopicPartition(topic.topic, partition)
        for topic in stored.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    transaction = Transaction(
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        update_ms=stored.transaction_last_update_timestamp_ms,
        status=status,
        partitions=partitions,
        start_ms=stored.transaction_start_timestamp_ms,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_version=stored.client_transaction_version,
    )
    return TransactionRecord(parsed.transactional_id, transaction)


def by_topic(partitions: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    """The partitions grouped by topic. Topics are in the order of Kafka's hash map."""
    ids = numbers_by_topic(sorted(partitions))
    return tuple(PartitionsSchema(topic=topic, partition_ids=ids[topic]) for topic in hash_order(sorted(ids)))
