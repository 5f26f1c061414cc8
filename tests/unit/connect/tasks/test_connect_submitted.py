"""Which offsets of a source task may be stored."""

from __future__ import annotations

from kcli.connect.tasks.sources.submitted import Acknowledgements, Batches, latest_offsets
from kcli.connectors.records import SourceRecord


def record(table: str, at: int) -> SourceRecord:
    return SourceRecord({"table": table}, {"at": at}, "t")


def key(table: str) -> bytes:
    return b'["c",{"table":"%s"}]' % table.encode()


def test_an_offset_waits_for_all_records_before_it_in_its_partition() -> None:
    ledger = Acknowledgements()
    first, second, other = (ledger.submit("c", record(*place)) for place in (("a", 1), ("a", 2), ("b", 1)))
    second.acknowledged = other.acknowledged = True
    assert ledger.take() == {key("b"): b'{"at":1}'}, (
        "a slow record of one partition holds up no other partition"
    )
    assert ledger.pending == 2
    first.acknowledged = True
    assert ledger.take() == {key("a"): b'{"at":2}'}
    assert (ledger.pending, ledger.take()) == (0, {})


def test_acknowledged_records_are_forgotten_before_their_offset_is_taken() -> None:
    ledger = Acknowledgements()
    first, second, slow = (ledger.submit("c", record("a", at)) for at in range(3))
    first.acknowledged = second.acknowledged = True
    ledger.release()
    assert ledger.pending == 1
    slow.acknowledged = True
    ledger.release()
    assert ledger.pending == 0
    assert ledger.take() == {key("a"): b'{"at":2}'}


def test_a_record_that_was_not_sent_is_withdrawn() -> None:
    ledger = Acknowledgements()
    first = ledger.submit("c", record("a", 1))
    ledger.withdraw(ledger.submit("c", record("a", 2)))
    first.acknowledged = True
    assert ledger.take() == {key("a"): b'{"at":1}'}


def test_offsets_that_could_not_be_stored_come_again_unless_newer_ones_exist() -> None:
    ledger = Acknowledgements()
    ledger.submit("c", record("a", 1)).acknowledged = True
    ledger.submit("c", record("b", 1)).acknowledged = True
    ledger.give_back(ledger.take())
    ledger.submit("c", record("a", 2)).acknowledged = True
    assert ledger.take() == {key("a"): b'{"at":2}', key("b"): b'{"at":1}'}


def test_batches_offer_offsets_only_when_nothing_is_in_flight() -> None:
    ledger = Batches()
    ledger.sent({key("a"): b"1"})
    assert ledger.take() == {}
    ledger.all_acknowledged()
    ledger.sent({key("a"): b"2"})
    assert ledger.take() == {key("a"): b"1"}, "the offset of the last moment without records in flight"
    ledger.all_acknowledged()
    ledger.give_back({key("a"): b"1", key("b"): b"1"})
    assert ledger.take() == {key("a"): b"2", key("b"): b"1"}


def test_the_latest_offset_of_each_partition_wins_also_if_a_task_makes_equal_partitions() -> None:
    records = [record("a", 1), record("b", 1), record("a", 2), record("b", 2), record("a", 3)]
    assert latest_offsets("c", records) == {key("a"): b'{"at":3}', key("b"): b'{"at":2}'}
    shared = {"table": "a"}
    same = [SourceRecord(shared, {"at": at}, "t") for at in range(3)]
    assert latest_offsets("c", same) == {key("a"): b'{"at":2}'}
    assert latest_offsets("c", [SourceRecord(shared, None, "t")]) == {key("a"): None}
