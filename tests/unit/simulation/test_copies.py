"""The ledger of a copier notices each way in which copies can be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.model.ids import Offset
from kcli.model.topic_partition import TopicPartition
from simulation.checks.copies import Copy, CopyLedger

ONE, TWO = TopicPartition("copies", 0), TopicPartition("copies", 1)
SOURCE = [b"a", b"b", b"c"]
Read = dict[TopicPartition, list[bytes]]


def _begin(ledger: CopyLedger, first: int, end: int, read: Read) -> Copy:
    """Begins a transaction that copies its records to both partitions. Adds its copies to `read`."""
    copy = ledger.begin(first, end, 0.0)
    for offset in range(first, end):
        for partition in (ONE, TWO):
            read[partition].append(ledger.writes(copy, partition, Offset(offset), SOURCE[offset]))
    return copy


def _commit(ledger: CopyLedger, copy: Copy) -> None:
    ledger.asks_for_commit(copy)
    ledger.acknowledged(copy, 1.0, commits=True)


@pytest.fixture
def ledger() -> CopyLedger:
    return CopyLedger()


@pytest.fixture
def read(ledger: CopyLedger) -> Read:
    """The copies of two committed transactions, and an aborted one between them."""
    read: Read = {ONE: [], TWO: []}
    _commit(ledger, _begin(ledger, 0, 2, read))
    aborted = _begin(ledger, 2, 3, {ONE: [], TWO: []})
    ledger.acknowledged(aborted, 2.0, commits=False)
    _commit(ledger, _begin(ledger, 2, 3, read))
    return read


def test_a_copied_input_is_right(ledger: CopyLedger, read: Read) -> None:
    for partition, values in read.items():
        for offset, value in enumerate(values):
            ledger.read(partition, offset, value)
    ledger.check_end(SOURCE, read, 3)
    assert (ledger.committed, ledger.aborted) == (2, 1)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda read: read[ONE].pop(), "lost write"),
        (lambda read: read[ONE].append(read[ONE][0]), "is seen twice"),
        (lambda read: read[ONE].append(b"1 2 c"), "aborted read"),
        (lambda read: read[TWO].reverse(), "comes too early"),
        (lambda read: read[TWO].__setitem__(0, b"0 0 x"), "is no copy of 0"),
    ],
)
def test_wrong_copies_are_noticed(
    ledger: CopyLedger, read: Read, spoil: Callable[[Read], object], complaint: str
) -> None:
    spoil(read)
    with pytest.raises(AssertionError, match=complaint):
        ledger.check_end(SOURCE, read, 3)


def test_a_transaction_that_a_commit_skips_is_noticed(ledger: CopyLedger) -> None:
    with pytest.raises(AssertionError, match="0 was committed before"):
        _commit(ledger, ledger.begin(1, 2, 0.0))


def test_an_open_transaction_must_not_be_visible(ledger: CopyLedger) -> None:
    copy = ledger.begin(0, 1, 0.0)
    value = ledger.writes(copy, ONE, Offset(0), b"a")
    with pytest.raises(AssertionError, match="is open or aborted"):
        ledger.read(ONE, 0, value)
    with pytest.raises(AssertionError, match="belongs to no committed transaction"):
        ledger.fetched(1)
    ledger.asks_for_commit(copy)
    ledger.read(ONE, 0, value)
    ledger.fetched(1)


@pytest.mark.parametrize(("position", "committed"), [(0, 0), (1, 1)])
def test_the_committed_position_decides_an_unknown_transaction(
    ledger: CopyLedger, position: int, committed: int
) -> None:
    copy = ledger.begin(0, 1, 0.0)
    ledger.asks_for_commit(copy)
    ledger.decided(position, 1.0)
    assert ledger.committed == committed
    if not committed:
        with pytest.raises(AssertionError, match="it was aborted before"):
            ledger.acknowledged(copy, 2.0, commits=True)


def test_an_impossible_position_is_noticed(ledger: CopyLedger) -> None:
    _commit(ledger, ledger.begin(0, 2, 0.0))
    with pytest.raises(AssertionError, match=r"the committed position is 1, possible are \[2\]"):
        ledger.decided(1, 1.0)
