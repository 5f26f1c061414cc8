"""The records of `__transaction_state`: one per transactional id (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.fields import Int8, Int16, Int32, Int64, since, tag
from kcli.protocol.records.coordinator import CoordinatorRecords
from kcli.protocol.records.schema import NEVER_FLEXIBLE, Json, record


@record(0, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class TransactionLogKey:
    transactional_id: str = ""


@record()
class PartitionsSchema:
    topic: str = ""
    partition_ids: tuple[Int32, ...] = ()


@record(versions=(0, 1), flexible_since=1)
class TransactionLogValue:
    """The state of a transactional id.

    `transaction_status`: 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort.
    """

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, since(1, ignorable=True), tag(0)] = -1
    next_producer_id: Annotated[Int64, since(1, ignorable=True), tag(1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, since(1, ignorable=True), tag(3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: tuple[PartitionsSchema, ...] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, since(1, ignorable=True), tag(2)] = 0


TRANSACTION_STATE: CoordinatorRecords[TransactionLogKey, TransactionLogValue] = CoordinatorRecords(
    {TransactionLogKey: (TransactionLogValue, 1)}
)
"""The key class, the value class and the version in which values are written. A cluster at transaction.version 1 or 2
writes version 1. A cluster at transaction.version 0 writes version 0."""


def encode_key(key: TransactionLogKey) -> bytes:
    return TRANSACTION_STATE.encode_key(key)


def decode_key(key: bytes) -> TransactionLogKey:
    """Decodes a key. Raises UnknownRecordTypeError for a type of a newer Kafka, and CorruptRecordError for invalid
    bytes."""
    return TRANSACTION_STATE.decode_key(key)


def encode_value(value: TransactionLogValue, version: int | None = None) -> bytes:
    return TRANSACTION_STATE.encode_value(value, version)


def decode_value(key: TransactionLogKey, value: bytes) -> tuple[TransactionLogValue, int]:
    return TRANSACTION_STATE.decode_value(key, value)


def key_to_json(key: TransactionLogKey) -> dict[str, Json]:
    return TRANSACTION_STATE.key_to_json(key)


def value_to_json(value: TransactionLogValue, version: int) -> dict[str, Json]:
    return TRANSACTION_STATE.value_to_json(value, version)
