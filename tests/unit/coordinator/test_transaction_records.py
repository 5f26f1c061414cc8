"""The records of `__transaction_state`: both versions of the value, what they keep, and bytes that are wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kcli.coordinator.transaction.records import OLD_VERSION, TransactionRecord, decode, encode
from kcli.coordinator.transaction.state import Transaction, TransactionStatus
from kcli.errors import CorruptRecordError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.records.transaction_state import decode_key, decode_value

ONGOING = Transaction(
    producer_id=14,
    producer_epoch=3,
    timeout_ms=900_000,
    update_ms=1795252090864,
    status=TransactionStatus.ONGOING,
    partitions=frozenset({TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 2)}),
    start_ms=1795252090864,
    previous_producer_id=9,
    next_producer_id=20,
    client_version=2,
)


def test_a_record_is_read_back_as_it_was_written() -> None:
    assert decode(*encode(TransactionRecord("x", ONGOING))) == TransactionRecord("x", ONGOING)
    assert decode(*encode(TransactionRecord("x", None))) == TransactionRecord("x", None)


def test_the_last_epoch_is_not_written() -> None:
    known = dataclasses.replace(ONGOING, last_producer_epoch=2)
    assert decode(*encode(TransactionRecord("x", known))) == TransactionRecord("x", ONGOING)


def test_the_old_version_has_no_room_for_the_second_protocol() -> None:
    lost = dataclasses.replace(ONGOING, previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode(*encode(TransactionRecord("x", ONGOING), OLD_VERSION)) == TransactionRecord("x", lost)


@pytest.mark.parametrize(
    ("status", "partitions"), [(TransactionStatus.EMPTY, None), (TransactionStatus.COMPLETE_ABORT, ())]
)
def test_no_partitions_are_null_before_a_transaction_and_an_empty_list_after_it(
    status: TransactionStatus, partitions: tuple[Any, ...] | None
) -> None:
    key, value = encode(
        TransactionRecord("x", dataclasses.replace(ONGOING, status=status, partitions=frozenset()))
    )
    assert value is not None
    assert decode_value(decode_key(key), value)[0].transaction_partitions == partitions


def test_bytes_that_kafka_wrote() -> None:
    """The Ongoing record of txn-id-2 in a log of Kafka 4.1: `Ongoing`, txn-a-0."""
    key = bytes.fromhex("0000000874786e2d69642d32")
    empty = Transaction(producer_id=14, producer_epoch=0, timeout_ms=900_000, update_ms=1795252090864)
    ongoing = dataclasses.replace(
        empty,
        status=TransactionStatus.ONGOING,
        partitions=frozenset({TopicPartition("txn-a", 0)}),
        start_ms=1795252090864,
    )
    made_key, value = encode(TransactionRecord("txn-id-2", ongoing))
    assert made_key == key
    assert value is not None and len(value) == 47


def test_types_of_a_newer_kafka_are_passed_over_and_broken_ones_are_not() -> None:
    assert decode(b"\x00\x07\x00\x00", b"") is None
    key, value = encode(TransactionRecord("x", dataclasses.replace(ONGOING, client_version=0)))
    assert value is not None
    status_at = 2 + 8 + 2 + 4
    broken = value[:status_at] + b"\x63" + value[status_at + 1 :]
    with pytest.raises(CorruptRecordError, match="unknown status 99"):
        decode(key, broken)


@pytest.mark.parametrize("status", list(TransactionStatus))
def test_labels_are_kafkas(status: TransactionStatus) -> None:
    assert status.label in {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    }  # fmt: skip
