"""Offset, time and transaction index."""

from __future__ import annotations

import random
from bisect import bisect_right

import pytest

from kcli.errors import CorruptRecordError
from kcli.storage.files import Handle, HandlePool
from kcli.storage.log.index import PENDING_BYTES, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from kcli.storage.log.transaction_index import AbortedTransaction, TransactionIndex
from simulation.runtime.disk import FaultKind, SimDisk

BASE = 1000


def offset_index(disk: SimDisk, size_bytes: int = 0) -> OffsetIndex:
    return OffsetIndex(Handle(HandlePool(disk, 8), "/i"), BASE, size_bytes)


def time_index(disk: SimDisk, size_bytes: int = 0) -> TimeIndex:
    return TimeIndex(Handle(HandlePool(disk, 8), "/t"), BASE, size_bytes)


class TestOffsetIndex:
    def test_entries_stay_in_memory_during_a_shortage_of_descriptors(self) -> None:
        """An append must not fail here, because its batch is in the log file already."""
        disk = SimDisk()
        disk.fail("open", kind=FaultKind.SHORT)
        index = offset_index(disk)
        count = PENDING_BYTES // 8
        for nth in range(count):
            index.append(BASE + nth, nth)
        assert not disk.has_faults, "the shortage was met"
        index.append(BASE + count, count)
        assert disk.contents("/")["i"], "the next append writes the entries"
        assert [index.lookup(BASE + nth).position for nth in range(count + 1)] == list(range(count + 1))

    @pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 5000])
    @pytest.mark.parametrize("reopened", [False, True])
    def test_an_offset_index_finds_the_entry_at_or_below_an_offset(self, count: int, reopened: bool) -> None:
        disk = SimDisk()
        index = offset_index(disk)
        for nth in range(count):
            index.append(BASE + 10 * nth + 5, 100 * nth)
        if reopened:
            index.entries.write_out()
            index = offset_index(disk, count * 8)
        assert index.lookup(BASE) == OffsetPosition(BASE, 0)
        for nth in [*range(0, count, 97), count - 1][: count or 0]:
            entry = OffsetPosition(BASE + 10 * nth + 5, 100 * nth)
            assert index.lookup(BASE + 10 * nth + 5) == index.lookup(BASE + 10 * nth + 14) == entry
            assert index.position_at_or_below(100 * nth + 99) == 100 * nth
            assert index.upper_bound(100 * nth) == entry.offset
        assert index.upper_bound(100 * count) is None
        assert index.last() == (OffsetPosition(BASE + 10 * count - 5, 100 * count - 100) if count else None)

    @pytest.mark.parametrize(("offset", "left"), [(BASE, 0), (BASE + 5, 0), (BASE + 6, 1), (BASE + 9999, 20)])
    def test_a_truncated_offset_index_keeps_the_entries_before_the_offset(
        self, offset: int, left: int
    ) -> None:
        disk = SimDisk()
        index = offset_index(disk)
        for nth in range(20):
            index.append(BASE + 10 * nth + 5, 100 * nth)
        index.truncate_to(offset)
        assert index.entries.count == left
        assert disk.open("/i").size() == 8 * left
        index.append(BASE + 5000, 7)
        assert index.last() == OffsetPosition(BASE + 5000, 7)
        whole = [(10 * nth + 5, 100 * nth) for nth in range(left)]
        assert index.entries.entries() == [*whole, (5000, 7)]

    def test_nothing_is_remembered_of_what_was_cut(self) -> None:
        index = offset_index(SimDisk())
        for nth in range(2000):
            index.append(BASE + 10 * nth, 100 * nth)
        assert index.lookup(BASE + 10_000).position == 100_000
        index.truncate_to(BASE + 9_990)
        for nth in range(999, 2000):
            index.append(BASE + 10 * nth + 5, 100 * nth + 7)
        for nth in (998, 999, 1000, 1200):
            later = nth >= 999
            entry = OffsetPosition(BASE + 10 * nth + 5 * later, 100 * nth + 7 * later)
            assert index.lookup(BASE + 10 * nth + 7) == entry
            assert index.position_at_or_below(100 * nth + 10) == entry.position

    @pytest.mark.parametrize("shape", ["even", "late", "early", "steps", "random"])
    @pytest.mark.parametrize("count", [513, 1024, 3001])
    def test_lookups_however_uneven(self, shape: str, count: int) -> None:
        rng = random.Random(count)
        relative = {
            "even": [nth * 7 for nth in range(count)],
            "late": [*range(count - 1), 1 << 30],
            "early": [nth + (1 << 30) for nth in range(count)],
            "steps": [nth // 300 * 100_000 + nth % 300 for nth in range(count)],
            "random": sorted(rng.sample(range(1 << 31), count)),
        }[shape]
        index = offset_index(SimDisk())
        for offset in relative:
            index.append(BASE + offset, 0)
        targets = [0, relative[0] - 1, relative[-1] + 1, *rng.sample(relative, 50)]
        for target in [*targets, *(each - 1 for each in targets), *(each + 1 for each in targets)]:
            assert index.entries.find(target, field=0) == bisect_right(relative, target)

    def test_an_index_is_full_if_no_entry_fits_in_the_limit(self) -> None:
        index = offset_index(SimDisk())
        index.append(BASE, 0)
        assert index.is_full(15)
        assert not index.is_full(16)

    def test_an_offset_index_with_zeros_at_the_end_is_not_sane(self) -> None:
        disk = SimDisk()
        assert offset_index(disk).is_sane()
        disk.open("/i", create=True).write_at(0, b"\0\0\0\5\0\0\0\6" + bytes(16))
        assert offset_index(disk, 8).is_sane()
        assert not offset_index(disk, 24).is_sane()

    def test_a_file_that_is_too_short(self) -> None:
        disk = SimDisk()
        disk.open("/i", create=True)
        with pytest.raises(OSError, match="/i ends before its entry 0"):
            offset_index(disk, 8).lookup(BASE + 3)


class TestTimeIndex:
    def test_only_newer_timestamps(self) -> None:
        index = time_index(SimDisk())
        for timestamp, offset in ((50, 1), (50, 2), (40, 3), (60, 4), (-1, 5)):
            index.append_if_newer(timestamp, BASE + offset)
        assert index.entries.entries() == [(50, 1), (60, 4)]
        assert index.last() == TimestampOffset(60, BASE + 4)

    def test_a_time_index_finds_the_entry_at_or_before_a_timestamp(self) -> None:
        index = time_index(SimDisk())
        for nth in range(1000):
            index.append_if_newer(10 * nth, BASE + nth)
        assert index.lookup(-5) == TimestampOffset(-1, BASE)
        for nth in range(0, 1000, 37):
            assert (
                index.lookup(10 * nth + 9) == index.lookup(10 * nth) == TimestampOffset(10 * nth, BASE + nth)
            )
        index.truncate_to(BASE + 500)
        assert index.last() == TimestampOffset(4990, BASE + 499)

    def test_one_place_is_kept_for_the_last_entry(self) -> None:
        index = time_index(SimDisk())
        index.append_if_newer(1, BASE)
        assert index.is_full(24)
        assert not index.is_full(36)

    def test_a_time_index_with_zeros_at_the_end_is_not_sane(self) -> None:
        disk = SimDisk()
        index = time_index(disk)
        index.append_if_newer(77, BASE)
        index.entries.write_out()
        assert time_index(disk, 12).is_sane()
        disk.open("/t").write_at(12, bytes(24))
        assert not time_index(disk, 36).is_sane()

    def test_a_torn_entry_is_not_sane(self) -> None:
        """A crash kept the first bytes of the last entry only."""
        disk = SimDisk()
        index = time_index(disk)
        for timestamp, offset in ((1_800_000_000_000, 1), (1_800_000_000_500, 2)):
            index.append_if_newer(timestamp, BASE + offset)
        index.entries.write_out()
        assert time_index(disk, 24).is_sane()
        disk.open("/t").write_at(12 + 3, bytes(9))
        assert not time_index(disk, 24).is_sane()


class TestTransactionIndex:
    ENTRIES = (AbortedTransaction(1, 10, 20, 15), AbortedTransaction(2, 15, 30, 31))

    def index(self, disk: SimDisk, *, exists: bool = False) -> TransactionIndex:
        return TransactionIndex(disk, Handle(HandlePool(disk, 8), "/x"), exists=exists)

    def test_the_file_comes_with_the_first_entry(self) -> None:
        disk = SimDisk()
        index = self.index(disk)
        index.sync()
        index.truncate_to(5)
        index.reset()
        assert not index.exists()
        for entry in self.ENTRIES:
            index.append(entry)
        assert disk.open("/x").size() == 68
        assert self.index(disk, exists=True).entries() == list(self.ENTRIES)

    def test_a_truncated_transaction_index_keeps_the_entries_before_the_offset(self) -> None:
        disk = SimDisk()
        index = self.index(disk)
        for entry in self.ENTRIES:
            index.append(entry)
        index.truncate_to(30)
        assert index.entries() == self.index(disk, exists=True).entries() == [self.ENTRIES[0]]

    def test_a_damaged_transaction_index_is_refused(self) -> None:
        disk = SimDisk()
        index = self.index(disk)
        index.append(self.ENTRIES[0])
        with pytest.raises(
            CorruptRecordError, match="ends at offset 20, before the segment's base offset 21"
        ):
            index.check(21)
        index.check(20)
        disk.open("/x").write_at(34, b"more")
        with pytest.raises(CorruptRecordError, match="38 bytes are not a multiple"):
            self.index(disk, exists=True).entries()
        disk.open("/x").truncate(34)
        disk.open("/x").write_at(0, b"\0\7")
        with pytest.raises(CorruptRecordError, match="version 7"):
            self.index(disk, exists=True).entries()
