"""Which segments go into one, and which transactions a pass sees through."""

from __future__ import annotations

from kcli.protocol.batches.control import ControlType
from kcli.storage.cleaner.plan import SourceSegment, grouped
from kcli.storage.cleaner.transactions import CleanedTransactions
from kcli.storage.log.transaction_index import AbortedTransaction

GIB = 1 << 30


def groups(
    *segments: tuple[int, int, int, int], end: int = 100, max_index_bytes: int = GIB
) -> list[list[int]]:
    sources = [SourceSegment(*segment) for segment in segments]
    found = grouped(sources, max_bytes=100, max_index_bytes=max_index_bytes, upper_bound_offset=end)
    return [[segment.base_offset for segment in group] for group in found]


class TestGroups:
    def test_a_group_has_at_most_the_size_of_a_segment(self) -> None:
        assert groups((0, 50, 0, 0), (10, 50, 0, 0), (20, 1, 0, 0), (30, 120, 0, 0), (40, 1, 0, 0)) == [
            [0, 10],
            [20],
            [30],
            [40],
        ]

    def test_a_group_has_at_most_the_size_of_an_index(self) -> None:
        assert groups((0, 1, 8, 0), (10, 1, 8, 0), (20, 1, 1, 0), max_index_bytes=16) == [[0, 10], [20]]
        assert groups((0, 1, 0, 12), (10, 1, 0, 12), max_index_bytes=16) == [[0], [10]]

    def test_a_group_spans_at_most_31_bits_of_offsets(self) -> None:
        """The last offset of a segment must stand 31 bits from the base; the next one's base says how far it goes."""
        far = 1 << 31
        assert groups((0, 1, 0, 0), (10, 1, 0, 0), (far, 1, 0, 0), end=far + 1) == [[0, 10], [far]]
        assert groups((0, 1, 0, 0), (10, 1, 0, 0), (far + 1, 1, 0, 0), end=far + 2) == [[0], [10, far + 1]]

    def test_an_empty_segment_has_no_offsets(self) -> None:
        far = 1 << 32
        assert groups((0, 1, 0, 0), (10, 0, 0, 0), (far, 1, 0, 0), end=far + 1) == [[0, 10], [far]]

    def test_no_segments_make_no_groups(self) -> None:
        assert groups() == []


class TestTransactions:
    def test_aborted_data_can_go_and_its_marker_stays_while_there_is_some(self) -> None:
        entry = AbortedTransaction(1, 10, 20, 21)
        transactions = CleanedTransactions([entry])
        assert transactions.is_aborted(1, 12)
        assert not transactions.is_aborted(2, 14)
        assert transactions.end(1, 20, ControlType.ABORT) == (False, entry)
        assert not transactions.is_aborted(1, 22)

    def test_a_marker_without_data_can_go(self) -> None:
        transactions = CleanedTransactions([AbortedTransaction(1, 10, 20, 21)])
        assert transactions.end(1, 20, ControlType.ABORT) == (True, None)
        assert transactions.end(2, 30, ControlType.COMMIT) == (True, None)

    def test_a_commit_with_data(self) -> None:
        transactions = CleanedTransactions([])
        assert not transactions.is_aborted(2, 5)
        assert transactions.end(2, 6, ControlType.COMMIT) == (False, None)
        assert transactions.end(2, 9, ControlType.COMMIT) == (True, None)

    def test_two_in_a_row_of_one_producer(self) -> None:
        first, second = AbortedTransaction(1, 0, 3, 4), AbortedTransaction(1, 6, 9, 10)
        transactions = CleanedTransactions([second, first])
        assert transactions.is_aborted(1, 2)
        assert transactions.end(1, 3, ControlType.ABORT) == (False, first)
        assert not transactions.is_aborted(1, 4)
        assert transactions.end(1, 5, ControlType.COMMIT) == (False, None)
        assert transactions.is_aborted(1, 8)
        assert transactions.end(1, 9, ControlType.ABORT) == (False, second)

    def test_other_control_records(self) -> None:
        transactions = CleanedTransactions([])
        assert transactions.end(-1, 5, ControlType.LEADER_CHANGE) == (False, None)
        assert transactions.end(1, 6, None) == (True, None)  # emptied by an earlier pass
