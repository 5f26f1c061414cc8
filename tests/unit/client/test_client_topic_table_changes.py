"""The changes of a table in the batches of a topic: offsets, aborted transactions, invalid bytes."""

from __future__ import annotations

import pytest

from kcli.client.topic_table.changes import Change, changes_of
from kcli.errors import CorruptRecordError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import Record, encode_batch

PARTITION = TopicPartition("t", 0)


def batch(offset: int, *values: bytes | None, producer: int = -1, control: bool = False) -> bytes:
    records = [Record(-1, 7, b"key", value) for value in values]
    return encode_batch(
        records, base_offset=offset, producer_id=producer, transactional=producer >= 0, control=control
    )


def marker(offset: int, producer: int) -> bytes:
    return batch(offset, b"\0\0\0\0\0\0", producer=producer, control=True)


def shown(batches: bytes, aborted: list[AbortedTransaction] | None = None, offset: int = 0) -> list[object]:
    """Values of changes, and offsets after batches."""
    return [
        each.value if isinstance(each, Change) else each
        for each in changes_of(PARTITION, offset, batches, aborted)
    ]


def test_a_change_has_the_fields_of_its_record() -> None:
    (change, end) = changes_of(PARTITION, 0, batch(5, None), None)
    assert change == Change(PARTITION, 5, 7, b"key", None)
    assert end == 6


def test_records_before_the_offset_of_the_fetch_are_left_out() -> None:
    assert shown(batch(5, b"a", b"b", b"c"), offset=6) == [b"b", b"c", 8]


def test_control_batches_move_the_offset_only() -> None:
    assert shown(batch(0, b"a", producer=1) + marker(1, 1) + batch(2, b"b")) == [b"a", 1, 2, b"b", 3]


def test_an_aborted_transaction_ends_at_its_marker() -> None:
    batches = (
        batch(0, b"lost", producer=1)
        + batch(1, b"other", producer=2)
        + batch(2, b"lost too", producer=1)
        + marker(3, 1)
        + batch(4, b"kept", producer=1)
        + marker(5, 1)
    )
    assert shown(batches, [AbortedTransaction(1, 0)]) == [1, b"other", 2, 3, 4, b"kept", 5, 6]


def test_two_aborted_transactions_of_one_producer_are_both_left_out() -> None:
    batches = batch(0, b"x", producer=1) + marker(1, 1) + batch(2, b"y", producer=1) + marker(3, 1)
    aborted = [AbortedTransaction(1, 2), AbortedTransaction(1, 0)]
    assert shown(batches, aborted) == [1, 2, 3, 4]


def test_a_transaction_that_began_before_the_fetch_is_left_out() -> None:
    assert shown(batch(9, b"lost", producer=1) + marker(10, 1), [AbortedTransaction(1, 3)]) == [10, 11]


def test_a_wrong_checksum_is_refused() -> None:
    broken = bytearray(batch(0, b"a"))
    broken[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="the checksum of batch 0 is wrong"):
        shown(bytes(broken))


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    assert shown(batch(0, b"a") + batch(1, b"b")[:-1]) == [b"a", 1]
